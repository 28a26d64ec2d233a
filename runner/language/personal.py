"""What is marked `personal: true`, by a flow of its inputs and by connectors of their fields, as a run pins it.

A place is a list of keys; `*` stands for every item of a list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from runner.contract import Action, Json, canonical
from runner.language.fields import FieldType, shape_of
from runner.language.flow import Flow

TEXT = "personal"
"""The name of the bundle's text that says it; there is none where nothing is marked."""


def marks(flows: Iterable[Flow], actions: Mapping[str, Action]) -> str:
    """`{"flows": {id: places}, "actions": {name: {"input": places, "output": places}}}`; empty: nothing is marked."""
    in_flows = {flow.id: places for flow in flows if (places := _marked(flow.inputs, ()))}
    in_actions = {name: sides for name, action in actions.items() if (sides := _sides(action))}
    return canonical({"flows": in_flows, "actions": in_actions}).decode() if in_flows or in_actions else ""


def personal_inputs(flow: Flow) -> frozenset[str]:
    """The inputs that hold personal data, in whole or in part."""
    return frozenset(name for name, *_ in _marked(flow.inputs, ()))


def _sides(action: Action) -> dict[str, list[list[str]]]:
    found = {side: _marked(getattr(action, side), action.personal) for side in ("input", "output")}
    return {side: places for side, places in found.items() if places}


def _marked(fields: Mapping[str, Json], names: Collection[str]) -> list[list[str]]:
    return [place for name, written in fields.items() for place in _below((name,), shape_of(written), names)]


def _below(place: tuple[str, ...], shape: FieldType | None, names: Collection[str]) -> Iterator[list[str]]:
    if place[-1] in names or (shape is not None and shape.personal):
        yield list(place)
    elif shape is not None:
        if shape.items is not None:
            yield from _below((*place, "*"), shape.items, names)
        for name, inner in (shape.fields or {}).items():
            yield from _below((*place, name), inner, names)
