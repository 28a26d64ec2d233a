"""Laws of lists and of called flows: how items begin, how they end, and what is made good of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from runner.core import events as e
from tests.laws.agent_laws import is_of_agent
from tests.laws.closing_laws import dispositions
from tests.laws.lives import as_written, is_inside, items_around
from tests.laws.register import law, named
from tests.laws.story import FORWARD, Item, Story

FEW_IN_DOUBT = 2
"""How many items of one list may wait for a person before no more begin, in the laws' runs."""


def _beside(story: Story, item: Item) -> list[Item]:
    """The items of the same list that are open when this one begins."""
    return [other for other in story.items.values() if other.list == item.list and other.is_open_at(item.seq)]


@law("at once")
def so_many_items_at_once(story: Story) -> Iterator[str]:
    """When an item begins, fewer than `at_once` are open but for those that wait for a person, and few of these."""
    for item in story.items.values():
        at_once = story.bundle.step(item.list).at_once
        open_ones = _beside(story, item)
        asked = [q.event.step for q in story.questions if q.is_open_at(item.seq)]
        waiting = [other for other in open_ones if any(is_inside(step, other.path) for step in asked)]
        if len(open_ones) - len(waiting) >= at_once:
            yield f"{item.path} begins beside {len(open_ones)} others, and {at_once} are allowed"
        resting = [other for other in waiting if not _moves(story, other, item.seq)]
        if len(resting) >= max(FEW_IN_DOUBT, at_once):
            yield f"{item.path} begins although {len(resting)} others wait for a person"


def _moves(story: Story, item: Item, seq: int) -> bool:
    """Something of it is out at this place in the log, or waits for its time, or goes on after it."""
    inside = [each for each in story.tries if is_inside(each.intent.step, item.path)]
    due: set[tuple[object, ...]] = set()
    for event in story.events[: seq - 1]:
        if isinstance(event, e.TimerSet | e.TimerFired) and is_inside(event.step, item.path):
            timer = {(event.step, event.purpose, event.part)}
            due = due | timer if isinstance(event, e.TimerSet) else due - timer
    return bool(due) or any(each.seq > seq or not 0 < each.outcome_seq < seq for each in inside)


@law("in order")
def items_begin_in_order(story: Story) -> Iterator[str]:
    """1, 2, 3 …: none is left out, and one that is resumed was set aside and asked for by a person."""
    begun: Counter[str] = Counter()
    for item in story.items.values():
        number = int(as_written(item.path).rpartition("/")[2])
        if as_written(item.path) == item.path or _first_life(story, item):
            begun[item.list] += 1
            if begun[item.list] != number:
                yield f"{item.path} begins as number {begun[item.list]}"
        if story.closings.get("") and story.closings[""].seq < item.seq:
            yield f"{item.path} begins after forward was closed"


def _first_life(story: Story, item: Item) -> bool:
    head, _, number = item.path.rpartition("/")
    return f"{head}/{as_written(number)}" == item.path


@law("never again")
def an_item_that_ended_has_ended(story: Story) -> Iterator[str]:
    """It calls nothing forward any more; it lives again only if it was set aside and a person resumed it."""
    for each in story.tries:
        for path in items_around(each.intent.step):
            item = story.items.get(path)
            if item is not None and 0 < item.ended < each.seq and each.intent.purpose in (*FORWARD, "find"):
                yield f"{named(each.intent)} was intended although {path} had ended"
    lives: dict[str, Item] = {}
    for item in story.items.values():
        head, _, number = item.path.rpartition("/")
        before = lives.get(f"{head}/{as_written(number)}")
        if before is not None and not (before.is_aside and before.ended < story.resumed.get(before.path, 0) < item.seq):
            yield f"{item.path} lives again, and nobody resumed {before.path}"
        lives[f"{head}/{as_written(number)}"] = item


@law("aside")
def what_is_set_aside_was_made_good(story: Story) -> Iterator[str]:
    """Its own scope was closed and compensated, nothing of it is in doubt, and nothing stands but by a person's word."""
    for item in story.items.values():
        if not item.is_aside:
            continue
        closing = story.closings.get(item.path)
        if closing is None or not closing.seq < closing.begun < item.ended:
            yield f"{item.path} was set aside, and never compensated"
        words = dispositions(story, item.ended)
        for name, (known, intent) in story.applied.items():
            is_its = is_inside(name[0], item.path) and name[1] == "do" and known < item.ended
            if is_its and words[intent.start_no] == "pending":
                yield f"{item.path} was set aside, and {name[0]} was not made good"
        for doubt in story.doubts:
            if is_inside(doubt.call[0], item.path) and doubt.covers(item.ended):
                yield f"{item.path} was set aside while {doubt.call[0]} was in doubt"


