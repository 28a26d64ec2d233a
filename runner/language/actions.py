"""An action as JSON: how a bundle pins it, and what a check remembers of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields

from runner.contract import Action, Draft, Json, Retry, Undo


def action_to_json(action: Action) -> dict[str, Json]:
    """An action as JSON, without what has its default."""
    written: dict[str, Json] = {}
    for one in fields(Action):
        value = getattr(action, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != default:
            written[one.name] = _plain(value)
    return written


def _plain(value: Json) -> Json:
    if isinstance(value, Undo | Draft):
        return {"action": value.action, "with": _plain(value.with_)}
    if isinstance(value, Retry):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(Retry)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def action_from_json(written: Mapping[str, Json]) -> Action:
    """The action out of its JSON; keys that this version does not know are passed over."""
    known = {one.name for one in fields(Action)}
    given = {key: value for key, value in written.items() if key in known}
    for name, kind in (("undo", Undo), ("draft", Draft)):
        if given.get(name) is not None:
            given[name] = kind(action=given[name]["action"], with_=given[name]["with"])
    if given.get("retry") is not None:
        given["retry"] = Retry(**{**given["retry"], "never_on": frozenset(given["retry"]["never_on"])})
    if "find_by" in given:
        given["find_by"] = tuple(given["find_by"])
    return Action(**given)
