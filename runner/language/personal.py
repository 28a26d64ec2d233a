"""What is marked `personal: true`, by a flow of its inputs and by connectors of their fields, as a run pins it.

A place is a list of keys; `*` stands for every item of a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from runner.contract import Action, Json, canonical
from runner.language.fields import FieldType, shape_of
from runner.language.flow import Flow

TEXT = "personal"
"""The name of the bundle's text that says it; there is none where nothing is marked."""


def marks(flows: Iterable[Flow], actions: Mapping[str, Action]) -> str:
    """`{"flows": {id: places}, "actions": {name: {"input": places, "output": places}}}`; empty: nothing is marked."""
    in_flows = {flow.id: places for flow in flows if (places := _marked(flow.inputs))}
    in_actions = {
        name: sides
        for name, action in actions.items()
        if (sides := {side: places for side in ("input", "output") if (places := _marked(getattr(action, side)))})
    }
    return canonical({"flows": in_flows, "actions": in_actions}).decode() if in_flows or in_actions else ""


def _marked(fields: Mapping[str, Json]) -> list[list[str]]:
    return [place for name, written in fields.items() for place in _below((name,), shape_of(written))]


def _below(place: tuple[str, ...], shape: FieldType | None) -> Iterator[list[str]]:
    if shape is None:
        return
    if shape.personal:
        yield list(place)
        return
    if shape.items is not None:
        yield from _below((*place, "*"), shape.items)
    for name, inner in (shape.fields or {}).items():
        yield from _below((*place, name), inner)