def catcher(story: Story, path: str) -> str:
    """The innermost item around a path that fails alone; empty where it is the run that fails."""
    around = [item for item in items_around(path) if story.bundle.step(item).if_one_fails == "continue"]
    return around[-1] if around else ""


@law("alone")
def a_failure_ends_what_it_may(story: Story) -> Iterator[str]:
    """Under `continue` a failure closes its item and no other; under `stop` it closes the run."""
    for closing in story.closings.values():
        wanted = catcher(story, closing.event.failed_step)
        if closing.event.cause == "failure" and closing.scope != wanted:
            yield f"the failure of {closing.event.failed_step} closed {closing.scope or 'the run'}"
    for seq, event in story.numbered():
        if not isinstance(event, e.StepFailed) or event.goes_on:
            continue
        scope = catcher(story, event.step)
        over = [c for c in story.closings.values() if is_inside(scope, c.scope) or c.scope == scope]
        is_left = (story.bundle.flow.on_failure.do == "review" or is_of_agent(story, event.step)) and not scope
        if story.finished and not over and not story.taken_over and not is_left:
            yield f"{event.step} failed at {seq}, and {scope or 'the run'} went on"


@law("made good")
def all_of_every_item_is_made_good(story: Story) -> Iterator[str]:
    """When a run has compensated, every applied effect has had its turn, those of ended items too."""
    finish, closing = story.finish, story.closings.get("")
    if finish is None or closing is None or not closing.event.compensate or story.stopped_here or story.taken_over:
        return
    words = dispositions(story, story.finished)
    for name, (_, intent) in story.applied.items():
        if name[1] == "do" and words[intent.start_no] == "pending":
            yield f"{name[0]} was not made good when the run ended"


@law("counted")
def items_that_are_made_good_are_counted_once(story: Story) -> Iterator[str]:
    """An item that had ended leaves once, and its effects are counted as what has become of them since it ended."""
    left: set[str] = set()
    if story.started.continues:
        return
    for seq, event in story.numbered():
        if not isinstance(event, e.ScopeEnded) or event.outcome not in ("compensated", "stopped"):
            continue
        if story.items[event.step].is_aside:
            yield f"{event.step} was set aside, and is made good again"
        if event.step in left:
            yield f"{event.step} was made good twice"
        left.add(event.step)
        before, after = dispositions(story, story.items[event.step].ended), dispositions(story, seq)
        inside = [i.start_no for name, (_, i) in story.applied.items() if is_inside(name[0], event.step)]
        counts = Counter(after[no] for no in inside if before.get(no) == "pending")
        counts["stands"] += counts.pop("pending", 0)
        if +counts != Counter(event.effects):
            yield f"{event.step} is counted as {dict(event.effects)}, and it is {dict(counts)}"
        newest = max((no for no in inside if no in after), default=0)
        if event.newest < newest:
            yield f"the newest effect of {event.step} is {newest}, and not {event.newest}"


@law("offered")
def what_is_closed_is_not_closed_again(story: Story) -> Iterator[str]:
    """Whoever is asked about a call of a scope that is being made good cannot choose to have it made good."""
    for question in story.questions:
        over = story.closing_over(question.event.step, question.seq) if question.event.step else None
        if over is not None and "compensate" in question.event.choices:
            yield f"{question.event.handoff} offers to compensate {over.scope or 'the run'}, which is done already"


@law("left")
def nobody_forgets_what_is_set_aside(story: Story) -> Iterator[str]:
    """A run that was not made good ends when every item that was set aside was resumed or accepted."""
    if story.finished and not story.closed and story.aside and not story.taken_over:
        yield f"the run ended, and {', '.join(sorted(story.aside))} was set aside"


@law("success")
def nothing_is_undone_of_what_succeeded(story: Story) -> Iterator[str]:
    """Where a run did not fail only items that failed alone are compensated, never what a called flow did."""
    for each in story.tries:
        is_meant = any(is_inside(each.intent.step, scope) for scope in story.closings)
        if each.intent.purpose == "undo" and not is_meant and not story.started.continues:
            yield f"{named(each.intent)} undoes what has succeeded"


# --- what the seeds reached ----------------------------------------------------------------------------------------


def met_in_lists(story: Story) -> Iterator[str]:
    """What became of items and of waits, each word as often as it happened."""
    for item in story.items.values():
        yield "set aside" if item.is_aside else "done" if item.ended else "open at the end"
    yield from ("resumed" for _ in story.resumed)
    yield from ("left set aside" for _ in story.accepted)
    for event in story.events:
        if isinstance(event, e.ScopeEnded) and event.outcome in ("compensated", "stopped"):
            yield "made good later" if event.outcome == "compensated" else "stopped in part"
        if isinstance(event, e.EventReceived):
            yield "fed"
        if isinstance(event, e.TimerFired) and event.timer == "late":
            yield "late"
