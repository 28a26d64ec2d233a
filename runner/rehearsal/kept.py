"""A real run becomes a case in the flow's test, if it can: written, read back, played, and found green."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.core import events as e
from runner.core.state import State
from runner.errors import NotPossible
from runner.language.bundle import Bundle
from runner.language.rehearsed import load_flow_test
from runner.rehearsal.compare import Comparison
from runner.rehearsal.happened import Watched, happened_in
from runner.rehearsal.recording import Recording
from runner.rehearsal.script import Reader, Script
from runner.rehearsal.stage import Stage
from runner.rehearsal.writing import HEAD, as_yaml


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A test with the new case in it; `replaced` counts the personal values that stand-ins were put for."""

    text: str
    case: str
    replaced: int


def with_case(
    stage: Stage, pinned: Bundle, events: Sequence[e.Event], state: State, *, name: str, before: str, schema: str,
    redact: Callable[[str], str],
) -> Kept:  # fmt: skip
    """The flow's test (`before`: as it is now, empty where there is none) with a case made out of this run. `pinned` is
    what the run was decided by; the case is of the flow as it is now.

    Raises NotPossible: the run cannot be told as a case, or the flow goes another way by now.
    """
    recording = Recording(pinned, events, state)
    given = {"case": name, **recording.given()}
    flow = state.flow
    bare = HEAD.format(schema=schema, flow=flow) + redact(as_yaml({**given, "expect": {"end": "succeeded"}}))
    played = stage.play(_read(stage, flow, bare)[0])
    if played.happened.trouble:
        raise NotPossible(f"run {state.run} cannot be played again: {played.happened.trouble[0][1]}")
    real = happened_in(pinned, events, state, Watched())
    if otherwise := recording.went_otherwise(played.happened, real):
        raise NotPossible(f"run {state.run} cannot become a case: {otherwise}")
    expected = recording.stand_ins.without(recording.expected(played.happened))
    case = redact(as_yaml({**given, "expect": expected}))
    text = _added(before or HEAD.format(schema=schema, flow=flow), case, flow)
    script, comparison = _read(stage, flow, text)
    if red := comparison.differences(stage.play(script).happened):
        raise NotPossible(f"run {state.run} cannot become a case that is green: {red[0].what}")
    return Kept(text=text, case=case, replaced=recording.stand_ins.replaced)


def _read(stage: Stage, flow: str, text: str) -> tuple[Script, Comparison]:
    """The last case of a test, ready to be played, and what it expects. Raises NotPossible."""
    test = load_flow_test(text, f"{flow}.test.yaml")
    if test.model is None or test.source is None or test.problems:
        what = test.problems[0].what if test.problems else "it cannot be written down"
        raise NotPossible(f"the run cannot become a case: {what}")
    reader, number = Reader(test.model, test.source, stage.bundle), len(test.model.cases) - 1
    script = reader.script(number)
    comparison = Comparison(reader, test.model.cases[number].expect, script.path, stage.project.people)
    if reader.problems:
        raise NotPossible(f"the flow has changed since the run: {reader.problems[0].what}")
    return script, comparison


def _added(before: str, case: str, flow: str) -> str:
    """The test with the case behind its last one. Raises NotPossible where the list of cases is not what ends it."""
    text = before.rstrip("\n") + ("\n" if before.rstrip("\n").endswith("cases:") else "\n\n") + case
    was = load_flow_test(before, f"{flow}.test.yaml").model
    now = load_flow_test(text, f"{flow}.test.yaml")
    count = len(was.cases) if was is not None else 0
    if now.problems or now.model is None or len(now.model.cases) != count + 1:
        raise NotPossible(f"the case does not fit behind what {flow}.test.yaml holds; put it there by hand:\n{case}")
    return text
