"""Personal data of a real run, and what stands for it in a test: the same person is the same stand-in everywhere.

Personal is what a flow or a connector marks so, every mail address and telephone number, and what stands in a field
that is called like one of a person (`name`, `street` …).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.language.bundle import Bundle
from runner.language.fields import FieldType, shape_of
from runner.language.personal import TEXT

_NAMES = re.compile(
    r"(?:(?:first|last|full|given|family|contact|customer|company|sender|recipient)_?)?name|e?mail|phone|tel|mobile|fax"
    r"|address\d?|street|zip|postcode|birth(?:day|date)?|sender|recipient",
    re.IGNORECASE,
)
_PERHAPS = re.compile(r"customer|client|company|person|contact|supplier|employee|owner|author|from|to", re.IGNORECASE)
"""Fields that hold a name or an id: without a digit it is a name."""
_MAIL = re.compile(r"[^\s@<>,;:\"'()\[\]]+@[^\s@<>,;:\"'()\[\]]+\.[A-Za-z]{2,}")
_DIGITS = re.compile(r"(?<![\w-])(?!\d{4}-\d\d-\d\d)\+?\d[\d ()-]{7,}\d(?![\w-])")
"""A telephone number, or that of a card, inside of a sentence."""
LONGEST_NAME = 60
_LEAST = 3
"""A personal text that is shorter is only replaced where it is all there is."""
Place = tuple[str, ...]


class StandIns:
    """Collects what is personal (`see`), then replaces it everywhere (`without`)."""

    def __init__(self, bundle: Bundle) -> None:
        marked = json.loads(bundle.texts.get(TEXT, "{}"))
        self._of_flows: Mapping[str, list[list[str]]] = marked.get("flows", {})
        self._of_actions: Mapping[str, Mapping[str, list[list[str]]]] = marked.get("actions", {})
        self._bundle = bundle
        self._ours = "\n".join(one for name, one in bundle.texts.items() if name.startswith(("flow:", "template:")))
        self._found: dict[str, str] = {}
        self._persons = 0

    def see_inputs(self, flow: str, fields: Mapping[str, Json], given: Mapping[str, Json]) -> None:
        """What a flow was given."""
        self._see(given, fields, {tuple(place) for place in self._of_flows.get(flow, [])})

    def see_call(self, action: str, side: str, given: Mapping[str, Json]) -> None:
        """What an action was given (`side`: input), or answered (output)."""
        known = self._bundle.actions.get(action)
        places = {tuple(place) for place in self._of_actions.get(action, {}).get(side, [])}
        self._see(given, getattr(known, side, {}), places, may_be_ours=True)

    def see(self, given: Json) -> None:
        """Anything else: of its fields only the names tell."""
        self._see(given if isinstance(given, Mapping) else {"": given}, {}, set())

    @property
    def replaced(self) -> int:
        """How many different values are replaced, parts of names among them."""
        return len(self._found)

    def without(self, value: Json) -> Json:
        """The value with a stand-in for everything personal, at any depth, keys too."""
        if isinstance(value, Mapping):
            return {self._text(str(name)): self.without(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.without(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if text in self._found:
            return self._found[text]
        for known in sorted((one for one in self._found if len(one) >= _LEAST), key=len, reverse=True):
            text = text.replace(known, self._found[known])
        return text

    # -- what is personal --

    def _see(
        self, record: Mapping[str, Json], fields: Mapping[str, Json], places: set[Place], *, may_be_ours: bool = False
    ) -> None:
        """One record is one person, unless its values tell that they are of several. What stands in the flow itself
        (`may_be_ours`) is nobody's secret.
        """
        for found in _records(record, (), {name: shape_of(kind) for name, kind in fields.items()}, places):
            known = [(kind, text) for kind, text in found if text.strip() and text not in self._stand_ins]
            new = [one for one in known if one[1] not in self._found and not (may_be_ours and one[1] in self._ours)]
            numbers = [number for _, text in known if (number := self._number(text)) is not None]
            kinds = [kind for kind, _ in new]
            for kind, text in new:
                if kinds.count(kind) > 1 or not numbers:
                    self._persons += 1
                    numbers = [self._persons]
                self._found[text] = _stand_in(kind, numbers[0])
                for part in text.split() if kind == "name" else ():
                    if len(part) >= _LEAST and part[0].isupper() and part not in self._ours:
                        self._found.setdefault(part, self._found[text])

    @property
    def _stand_ins(self) -> frozenset[str]:
        return frozenset(self._found.values())

    def _number(self, text: str) -> int | None:
        known = re.search(r"\d+", self._found.get(text, "").removeprefix("+81 3 0000 "))
        return int(known.group()) if known else None


def _stand_in(kind: str, number: int) -> str:
    if kind == "email":
        return f"person{number}@example.test"
    if kind == "phone":
        return f"+81 3 0000 {number:04}"
    if kind == "date":
        return "2000-01-01"
    return f"Person {number}" if kind == "name" else f"Words of person {number}"


def _records(
    record: Mapping[str, Json], place: Place, shapes: Mapping[str, FieldType | None], places: set[Place]
) -> Iterator[list[tuple[str, str]]]:
    """(kind, text) of everything personal in a record, then in those inside it."""
    own: list[tuple[str, str]] = []
    inner: list[tuple[Mapping[str, Json], Place, FieldType | None]] = []
    waiting = [(one, (*place, str(name)), shapes.get(str(name))) for name, one in record.items()]
    while waiting:
        value, here, shape = waiting.pop(0)
        if isinstance(value, Mapping):
            inner.append((value, here, shape))
        elif isinstance(value, list):
            waiting += [
                (one, (*here, "*"), shape.items if shape is not None and shape.items else shape) for one in value
            ]
        elif isinstance(value, str):
            own += _in_text(value, here, shape, places)
    yield own
    for one, here, shape in inner:
        yield from _records(one, here, (shape.fields or {}) if shape is not None else {}, places)


def _in_text(value: str, place: Place, shape: FieldType | None, places: set[Place]) -> Iterator[tuple[str, str]]:
    kind = shape.kind if shape is not None else ""
    field = next((part for part in reversed(place) if part != "*"), "")
    is_marked = any(place[: len(marked)] == marked for marked in places)
    if kind in ("email", "phone") or (is_marked and kind == "date"):
        yield kind, value
    elif _MAIL.fullmatch(value):
        yield "email", value
    elif _is_of_person(field, value) or is_marked:
        yield "name" if len(value) <= LONGEST_NAME and _is_of_person(field, value) else "text", value
    else:
        yield from (("email", found) for found in _MAIL.findall(value))
        yield from (("phone", found) for found in _DIGITS.findall(value) if found != value)


def _is_of_person(field: str, value: str) -> bool:
    return bool(_NAMES.fullmatch(field) or (_PERHAPS.fullmatch(field) and not re.search(r"\d", value)))
