"""Laws of locks, as far as one run's log can tell: what a step locks is the run's before the step is sent."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import events as e
from tests.laws.register import law, named
from tests.laws.story import Story


@law("locked first")
def a_locked_record_is_taken_before_the_step_is_sent(story: Story) -> Iterator[str]:
    """Every forward change has its lock in the log before it, and that of the run's own record where it needs one."""
    taken = set()
    for event in story.events:
        if isinstance(event, e.RecordLocked):
            taken.add(event.record)
        if isinstance(event, e.CallIntended) and event.purpose == "do" and story.started.mode != "draft":
            for record in _needed(story, event):
                if record not in taken:
                    yield f"{named(event)} was intended without the lock of {record}"


def _needed(story: Story, event: e.CallIntended) -> Iterator[str]:
    flow, lock = story.bundle.flow, story.bundle.step(event.step).lock
    if flow.one_at_a_time:
        yield story.started.record
    if lock is not None and "${{ input." in str(lock.id):
        given = [one.input for one in story.events if isinstance(one, e.CallIntended) and one.step == event.step]
        yield f"{lock.record}/{next(filter(None, given))['id']}"
    elif lock is not None:
        written = str(lock.id)
        name = written.removeprefix("${{ inputs.").removesuffix(" }}")
        yield f"{lock.record}/{story.started.inputs[name] if name != written else written}"


@law("locked late")
def nothing_is_locked_before_it_is_needed(story: Story) -> Iterator[str]:
    """A lock stands in the log just before the intents of its turn, the first of which it was taken for."""
    for at, event in enumerate(story.events):
        if isinstance(event, e.RecordLocked):
            rest = [each for each in story.events[at:] if not isinstance(each, e.RecordLocked)]
            if not rest or not isinstance(rest[0], e.CallIntended):
                yield f"{event.record} was locked, and nothing was sent"


@law("never held")
def a_compensation_waits_for_no_record(story: Story) -> Iterator[str]:
    """Once forward is closed nothing is held."""
    for event in story.events[story.closed :] if story.closed else ():
        if isinstance(event, e.RunHeld):
            yield f"{event.step or 'the run'} was held by {event.by_run} while compensating"
