"""Laws of branches: what is taken, what is passed over, what goes on beside what (choose, parallel)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.core import events as e
from runner.language.bundle import Bundle
from runner.language.flow import Step
from tests.laws.register import law, named
from tests.laws.story import FORWARD, Story


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a step stands: its number in the file, and the branch it stands in of each scope around it."""

    number: int
    branches: Mapping[str, int]


def _read(within: tuple[Step, ...], around: Mapping[str, int], found: dict[str, Place]) -> None:
    for step in within:
        found[step.id] = Place(number=len(found), branches=around)
        for number, branch in enumerate(step.branches):
            _read(branch.steps, {**around, step.id: number}, found)


_KEPT: dict[str, dict[str, Place]] = {}


def places(bundle: Bundle) -> dict[str, Place]:
    """The place of every step."""
    if bundle.digest not in _KEPT:
        found: dict[str, Place] = {}
        _read(bundle.flow.steps, {}, found)
        _KEPT[bundle.digest] = found
    return _KEPT[bundle.digest]


def are_beside(bundle: Bundle, one: str, other: str, *, at_once: bool = False) -> bool:
    """They stand in different branches of one parallel (which, with `at_once`, is made good at once)."""
    found = places(bundle)
    if one not in found or other not in found:  # the run was moved to a text that no longer has what is made good
        return False
    mine, theirs = found[one].branches, found[other].branches
    return any(
        theirs.get(scope, number) != number
        for scope, number in mine.items()
        if bundle.step(scope).verb == "parallel" and (bundle.step(scope).compensate_at_once or not at_once)
    )


def _inside(story: Story, scope: str, branch: int | None = None) -> list[str]:
    """The steps inside a scope, or inside one branch of it."""
    return [
        path
        for path, place in places(story.bundle).items()
        if scope in place.branches and branch in (None, place.branches[scope])
    ]


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
        for path in _inside(story, scope)
        if places(story.bundle)[path].branches[scope] != number
    ]
    for scope, why in skipped.items():
        untaken += _inside(story, scope) if why in ("when", "person") else []
    for path in untaken:
        if path in called and skipped.get(path) != "person":
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
            for scope, number in places(story.bundle)[event.step].branches.items():
                is_in = scope in entered and _taken(story).get(scope, number) == number
                if not is_in:
                    yield f"{named(event)} was intended although {scope} was not entered there"
        if isinstance(event, e.ScopeEnded):
            yield from _ended_too_early(story, seq, event)


def _ended_too_early(story: Story, seq: int, event: e.ScopeEnded) -> Iterator[str]:
    missing = set(_inside(story, event.step)) - _ended(story, seq)
    if missing:
        yield f"{event.step} ended before {', '.join(sorted(missing))}"
    for each in story.tries:
        is_inside = event.step in places(story.bundle)[each.intent.step].branches
        if is_inside and each.intent.purpose in FORWARD and not 0 < each.outcome_seq < seq:
            yield f"{event.step} ended before {named(each.intent)}"
    for question in story.questions:
        if question.is_open_at(seq) and event.step in places(story.bundle)[question.event.step].branches:
            yield f"{event.step} ended while {question.event.handoff} was open"


@law("starts")
def starts_are_in_order(story: Story) -> Iterator[str]:
    """What starts in one turn starts in the order it is written; each start has the next number."""
    highest = 0
    before: e.Event | None = None
    for event in story.events:
        if isinstance(event, e.CallIntended) and event.purpose in FORWARD:
            is_next = isinstance(before, e.CallIntended) and before.purpose in FORWARD and before.at == event.at
            if is_next and before is not None and _number(story, event) < _number(story, before):
                yield f"{named(event)} started after {before.step}, which is written behind it"
            if event.purpose == "do" and event.attempt == 1:
                if event.start_no <= highest and not story.started.continues:
                    yield f"{named(event)} has start number {event.start_no}, and {highest} was given"
                highest = max(highest, event.start_no)
        before = event


def _number(story: Story, event: e.Event) -> int:
    return places(story.bundle)[event.step].number


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
        for scope, number in places(story.bundle)[question.event.step].branches.items():
            if story.bundle.step(scope).verb != "parallel":
                continue
            for other in range(len(story.bundle.step(scope).branches)):
                inside = set(_inside(story, scope, other))
                is_asked = any(each.event.step in inside for each in asked)
                if other != number and not is_asked and inside - _ended(story, len(story.events) + 1):
                    yield f"branch {other} of {scope} waits although only {question.event.step} is asked about"


def _ended(story: Story, seq: int) -> set[str]:
    """The steps that had come to their end before this place in the log."""
    ended = {path for (path, purpose, _), (known, _) in story.applied.items() if purpose in FORWARD and known < seq}
    for event in story.events[: seq - 1]:
        is_end = isinstance(event, e.StepSkipped | e.RecordFound | e.DraftRecorded | e.ScopeEnded)
        is_end = is_end or (isinstance(event, e.TimerFired) and event.timer == "wait")
        is_end = is_end or (isinstance(event, e.HandOffResolved) and event.choice == "go_on")
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
    """What happened at the same time in two branches of one parallel, each word once."""
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
