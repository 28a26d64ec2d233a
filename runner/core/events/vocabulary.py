"""Every event by the name it has in the log, and the way into the log and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from runner.contract import Json
from runner.core.events import calls, people, runs, site
from runner.core.events.kinds import Event
from runner.quick import quick

_ROOMS = (runs, calls, people, site)
VOCABULARY: dict[str, type[Event]] = {
    name: kind
    for room in _ROOMS
    for name, kind in vars(room).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == room.__name__
}
"""Every event by the name it has in the log."""
for _kind in VOCABULARY.values():
    quick(_kind)

_OUTSIDE_PAYLOAD = frozenset({"at", "step", "external_id"})
Fields = tuple[Callable[[Event], Any], tuple[tuple[str, Any], ...]]
_FIELDS: dict[type[Event], Fields] = {}


def _fields_of(kind: type[Event]) -> Fields:
    """(what reads them all, each one's name and default) of the fields that the payload may have."""
    known = _FIELDS.get(kind)
    if known is None:
        own = [f for f in fields(kind) if f.name not in _OUTSIDE_PAYLOAD]
        defaults = tuple((f.name, f.default_factory() if callable(f.default_factory) else f.default) for f in own)
        names = [f.name for f in own]
        # With two more names than are looked at: of a single one there would be no tuple.
        known = _FIELDS[kind] = (attrgetter(*names, "at", "step"), defaults)
    return known


def payload(event: Event) -> dict[str, Json]:
    """The event's own fields as JSON; a field that has its default is left out."""
    found: dict[str, Json] = {}
    read, known = _fields_of(type(event))
    for (name, default), value in zip(known, read(event), strict=False):
        if value != default:
            found[name] = list(value) if value.__class__ is tuple else value
    return found


def restore(type_name: str, *, at: int, step: str, external_id: str, data: Mapping[str, Json]) -> Event:
    """The event that was written. Unknown fields of a newer version are an error, not a guess."""
    kind = VOCABULARY[type_name]
    given = {
        name: tuple(value) if isinstance(value, list) and name in _TUPLES else value for name, value in data.items()
    }
    return kind(at=at, step=step, external_id=external_id, **given)


_TUPLES = frozenset(f.name for kind in VOCABULARY.values() for f in fields(kind) if str(f.type).startswith("tuple"))
