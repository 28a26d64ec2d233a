"""What a flow can find itself in: inputs, answers and people's words that lead to each of its steps.

Values are made out of the declared types; the conditions on the way to a step say which of them to try otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from runner.contract import Json, Purpose
from runner.drill.persons import Plan, Word
from runner.drill.places import EVERY, Origin, Places, Stand
from runner.drill.world import Answer, CallName, Script
from runner.language.bundle import Bundle
from runner.language.expressions import needed
from runner.language.expressions.comparisons import Comparison
from runner.language.fields import FieldType, field_types
from runner.language.flow import MODEL, Flow, Step
from runner.language.samples import sample_output
from runner.language.types import sample_entry
from runner.language.values import is_number
from runner.people.operations import Order

OWNER = "person:owner"
SEVERAL = 3
MOST_TRIES = 60
"""How many values for one step's conditions are tried."""
OTHER = "something else"
ELSEWHERE = "other@example.test"
LETTER = ("subject", "text")
"""Fields that a mail may leave to a template, and a model has to write."""
WORDS: Mapping[str, Word] = {"no": "no", "late": "late", "yes": "yes"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One value that is not the one that would be made. `value` for a whole list is how many items it has."""

    origin: Origin
    value: Json
    is_count: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a run finds: its inputs, what services answer and people say, and how it differs from the first one."""

    inputs: Mapping[str, Json]
    script: Script = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    choices: tuple[Choice, ...] = ()
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a run without a fault came by: the patterns of the steps that began, `choose#1` and `each*3`, and the
    steps that failed before they began.
    """

    steps: frozenset[str]
    ways: frozenset[str]
    fell: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """Both."""
        return self.steps | self.ways


Try = Callable[[Situation], Seen | None]
"""Runs a situation without a fault; None where the inputs are not taken."""


def made_inputs(flow: Flow) -> dict[str, Json]:
    """A value for each input, out of its type."""
    return {name: sample_entry(name, kind) for name, kind in field_types(flow.inputs).items()}


def situations(places: Places, given: Sequence[tuple[str, Mapping[str, Json]]], attempt: Try) -> list[Situation]:
    """Situations that lead to every step that can be led to, to each branch, and to lists with no, one and several
    items. `given` are inputs of the author's, with names; without any they are made.
    """
    first = given or (("", made_inputs(places.bundle.flow)),)
    search = _Search(places, attempt)
    for name, inputs in first:
        search.takes(situation_of(places, inputs, (), name))
    stands = places.stands.values()
    wanted = [(stand, way) for stand in stands for way in (stand.pattern, *_branches(stand))]
    lists = [(stand, f"{stand.pattern}*{n}") for stand in stands if stand.step.verb == "each" for n in (0, 1, SEVERAL)]
    for stand, way in (*wanted, *lists):
        if way not in search.known:
            search.lead_to(stand, way)
    return [situation for situation, _ in search.found]


def _branches(stand: Stand) -> tuple[str, ...]:
    numbers = range(len(stand.step.branches)) if stand.step.verb == "choose" else ()
    return tuple(f"{stand.pattern}#{number}" for number in numbers)


class _Search:
    """Situations that were found, with what each came by; `known` is all of that."""

    def __init__(self, places: Places, attempt: Try) -> None:
        self.places = places
        self.attempt = attempt
        self.found: list[tuple[Situation, Seen]] = []
        self.known: frozenset[str] = frozenset()
        self.fell: dict[str, tuple[Situation, Seen]] = {}

    def takes(self, situation: Situation, wanted: str = "") -> bool:
        """Keeps a situation that came by what is wanted, or by anything new."""
        came = self.attempt(situation)
        if came is not None and wanted in came.fell:
            self.fell.setdefault(wanted, (situation, came))
        if came is None or not (came.all >= {wanted} if wanted else came.all - self.known or not self.found):
            return False
        self.known |= came.all
        self.found.append((situation, came))
        return True

    def lead_to(self, stand: Stand, wanted: str) -> None:
        """Tries what the conditions on the way compare, beginning where most was come by. Where nothing leads there,
        a situation in which the step fails before it begins is kept.
        """
        for before, _ in sorted(self.found, key=lambda one: -len(one[1].steps)):
            for choices in itertools.islice(_choices(self.places, stand, wanted), MOST_TRIES):
                kept = tuple(one for one in before.choices if all(one.origin != new.origin for new in choices))
                if self.takes(situation_of(self.places, before.inputs, (*kept, *choices), before.name), wanted):
                    return
        if wanted in self.fell:
            self.found.append(self.fell[wanted])


def _choices(places: Places, stand: Stand, wanted: str) -> Iterator[tuple[Choice, ...]]:
    if stand.step.verb == "each" and "*" in wanted:
        origin = places.list_of(stand.step, stand.reach)
        if origin is not None:
            yield (Choice(origin=origin[:-1], value=int(wanted.rpartition("*")[2]), is_count=True),)
        return
    compared = places.hangs_on(stand)
    if stand.step.verb == "choose":
        branches = [branch.steps[0].id for branch in stand.step.branches if branch.steps]
        inner = [places.stands[stand.pattern.removesuffix(stand.step.id) + step] for step in branches]
        compared = list(dict.fromkeys([*compared, *(one for other in inner for one in places.hangs_on(other))]))
    values: dict[Origin, dict[str, Json]] = {}
    for origin, comparison in compared:
        values.setdefault(origin, {}).update((repr(value), value) for value in _values(comparison))
    many = [[None, *each.values()] for each in values.values()]
    for picked in sorted(itertools.islice(itertools.product(*many), 5_000), key=_size):
        if any(value is not None for value in picked):
            pairs = zip(values, picked, strict=True)
            yield tuple(Choice(origin=origin, value=value) for origin, value in pairs if value is not None)


def _size(picked: tuple[Json, ...]) -> int:
    return sum(value is not None for value in picked)


def _values(comparison: Comparison) -> list[Json]:
    if comparison.is_alone:
        return [False, True]
    found: list[Json] = []
    for value in comparison.values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        found += [value, value + 1, value - 1] if is_number else [value, OTHER]
    return found or [0, 1_000_000]


# --- a situation out of choices ------------------------------------------------------------------------------------


def situation_of(places: Places, inputs: Mapping[str, Json], choices: tuple[Choice, ...], name: str = "") -> Situation:
    """What a run finds with these choices made; a step that hands over is answered with "go on"."""
    made = _Making(places.bundle, inputs)
    choices = tuple(made.fitted(choice) for choice in choices)
    for choice in sorted(choices, key=lambda one: not one.is_count):
        made.take(choice)
    hands_over = [stand.pattern for stand in places.stands.values() if stand.step.verb == "hand_off"]
    answers = {pattern: (Order(action="go_on", by=OWNER),) * 20 for pattern in hands_over}
    script = {
        CallName(step=pattern, purpose=purpose): (Answer(output=output, stays=True),)
        for (pattern, purpose), output in made.outputs.items()
    }
    return Situation(
        inputs=made.inputs, script={**script, **made.script}, choices=choices, name=name,
        plan=Plan(approvals=made.approvals, events=made.events, answers=answers),
    )  # fmt: skip


class _Making:
    """Puts choices where they belong."""

    def __init__(self, bundle: Bundle, inputs: Mapping[str, Json]) -> None:
        self.bundle = bundle
        self.inputs: dict[str, Json] = dict(deepcopy(dict(inputs)))
        self.outputs: dict[tuple[str, Purpose], dict[str, Json]] = dict(self._open_outputs())
        self.script: dict[CallName, Sequence[Answer]] = dict(self._agents())
        self.events: dict[str, Mapping[str, Json] | None] = {}
        self.approvals: dict[str, Word] = {}

    def _open_outputs(self) -> Iterator[tuple[tuple[str, Purpose], dict[str, Json]]]:
        """Fields that the flow uses and the connector does not declare are texts."""
        for pattern, step in self.bundle.steps.items():
            action = self.bundle.actions.get(step.action)
            if action is None or step.verb not in ("read", "do"):
                continue
            known = sample_output(action, {})
            flows = [self.bundle.flow, *self.bundle.called.values()]
            texts = [(flow.steps, flow.outputs) for flow in flows if any(one is step for one in flow.every_step())]
            used = needed(texts, "steps", step.id)
            more: dict[str, Json] = {name: f"draft {name}" for name in used if name not in known and action.open_output}
            for name in used:
                inner = needed(texts, "steps", step.id, name)
                if inner and known.get(name) in ({}, None, "draft"):
                    more[name] = {field: f"draft {field}" for field in inner if not field.isdigit()}
            if more:
                yield (pattern, "do" if step.verb == "do" else "read"), more

    def _agents(self) -> Iterator[tuple[CallName, Sequence[Answer]]]:
        """An agent's model wants every tool once, in the order in which they are written, and then nothing more."""
        for pattern, step in self.bundle.steps.items():
            if step.verb != "agent" or step.limits is None:
                continue
            tools = [branch.steps[-1] for branch in step.branches][: step.limits.calls]
            calls = [{"tool": tool.id, "input": self._wanted(tool)} for tool in tools]
            turns = (Answer(output={"calls": calls}), Answer(output={"calls": [], "text": "Done."}, stays=True))
            yield CallName(step=f"{pattern}/{MODEL}", purpose="read"), turns

    def _wanted(self, tool: Step) -> dict[str, Json]:
        kinds = field_types(self.bundle.actions[tool.action].input)
        wanted = {name: kind for name, kind in kinds.items() if name not in tool.with_ and kind.kind != "file"}
        meant = {name: kind for name, kind in wanted.items() if not kind.optional or name in LETTER}
        return {name: sample_entry(name, kind) for name, kind in meant.items()}

    def fitted(self, choice: Choice) -> Choice:
        """The choice with a value of the kind that stands there."""
        kind, name, rest = choice.origin[0], choice.origin[1], choice.origin[2:]
        fields = self.bundle.flow.inputs
        if kind == "steps" and rest:
            action = self.bundle.actions.get(self.bundle.steps[name].action)
            name, *rest_of = rest
            fields, rest = (action.output if action is not None else {}), tuple(rest_of)
        if choice.is_count or kind not in ("inputs", "steps") or name not in fields:
            return choice
        place, value = _fitting(name, field_types({name: fields[name]})[name], rest, choice.value)
        cut = len(choice.origin) - len(rest)
        return replace(choice, origin=(*choice.origin[:cut], *place), value=value)

    def take(self, choice: Choice) -> None:
        kind, name, rest = choice.origin[0], choice.origin[1], choice.origin[2:]
        if kind == "inputs":
            fields = field_types(self.bundle.flow.inputs)
            value = self._items(fields.get(name), name, choice.value) if choice.is_count else choice.value
            _put(self.inputs, (name, *rest), value)
            return
        step = self.bundle.steps[name]
        if kind == "outcome":
            self._outcome(name, str(choice.value))
        elif step.verb == "wait_for":
            event = dict(self.events.get(name) or {})
            _put(event, rest, choice.value)
            self.events[name] = event
        elif step.verb in ("read", "do") and rest:
            self._answer(name, rest, choice)

    def _answer(self, name: str, rest: tuple[str, ...], choice: Choice) -> None:
        step = self.bundle.steps[name]
        action = self.bundle.actions[step.action]
        purpose: Purpose = "do" if step.verb == "do" else "read"
        output = self.outputs.setdefault((name, purpose), {})
        output.setdefault(rest[0], deepcopy(sample_output(action, {}).get(rest[0])))
        fields = field_types(action.output)
        value = self._items(fields.get(rest[0]), rest[0], choice.value) if choice.is_count else choice.value
        if rest == ("found",) and value is False:
            self.outputs[name, purpose] = {"found": False}
            return
        _put(output, rest, value)

    def _outcome(self, name: str, word: str) -> None:
        purpose: Purpose = "do" if self.bundle.steps[name].verb == "do" else "read"
        if self.bundle.steps[name].verb == "approve" and word in WORDS:
            self.approvals[name] = WORDS[word]
        elif word == "found":
            self.script[CallName(step=name, purpose="find")] = (Answer(count=1, stays=True),)
        elif word == "refused":
            self.script[CallName(step=name, purpose=purpose)] = (Answer(result="refused", stays=True),)
        elif word == "late":
            self.events[name] = None

    def _items(self, kind: FieldType | None, name: str, count: Json) -> list[Json]:
        """Items that differ, so that each has a name of its own."""
        inner = kind.items if kind is not None else None
        one = sample_entry(name, inner) if inner is not None else self._untyped_item()
        return [_numbered(one, number) for number in range(1, int(count) + 1)]

    def _untyped_item(self) -> Json:
        flows = [self.bundle.flow, *self.bundle.called.values()]
        used = needed([flow.steps for flow in flows], "item")
        return {field: f"draft {field}" for field in used} if used else "draft item"


def _numbered(value: Json, number: int) -> Json:
    if isinstance(value, Mapping):
        return {name: _numbered(each, number) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    name, at, domain = value.partition("@")
    return f"{name}{number}{at}{domain}" if at else f"{value} {number}" if "draft" in value else value


def _fitting(name: str, kind: FieldType, rest: tuple[str, ...], value: Json) -> tuple[tuple[str, ...], Json]:
    """The place inside the field and a value for it that is of its kind, where the one that is compared is not."""
    if kind.kind == "money" and rest in ((), ("value",)) and is_number(value):
        return (), {**sample_entry(name, kind), "value": value}
    if rest:
        return rest, value
    if kind.kind == "choice" and value not in kind.choices:
        return rest, list(kind.choices)[-1]
    if kind.kind == "email" and "@" not in str(value):
        return rest, ELSEWHERE
    if kind.kind == "text" and not isinstance(value, str):
        return rest, OTHER
    return rest, value


def _put(into: Json, path: tuple[str, ...], value: Json) -> None:
    """Sets what stands at a path; `*` means each item of a list."""
    if isinstance(into, list):
        for number, item in enumerate(into):
            if path[0] in (EVERY, str(number)) and len(path) > 1:
                _put(item, path[1:], value)
    elif isinstance(into, dict):
        if len(path) == 1:
            into[path[0]] = value
        else:
            inner = into.get(path[0])
            if not isinstance(inner, dict | list):
                inner = into[path[0]] = {}
            _put(inner, path[1:], value)
