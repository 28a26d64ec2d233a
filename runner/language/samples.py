"""Answers that nobody gave: what an action is answered with where nothing is sent (drafts, drills, simulations)."""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Action, Json
from runner.language.types import check_fields, sample


def sample_output(action: Action, given: Mapping[str, Json]) -> dict[str, Json]:
    """The action's own sample, else values made out of its output types; the same each time.

    A field that the input has too is what was given, where that fits: `update_contact` answers with the id that it was
    asked to change. Where the output is open, so are the input's further fields.
    """
    output = {**sample(action.output), **(action.sample or {})}
    for name, value in given.items():
        if value is None:
            continue
        declared = {name: action.output[name]} if name in action.output else {}
        is_further = action.open_input and action.open_output and name not in action.input
        if is_further or (declared and name in action.input and not check_fields(declared, {name: value})):
            output[name] = value
    return output
