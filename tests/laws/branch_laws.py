"""Laws of branches: what is taken, what is passed over, what goes on beside what (choose, parallel, lists, calls)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import events as e
from tests.laws.lives import as_written, calls_around, is_inside, items_around
from tests.laws.places import are_beside, lanes, order_of, standing_in
from tests.laws.register import law, named
from tests.laws.story import FORWARD, Story


def _taken(story: Story) -> dict[str, int]:
    return {event.step: event.branch for event in story.events if isinstance(event, e.BranchChosen)}


def _skipped(story: Story) -> dict[str, str]:
    return {event.step: event.why for event in story.events if isinstance(event, e.StepSkipped)}


@law("branch")
def no_step_of_another_branch_is_called(story: Story) -> Iterator[str]:
    """One branch of a choose is taken, once; what stands in the others is skipped and never called."""
    chosen = [event.step for event in story.events if isinstance(event, e.BranchChosen)]
    for scope in chosen:
        if chosen.count(scope) > 1:
            yield f"the branch of {scope} was chosen {chosen.count(scope)} times"
    skipped, called = _skipped(story), {each.intent.step for each in story.tries}
    untaken = [
        path
        for scope, number in _taken(story).items()
        for path in standing_in(story.bundle, scope)
        if lanes(story.bundle, path)[scope] != number
    ]
    for scope, why in skipped.items():
        if why in ("when", "person") and story.bundle.step(scope).verb in ("choose", "parallel"):
            untaken += standing_in(story.bundle, scope)
    for path in untaken:
        if skipped.get(path) != "person" and any(one == path or is_inside(one, path) for one in called):
            yield f"{path} stands in a branch that was not taken, and was called"
        if path not in skipped:
            yield f"{path} stands in a branch that was not taken, and was not skipped"
    for path, why in skipped.items():
        if why == "branch" and path not in untaken:
            yield f"{path} was skipped as if its branch had not been taken"


@law("scope")
def a_scope_holds_its_steps(story: Story) -> Iterator[str]:
    """What stands in a branch comes after its scope was entered, and what stands behind waits for the scope's end."""
    entered: dict[str, int] = {}
    for seq, event in story.numbered():
        if isinstance(event, e.BranchChosen | e.ScopeStarted):
            entered[event.step] = seq
        if isinstance(event, e.CallIntended) and event.purpose in FORWARD:
            around = [*lanes(story.bundle, event.step), *items_around(event.step), *calls_around(event.step)]
            for scope in around:
                number = lanes(story.bundle, event.step).get(scope, 0)
                if scope not in entered or _taken(story).get(scope, number) != number:
                    yield f"{named(event)} was intended although {scope} was not entered there"
        if isinstance(event, e.ScopeEnded) and event.outcome == "done":
            yield from _ended_too_early(story, seq, event)


def _ended_too_early(story: Story, seq: int, event: e.ScopeEnded) -> Iterator[str]:
    wanted = _holds(story, seq, event)
    missing = set(wanted) - _ended(story, seq)
    if missing:
        yield f"{event.step} ended before {', '.join(sorted(missing))}"

    def is_within(path: str) -> bool:
        if event.kind in ("choose", "parallel"):
            return event.step in lanes(story.bundle, path)
        return is_inside(path, event.step)

    for each in story.tries:
        begun = each.intent.purpose in FORWARD and each.seq < seq
        if begun and is_within(each.intent.step) and not 0 < each.outcome_seq < seq:
            yield f"{event.step} ended before {named(each.intent)}"
    for question in story.questions:
        if question.is_open_at(seq) and question.event.step and is_within(question.event.step):
            yield f"{event.step} ended while {question.event.handoff} was open"


def _holds(story: Story, seq: int, event: e.ScopeEnded) -> list[str]:
    """What must have ended before a scope does."""
    if event.kind == "agent":
        return []  # what it does has laws of its own
    if event.kind != "each":
        return standing_in(story.bundle, event.step)
    begun = [x for x in story.events if isinstance(x, e.ScopeStarted) and x.kind == "each" and x.step == event.step]
    lives = {as_written(path): path for path, item in story.items.items() if item.list == event.step and item.seq < seq}
    wanted = [f"{event.step}/{number}" for number in range(1, len(begun[0].value) + 1)]
    return [lives.get(as_written(item), item) for item in wanted]


@law("starts")
def starts_are_in_order(story: Story) -> Iterator[str]:
    """What starts in one turn starts in the order it is written; each start has the next number."""
    highest = 0
    before: e.Event | None = None
    begun = {path: item.seq for path, item in story.items.items()}
    for event in story.events:
        if isinstance(event, e.CallIntended) and event.purpose in FORWARD:
            is_next = isinstance(before, e.CallIntended) and before.purpose in FORWARD and before.at == event.at
            if is_next and before is not None:
                one, other = (order_of(story.bundle, each.step, begun) for each in (before, event))
                if other < one:
                    yield f"{named(event)} started after {before.step}, which is written behind it"
            if event.purpose == "do" and event.attempt == 1:
                if event.start_no <= highest and not story.started.continues:
                    yield f"{named(event)} has start number {event.start_no}, and {highest} was given"
                highest = max(highest, event.start_no)
        before = event


