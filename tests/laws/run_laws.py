"""Laws of the run as a whole: nothing is lost, time, the log itself (I19, I27, I30)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import replace
from tests.laws.branch_laws import awaiting
from tests.laws.register import law
from tests.laws.story import Story


@law("I19")
def nothing_is_lost(story: Story) -> Iterator[str]:
    """A run that has not ended has something that wakes it; an end is an end."""
    if story.spins:
        yield f"{story.spins} wake-ups woke nothing"
    if story.end == "exhausted":
        yield "the run does not come to rest"
    if story.end == "rests":
        is_paused = any(isinstance(event, e.RunPaused) for event in story.events)
        asked = [q for q in story.questions if not q.gone]
        if not asked and not is_paused and not awaiting(story):
            yield "the run rests, and nothing would ever wake it"
        for question in asked:
            if not question.event.owner or not question.event.choices:
                yield f"question {question.event.handoff} has no owner or no choices"
    for event in story.events[story.finished :] if story.finished else ():
        if event.kind_of_fact == "decision":
            yield f"{type(event).__name__} was decided after the end"


@law("I27")
def the_state_is_the_fold(story: Story) -> Iterator[str]:
    """Every fact survives JSON, and the log read back gives the same state."""
    back = []
    for event in story.raw:
        data = json.loads(json.dumps(e.payload(event)))
        back.append(
            e.restore(type(event).__name__, at=event.at, step=event.step, external_id=event.external_id, data=data)
        )
        if back[-1] != event:
            yield f"{type(event).__name__} reads back differently"
    old = replace(fold_all(story.before), seq=0)
    if fold_all(back, old) != fold_all(story.raw, old):
        yield "the log read back folds to another state"


@law("I30")
def time_goes_forward(story: Story) -> Iterator[str]:
    """Facts are in the order of their times; timers fire once, and not early."""
    at = 0
    fired: set[str] = set()
    for event in story.raw:
        if event.at < at and event.kind_of_fact == "decision":
            yield f"{type(event).__name__} stands before what came earlier"
        at = max(at, event.at)
        if isinstance(event, e.TimerFired):
            if event.at < event.due:
                yield f"the timer of {event.step} fired {event.due - event.at} ms early"
            if event.guard in fired:
                yield f"the timer of {event.step} fired twice"
            fired.add(str(event.guard))


@law("guards")
def guards_stand_once(story: Story) -> Iterator[str]:
    """What may stand once in a log stands once."""
    seen: set[str] = set()
    for event in story.raw:
        if event.guard is not None and event.guard in seen:
            yield f"{event.guard} stands twice"
        seen.add(event.guard or "")
