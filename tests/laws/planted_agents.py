"""Planted mistakes about agents. A law must see each."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import agents, calls, decide, forward, scopes
from runner.core import events as e
from runner.core.commands import Record
from runner.core.keys import make_key
from tests.laws.planted import after, mistake

FLOWS = ("agent_acts", "agent_undone")


@mistake("an agent's failure is made good without a word", *FLOWS)
def not_reviewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "belongs_to_agent", lambda bundle, path: False)


@mistake("an agent goes on while a person is asked about its tool", *FLOWS)
def goes_on_in_doubt(patch: pytest.MonkeyPatch) -> None:
    right = scopes.walk

    def wrong(bundle: Any, state: Any, steps: Any, scope: str, now: int) -> Any:
        found = right(bundle, state, steps, scope, now)
        is_asked = any(handoff.step.startswith(f"{scope}/") for handoff in state.open_handoffs)
        return None if found == () and is_asked and steps[-1].tool_of else found

    patch.setattr(scopes, "walk", wrong)


@mistake("the calls of a turn are taken from the end", *FLOWS)
def from_the_end(patch: pytest.MonkeyPatch) -> None:
    after(patch, agents, "_wanted", lambda found, *_: found[::-1])


@mistake("only the first call of a turn is made", *FLOWS)
def only_the_first(patch: pytest.MonkeyPatch) -> None:
    after(patch, agents, "_wanted", lambda found, *_: found[:1])


@mistake("a call that does not fit is made all the same", *FLOWS)
def wrong_calls_made(patch: pytest.MonkeyPatch) -> None:
    after(patch, agents, "_asked", lambda found, *_: (found[0], {**found[1], "wrong": ""}))


@mistake("the model's fields win over those that the flow fixes", "agent_acts")
def overridden(patch: pytest.MonkeyPatch) -> None:
    def wrong(found: Any, agent: Any, call: Any) -> Any:
        name, value = found
        return (name, {"input": {**value["input"], **call["input"]}, "wrong": ""}) if name == "note" else found

    after(patch, agents, "_asked", wrong)


@mistake("the limit of calls is not kept", *FLOWS)
def endless(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agents, "_over_limit", lambda place, moves, tool: "")


@mistake("what a tool is given is made anew", "agent_acts")
def other_input(patch: pytest.MonkeyPatch) -> None:
    def wrong(place: Any, action: Any, names: Any) -> Any:
        found = agents.call_input(place, action, names)
        return found if "turn" in found or not place.step.tool_of else {**found, "id": "c9"}

    patch.setattr(forward, "call_input", wrong)


@mistake("tool calls share their keys", *FLOWS)
def one_key(patch: pytest.MonkeyPatch) -> None:
    right = make_key

    def wrong(**words: Any) -> str:
        parts = words["step"].split("/")
        is_tool = len(parts) > 1 and parts[-1] != "model" and parts[-2].isdigit() and "handle" in parts
        return right(**{**words, "step": parts[-1] if is_tool else words["step"]})

    patch.setattr(calls, "make_key", wrong)


@mistake("a tool that failed is passed over by itself", *FLOWS)
def passed_over(patch: pytest.MonkeyPatch) -> None:
    right = scopes.walk

    def wrong(bundle: Any, state: Any, steps: Any, scope: str, now: int) -> Any:
        found = right(bundle, state, steps, scope, now)
        if found and isinstance(found[0], Record) and isinstance(found[0].event, e.StepFailed):
            event = found[0].event
            if bundle.step(event.step).tool_of:
                return (Record(event=replaced(event, goes_on=True)),)
        return found

    patch.setattr(scopes, "walk", wrong)
