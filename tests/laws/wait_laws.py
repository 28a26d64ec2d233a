"""Laws of events and of what follows: one event feeds one waiter, what is closed waits for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from runner.core import events as e
from tests.laws.lives import is_inside
from tests.laws.register import law
from tests.laws.story import Story


@law("fed")
def one_event_feeds_one_waiter(story: Story) -> Iterator[str]:
    """Who gets an event waits for it, by its name and its fields; nobody else gets it, and nobody gets two."""
    awaited: dict[str, e.EventAwaited] = {}
    fed: set[str] = set()
    for event in story.events:
        if isinstance(event, e.EventAwaited):
            if event.step in awaited:
                yield f"{event.step} waits twice"
            awaited[event.step] = event
        if not isinstance(event, e.EventReceived) or story.started.mode == "draft":
            continue
        waits = awaited.get(event.step)
        if waits is None or waits.event != event.event:
            yield f"{event.step} got {event.event}, and did not wait for it"
        elif any(event.data.get(name) != value for name, value in waits.match.items()):
            yield f"{event.step} got an event that does not match"
        if event.event_id in fed:
            yield f"event {event.event_id} fed two"
        fed.add(event.event_id)
    for step, count in Counter(event.step for event in story.events if isinstance(event, e.EventReceived)).items():
        if count > 1:
            yield f"{step} got {count} events"


@law("withdrawn")
def what_is_closed_waits_for_nothing(story: Story) -> Iterator[str]:
    """In a scope whose forward is closed nothing is awaited, received, sent, slept for, chosen or begun."""
    for seq, event in story.numbered():
        is_forward = isinstance(event, e.EventAwaited | e.EventReceived | e.Emitted | e.BranchChosen | e.ScopeStarted)
        is_forward = is_forward or (isinstance(event, e.TimerSet | e.TimerFired) and event.timer in ("wait", "late"))
        if not is_forward:
            continue
        for closing in story.closings.values():
            if closing.seq < seq and is_inside(event.step, closing.scope):
                yield f"{type(event).__name__} of {event.step} after forward was closed"


@law("late")
def what_is_late_is_what_the_flow_says(story: Story) -> Iterator[str]:
    """A wait ends once: by its event, or late, and then as `if_late` says."""
    ended: dict[str, str] = {}
    asked = {event.step for event in story.events if isinstance(event, e.HandedOff) and event.kind == "late"}
    for event in story.events:
        is_late = isinstance(event, e.TimerFired) and event.timer == "late"
        if is_late or isinstance(event, e.EventReceived):
            if event.step in ended:
                yield f"the wait of {event.step} ended by {ended[event.step]}, and by {type(event).__name__}"
            ended[event.step] = type(event).__name__
        if isinstance(event, e.StepFailed) and event.kind == "late":
            word = story.bundle.step(event.step).if_late
            if ended.get(event.step) != "TimerFired" or word == "hand_off" or event.goes_on != (word == "continue"):
                yield f"{event.step} failed as late, and its flow says {word}"
    for step in asked:
        if story.bundle.step(step).if_late != "hand_off" or ended.get(step) != "TimerFired":
            yield f"{step} was handed off as late"


@law("emitted")
def an_event_is_sent_once(story: Story) -> Iterator[str]:
    """Each time its step is reached, and never by a draft."""
    sent = Counter(event.step for event in story.events if isinstance(event, e.Emitted))
    for step, count in sent.items():
        if count > 1 or story.started.mode == "draft":
            yield f"{step} sent its event {count} times"


@law("follows")
def what_follows_a_failure_follows_once(story: Story) -> Iterator[str]:
    """It stands in the run's end when compensation has ended, unless a person said to go on without it."""
    finish, closing = story.finish, story.closings.get("")
    if finish is None:
        return
    without = [q for q in story.questions if q.event.kind == "then_run" and q.choice == "go_on"]
    has_compensated = closing is not None and closing.event.compensate and closing.begun > 0
    is_due = (has_compensated or story.started.continues != "") and not without
    is_due = is_due and not (story.stopped_here or story.taken_over or story.started.mode == "draft")
    wanted = story.bundle.flow.on_failure.then_run if is_due else ""
    if finish.then != wanted:
        yield f"{finish.then or 'nothing'} follows, and {wanted or 'nothing'} should"
    says_why = "reason" in story.bundle.flow.on_failure.then_with
    if finish.then and says_why and finish.then_inputs.get("reason") != finish.summary:
        yield f"{finish.then} is told {finish.then_inputs}, and the run ends with {finish.summary}"
