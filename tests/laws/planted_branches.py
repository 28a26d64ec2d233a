"""Planted mistakes about branches: what `choose` and `parallel` could get wrong. A law must see each."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core import closing, decide, fold, place, scopes
from runner.core import events as e
from runner.core.commands import Record, Send
from runner.core.paths import join, scope_of
from runner.core.place import Place
from runner.core.state import State, replace
from tests.laws.planted import after, before, mistake


@mistake("the steps of branches that are not taken are not skipped", "chooses", "chooses_deep")
def not_passed_over(patch: pytest.MonkeyPatch) -> None:
    for room in (scopes, place):
        patch.setattr(room, "pass_over", lambda place, branches: ())


@mistake("the steps of branches inside branches are not skipped", "chooses_deep", "branches_mixed")
def deep_not_passed_over(patch: pytest.MonkeyPatch) -> None:
    def wrong(at: Place, branches: Any) -> Any:
        paths = [join(at.scope, step.id) for branch in branches for step in branch.steps]
        return tuple(Record(event=e.StepSkipped(at=at.now, step=path, why="branch")) for path in paths)

    for room in (scopes, place):
        patch.setattr(room, "pass_over", wrong)


@mistake("of a choose that a person leaves out, the steps inside are not skipped", "chooses_bad")
def left_out_without_its_steps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "pass_over", lambda place, branches: ())


@mistake("of what a branch decides only the first fact is kept", "branches_mixed", "branches_nested")
def one_fact_of_a_branch(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, *_: Any) -> Any:
        return commands[:1] if commands and isinstance(commands[0], Record) else commands

    _verb(patch, "parallel", wrong)


@mistake("every branch of a choose is taken", "chooses", "chooses_deep")
def all_branches(patch: pytest.MonkeyPatch) -> None:
    def wrong(at: Place) -> Any:
        inside = tuple(one for branch in at.step.branches for one in branch.steps)
        commands = scopes.walk(at.bundle, at.state, inside, at.scope, at.now)
        return scopes._ended(at) if commands is None else commands

    patch.setattr(scopes, "_VERBS", {**scopes._VERBS, "choose": wrong})


@mistake("a choose whose branches do not fit takes the first", "chooses_deep", "branches_mixed")
def first_where_none_fits(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, at: Place) -> Any:
        if at.known is None and isinstance(getattr(commands[0], "event", None), e.StepSkipped) and at.step.when is None:
            return (Record(event=e.BranchChosen(at=at.now, step=at.path, branch=0)), *commands[1:])
        return commands

    _verb(patch, "choose", wrong)


@mistake("which branch was chosen is forgotten", "chooses", "chooses_by_outcome")
def choice_forgotten(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, event: e.BranchChosen) -> State:
        return fold._branch_chosen(state, e.BranchChosen(at=event.at, step=event.step, branch=0))

    patch.setattr(fold, "_READERS", {**fold._READERS, e.BranchChosen: wrong})


@mistake("a name out of a branch that was not taken has an empty value", "chooses_missing")
def empty_instead_of_missing(patch: pytest.MonkeyPatch) -> None:
    def wrong(names: Any, state: State, *_: Any, **__: Any) -> Any:
        skipped = {path: {"id": ""} for path, step in state.steps.items() if step.status == "skipped"}
        return {**names, "steps": {**skipped, **names.get("steps", {})}}

    after(patch, place, "names_in_reach", wrong)


@mistake("what was skipped has the outcome done", "chooses", "branches_mixed")
def skipped_is_done(patch: pytest.MonkeyPatch) -> None:
    def wrong(names: Any, state: State, *_: Any, **__: Any) -> Any:
        words = {path: "done" if word == "skipped" else word for path, word in names["outcome"].items()}
        return {**names, "outcome": words}

    after(patch, decide, "names_in_reach", wrong)


@mistake("branches run one after the other", "branches_once", "branches_of_all")
def one_after_the_other(patch: pytest.MonkeyPatch) -> None:
    def wrong(at: Place) -> Any:
        if at.known is None:
            return (Record(event=e.ScopeStarted(at=at.now, step=at.path, kind="parallel")),)
        return next((commands for commands in _branches(at) if commands is not None), scopes._ended(at))

    patch.setattr(scopes, "_VERBS", {**scopes._VERBS, "parallel": wrong})


@mistake("a parallel ends with the first of its branches", "branches", "branches_once")
def ends_with_the_first(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, at: Place) -> Any:
        if at.known is None or at.known.status != "open":
            return commands
        return scopes._ended(at) if None in _branches(at) else commands

    _verb(patch, "parallel", wrong)


@mistake("what stands behind a parallel does not wait for it", "branches", "branches_once")
def not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, steps: Any, scope: str, now: int) -> Any:
        is_whole = steps == bundle.flow.steps
        is_out = commands == () and steps and steps[-1].id not in state.steps
        return scopes.walk(bundle, state, steps[-1:], scope, now) if is_whole and is_out else commands

    after(patch, decide, "walk", wrong)


@mistake("two branches give their calls the same start number", "branches", "branches_undone")
def one_start_number(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, state: State, found: Any) -> Any:
        is_calls = commands and all(isinstance(command, Send) for command in commands)
        return tuple(command for one in found for command in one) if is_calls else commands

    after(patch, scopes, "_together", wrong)


@mistake("the last branch starts first", "branches", "branches_undone")
def last_branch_first(patch: pytest.MonkeyPatch) -> None:
    before(patch, scopes, "_together", lambda state, found: ((state, found[::-1]), {}))


@mistake("branches are made good at once although nobody said so", "branches_undone")
def always_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_are_beside", lambda bundle, path, other: path[0] != other[0])


@mistake("made good at once is all of the flow at once", "branches_at_once")
def all_at_once(patch: pytest.MonkeyPatch) -> None:
    def wrong(bundle: Any, path: str, other: str) -> bool:
        return bool(bundle.flow_at(scope_of(path)).lanes())

    patch.setattr(closing, "_are_beside", wrong)


@mistake("a failure in one branch closes nothing while another is under way", "branches_review", "branches_at_once")
def forward_goes_on(patch: pytest.MonkeyPatch) -> None:
    def wrong(closed: Any, bundle: Any, state: State, now: int) -> Any:
        return None if any(call.is_open for call in state.calls.values()) else closed

    def no_failure(bundle: Any, state: State, now: int) -> Any:
        return (bundle, replace(state, failure=None) if any(c.is_open for c in state.calls.values()) else state, now)

    after(patch, decide, "_why_closed", wrong)
    before(patch, decide, "_forward", lambda *args: (no_failure(*args), {}))


@mistake("timers of other branches do not fire while a person looks at a failure", "branches_review")
def timers_stand_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "fire_due", lambda state, now: ())


@mistake("a failure is asked about when every doubt beside it is answered", "branches_review")
def asked_too_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_waits_for", lambda state, failed: closing.is_settling(state))


def _branches(at: Place) -> list[Any]:
    return [scopes.walk(at.bundle, at.state, branch.steps, at.scope, at.now) for branch in at.step.branches]


def _verb(patch: pytest.MonkeyPatch, verb: Any, change: Any) -> None:
    right = scopes._VERBS[verb]

    def wrong(at: Place) -> Any:
        return change(right(at), at)

    patch.setattr(scopes, "_VERBS", {**scopes._VERBS, verb: wrong})
