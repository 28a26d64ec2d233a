"""Answers that nobody gave: what an action is answered with where nothing is sent (drafts, drills, simulations)."""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Action, Json, missing
from runner.language.types import check_fields, field_type, read_money, sample


def sample_output(action: Action, given: Mapping[str, Json]) -> dict[str, Json]:
    """The action's own sample, else values made out of its output types; the same each time.

    A field that the input has too is what was given, where that fits: `update_contact` answers with the id that it was
    asked to change. Where the output is open, so are the input's further fields. An agent's model uses each tool once.
    """
    output = {**sample(action.output), **(action.sample or {})}
    if action.is_agent and isinstance(turn := given.get("turn"), Mapping) and not turn["so_far"]:
        output["calls"] = [{"tool": one["name"], "input": _needed(one["fields"]), "wrong": ""} for one in turn["tools"]]
    for name, value in given.items():
        if value is None:
            continue
        declared = {name: action.output[name]} if name in action.output else {}
        is_further = action.open_input and action.open_output and name not in action.input
        if is_further or (declared and name in action.input and not check_fields(declared, {name: value})):
            output[name] = read_money(field_type(declared[name]), value, strict=True) if declared else value
    return output


def _needed(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Something for every field that must be given."""
    return sample({name: fields[name] for name in missing(fields, ())})
