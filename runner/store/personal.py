"""The personal data in one run's log: what it is, where it stands, and the log without it.

A run's bundle says which fields are personal (`language.personal`). Their values are known from the entries that bring
them, and looked for in all others: a sentence that quotes a mail address holds it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from runner.contract import Json
from runner.core import events as e
from runner.core.events import payload
from runner.language.personal import TEXT
from runner.secrets import forms_of, redact_text
from runner.store.facts import EffectView, HandOffView, QuarantineView, RunView

HIDDEN = "•••"
SHORTEST, SHORTEST_OTHER = 4, 2
"""Characters of a value that is looked for inside texts; the second where it is not ASCII: 佐藤 is a whole name.
A shorter one is found only where it stands alone."""

E = TypeVar("E", bound=e.Event)
V = TypeVar("V", RunView, EffectView, HandOffView, QuarantineView)
_CONTENT = frozenset(
    {
        "inputs", "trigger", "request", "input", "output", "outputs", "shown", "show", "edited", "data", "match",
        "value", "summary", "note", "evidence", "say", "reference", "comment", "reason", "why", "run_key", "record",
        "name", "starter", "external_id", "left_out",
    }
)  # fmt: skip
"""Fields of events that hold what people and services wrote. All others are names of ours, numbers and digests."""
_WORDS = frozenset({"why", "reason"})
"""Of these, fields that are sometimes a word of ours, which the run is decided by."""
_NAMES = frozenset({"record", "name", "starter"})
"""And those that name a record or a person."""


class Personal:
    """The personal values of one run. `texts` are its bundle's; `known` are values that are personal in any case."""

    def __init__(self, texts: Mapping[str, str], known: Iterable[str] = ()) -> None:
        self._marks: Mapping[str, Any] = json.loads(texts.get(TEXT, "{}"))
        self._actions: dict[tuple[str, str], str] = {}
        self._values: dict[str, None] = dict.fromkeys(known)
        self._needles: tuple[tuple[str, str], ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing is personal here."""
        return not self._marks and not self._values

    @property
    def values(self) -> Sequence[str]:
        """Every personal value that was learnt, as text."""
        return tuple(self._values)

    # -- learning --

    def learn(self, events: Iterable[e.Event | None]) -> Personal:
        """Takes the values out of a log's entries."""
        for event in events:
            for name, places in self._places(event) if event is not None else ():
                for place in places:
                    self._values.update((text, None) for text in _texts(_at(getattr(event, name), place)))
        self._needles = None
        return self

    def _places(self, event: e.Event) -> Iterator[tuple[str, Sequence[Sequence[str]]]]:
        """(field of the event, places in it that are personal)."""
        flows, actions = self._marks.get("flows", {}), self._marks.get("actions", {})
        if isinstance(event, e.RunStarted):
            yield "inputs", flows.get(event.flow, ())
        if isinstance(event, e.ScopeStarted) and event.kind == "call":
            yield "value", flows.get(event.name, ())
        if isinstance(event, e.CallIntended):
            self._actions[event.step, event.purpose] = event.action
        purpose = getattr(event, "purpose", "do")
        names = (self._actions.get((event.step, each)) for each in (purpose, "do", "read", "find"))
        name = next(filter(None, names), "")
        marked = actions.get(getattr(event, "action", name), {})
        for side in ("input", "output"):
            if side in marked and hasattr(event, side):
                yield side, marked[side]

    def know(self, values: Iterable[str]) -> Personal:
        """These values are personal too."""
        self._values.update((value, None) for value in values)
        self._needles = None
        return self

    # -- without it --

    def event(self, event: E) -> E:
        """The event without personal data; itself where it has none."""
        changes: dict[str, Any] = {}
        for name, places in self._places(event):
            value = getattr(event, name)
            for place in places:
                value = _hidden(value, place)
            changes[name] = value
        for field in fields(event):
            if field.name in _CONTENT:
                value = changes.get(field.name, getattr(event, field.name))
                changes[field.name] = self.json(value)
        changes = {name: value for name, value in changes.items() if value != getattr(event, name)}
        return replace(event, **changes) if changes else event

    def json(self, value: Json) -> Json:
        """The value without personal data."""
        if isinstance(value, str):
            return HIDDEN if value in self._values else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.json(item) for item in value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return HIDDEN if str(value) in self._values else value
        return value

    def fields_of(self, told: V) -> V:
        """A row of a table beside the log without personal data."""
        changes = {
            field.name: self.json(getattr(told, field.name))
            for field in fields(told)
            if field.name in _CONTENT or field.name in ("title", "waiting_for")
        }
        return replace(told, **changes)

    def text(self, text: str, shown: str = HIDDEN) -> str:
        """The text without any personal value, in whatever coding it stands there."""
        if self._needles is None:
            found = {form for value in self._values if is_long(value) for form in _forms(value)}
            self._needles = tuple((form, HIDDEN) for form in sorted(found, key=lambda form: -len(form)))
        needles = self._needles if shown == HIDDEN else tuple((form, shown) for form, _ in self._needles)
        return redact_text(text, needles) if needles and text else text


def remains(event: e.Event, renamed: Callable[[str], str]) -> dict[str, Json]:
    """What is left of an entry whose payload is erased: all but its content. `renamed` is asked for names."""
    left: dict[str, Json] = {}
    for name, value in payload(event).items():
        if name not in _CONTENT or (name in _WORDS and isinstance(event, (e.OutcomeEvent, e.StepSkipped))):
            left[name] = value
        elif isinstance(value, str):
            left[name] = renamed(value) if name in _NAMES else HIDDEN
    return left


def _hidden(value: Json, place: Sequence[str]) -> Json:
    if not place:
        return value if value is None else HIDDEN
    first, *rest = place
    if first == "*":
        return [_hidden(item, rest) for item in value] if isinstance(value, list) else value
    if isinstance(value, Mapping) and first in value:
        return {**value, first: _hidden(value[first], rest)}
    return value


def _at(value: Json, place: Sequence[str]) -> Json:
    """What stands at a place; a list where there are several."""
    for number, key in enumerate(place):
        if key == "*":
            return [_at(item, place[number + 1 :]) for item in value] if isinstance(value, list) else None
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _texts(value: Json) -> Iterator[str]:
    """The texts and numbers in a value; of money the amount, of a file its name and digest."""
    if isinstance(value, Mapping):
        named = {"value"} if set(value) == {"value", "currency"} else set(value)
        named = {"name", "sha256"} if {"name", "sha256", "size"} <= set(value) else named
        for name in named:
            yield from _texts(value[name])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
        yield str(value)


def is_long(value: str) -> bool:
    """Whether a value is looked for inside texts."""
    return len(value) >= (SHORTEST if value.isascii() else SHORTEST_OTHER) and value != HIDDEN


def _forms(value: str) -> Iterator[str]:
    for written in {value, value.lower(), value.upper()}:
        yield from forms_of(written, SHORTEST_OTHER)
    if value.lstrip("-").isdigit():
        yield f"{int(value):,}"