@law("beside")
def a_branch_does_not_wait_for_the_one_beside(story: Story) -> Iterator[str]:
    """Where a run rests for a person's word about one branch, every other branch has come to its end or asks too."""
    is_calm = not (story.closed or story.taken_over or any(isinstance(each, e.RunPaused) for each in story.events))
    if story.end != "rests" or not is_calm:
        return
    asked = [question for question in story.questions if not question.gone and question.event.step]
    if any(question.event.kind == "failure" for question in asked):
        return
    for question in asked:
        if story.closing_over(question.event.step, len(story.events) + 1) is not None:
            continue
        for scope, number in lanes(story.bundle, question.event.step).items():
            if story.bundle.step(scope).verb != "parallel":
                continue
            for other in range(len(story.bundle.step(scope).branches)):
                inside = set(standing_in(story.bundle, scope, other))
                is_asked = any(lanes(story.bundle, each.event.step).get(scope) == other for each in asked)
                is_awaiting = any(lanes(story.bundle, path).get(scope) == other for path in awaiting(story))
                left = inside - _ended(story, len(story.events) + 1)
                if other != number and not is_asked and not is_awaiting and left:
                    yield f"branch {other} of {scope} waits although only {question.event.step} is asked about"


def awaiting(story: Story) -> set[str]:
    """The steps that wait for an event when the log ends."""
    found: set[str] = set()
    for event in story.events:
        if isinstance(event, e.EventAwaited):
            found.add(event.step)
        if isinstance(event, e.EventReceived) or (isinstance(event, e.TimerFired) and event.timer == "late"):
            found.discard(event.step)
        if isinstance(event, e.ForwardClosed):
            found = {path for path in found if not is_inside(path, event.step)}
    return found


def _ended(story: Story, seq: int) -> set[str]:
    """The steps and items that had come to their end before this place in the log."""
    ended = {path for (path, purpose, _), (known, _) in story.applied.items() if purpose in FORWARD and known < seq}
    for event in story.events[: seq - 1]:
        is_end = isinstance(event, e.StepSkipped | e.RecordFound | e.DraftRecorded | e.ScopeEnded | e.ItemSetAside)
        is_end = is_end or isinstance(event, e.EventReceived | e.Emitted)
        is_end = is_end or (isinstance(event, e.TimerFired) and event.timer == "wait")
        is_end = is_end or (isinstance(event, e.HandOffResolved) and event.choice == "go_on")
        is_end = is_end or (isinstance(event, e.ApprovalDecided) and event.answer == "yes")
        if is_end or (isinstance(event, e.StepFailed) and event.goes_on):
            ended.add(event.step)
    return ended


@law("outcome")
def outcomes_are_what_the_log_says(story: Story) -> Iterator[str]:
    """`outcome.<id>` of a step that was not reached is "skipped", and of no other (outputs called of_<id> show it)."""
    finish, skipped = story.finish, _skipped(story)
    for name, value in (finish.outputs if finish is not None else {}).items():
        path = name.removeprefix("of_")
        if path != name and (value == "skipped") != (path in skipped):
            yield f"outcome.{path} is {value}"


# --- what the seeds reached ----------------------------------------------------------------------------------------


def met_beside(story: Story) -> Iterator[str]:
    """What happened at the same time in two branches of one parallel or two items of one list, each word once."""
    by_purpose: dict[str, list[tuple[str, int, int]]] = {"do": [], "undo": [], "asked": [], "doubt": []}
    for each in story.tries:
        if each.intent.purpose in by_purpose:
            by_purpose[each.intent.purpose].append((each.intent.step, each.seq, each.outcome_seq))
    by_purpose["asked"] = [(each.event.step, each.seq, each.gone) for each in story.questions]
    by_purpose["doubt"] = [(each.call[0], each.since, each.until) for each in story.doubts]
    pairs = {
        "out at once": ("do", "do"), "undone at once": ("undo", "undo"), "asked at once": ("asked", "asked"),
        "goes on in doubt": ("doubt", "do"),
    }  # fmt: skip
    for word, (one, other) in pairs.items():
        if any(_meet(story, first, second) for first in by_purpose[one] for second in by_purpose[other]):
            yield word


def _meet(story: Story, first: tuple[str, int, int], second: tuple[str, int, int]) -> bool:
    """The second began, in another branch, while the first had not ended."""
    (path, since, until), (other, begins, _) = first, second
    if not (path and other) or not since < begins < (until or len(story.events) + 1):
        return False
    return are_beside(story.bundle, path, other)
