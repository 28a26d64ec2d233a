"""Every event by the name it has in the log, and the way into the log and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
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
_DEFAULTS: dict[type[Event], tuple[tuple[str, Any], ...]] = {}


def _payload_fields(kind: type[Event]) -> tuple[tuple[str, Any], ...]:
    known = _DEFAULTS.get(kind)
    if known is None:
        known = tuple(
            (f.name, f.default_factory() if callable(f.default_factory) else f.default)
            for f in fields(kind)
            if f.name not in _OUTSIDE_PAYLOAD
        )
        _DEFAULTS[kind] = known
    return known


def payload(event: Event) -> dict[str, Json]:
    """The event's own fields as JSON; a field that has its default is left out."""
    found: dict[str, Json] = {}
    for name, default in _payload_fields(type(event)):
        value = getattr(event, name)
        if value != default:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def restore(type_name: str, *, at: int, step: str, external_id: str, data: Mapping[str, Json]) -> Event:
    """The event that was written. Unknown fields of a newer version are an error, not a guess."""
    kind = VOCABULARY[type_name]
    given = {
        name: tuple(value) if isinstance(value, list) and name in _TUPLES else value for name, value in data.items()
    }
    return kind(at=at, step=step, external_id=external_id, **given)


_TUPLES = frozenset(f.name for kind in VOCABULARY.values() for f in fields(kind) if str(f.type).startswith("tuple"))
