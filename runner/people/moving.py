"""Moving a run to another version of its flow: whether that would be right, and every reason why not.

`reasons_against` is pure. Whatever it lets through can be decided on by the new version alone: what has begun means the
same there, what stands outside is still made good, and nothing that should have come earlier comes late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.contract import Json
from runner.core import events as e
from runner.core.changes import part_outputs
from runner.core.state import Call, State, StepState
from runner.errors import InputsInvalid
from runner.language.bundle import Bundle
from runner.language.expressions import needed
from runner.language.flow import Branch, Compensation, Step
from runner.language.schemas import read_inputs
from runner.language.versions import Arm, Place, arm_name, differing, made_good, pattern, places, short

SENT = ("action", "with_", "find", "key", "lock")
"""What of a step decides what its call sends."""
BOUND = ("effect", "key_life", "has_lookup", "fan_out", "own")
"""What of an action decides how a call of it that is under way goes on."""
FIXED: Mapping[str, tuple[str, ...]] = {
    "each": ("each", "named"), "call": ("flow", "with_"), "wait_for": ("event", "match"),
    "hand_off": ("hand_off_to", "say", "show"), "approve": ("approval",), "agent": ("with_", "branches", "limits"),
}  # fmt: skip
"""What is fixed when a step of this verb begins."""
_WORDS = {"open": "has begun", "failed": "has failed", "refused": "was refused", "skipped": "was skipped"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Moving:
    """A run that is to be moved. `asked` are the approvals that are open."""

    old: Bundle
    new: Bundle
    state: State
    was: Mapping[str, Place]
    now: Mapping[str, Place]
    asked: Sequence[e.ApprovalRequested]

    def steps(self, path: str) -> tuple[Step, Step] | None:
        """A step of the run in both versions; None where the new one does not have it."""
        was, now = self.was.get(pattern(path)), self.now.get(pattern(path))
        return (was.step, now.step) if was is not None and now is not None else None


def reasons_against(
    old: Bundle, new: Bundle, state: State, asked: Sequence[e.ApprovalRequested] = ()
) -> tuple[str, ...]:
    """Every reason, one sentence each, why a run of the old version must not go on with the new one."""
    if state.has_ended:
        return (f"It has ended ({state.status}).",)
    if new.flow.id != state.flow:
        return (f"Version {short(new.digest)} is one of flow {new.flow.id}, and this is a run of {state.flow}.",)
    moving = Moving(old=old, new=new, state=state, was=places(old), now=places(new), asked=asked)
    rules = _ALWAYS if state.root.closed else (*_ALWAYS, *_FORWARD)
    return tuple(dict.fromkeys(reason for rule in rules for reason in rule(moving)))


def gained_inputs(new: Bundle, state: State) -> tuple[dict[str, Json], dict[str, str]]:
    """(inputs that the run lacks and the new version has, by their defaults; what is wrong with inputs, by name)."""
    flow = new.flow
    given = {name: value for name, value in state.inputs.items() if name in flow.inputs}
    try:
        read = read_inputs(flow.inputs, given, zone=new.zone, schema=flow.schema)
    except InputsInvalid as error:
        return {}, error.problems
    wrong = {name: "the new version reads it as another value" for name in given if read[name] != given[name]}
    return {name: value for name, value in read.items() if name not in given}, wrong


def what_is_kept(old: Bundle, new: Bundle, state: State) -> Iterator[str]:
    """What goes on as it began although its text changed: timers that run, requests that are sent again."""
    was, now = places(old), places(new)
    due: dict[str, tuple[str, ...]] = {
        path: ("wait", "within") for path, it in state.steps.items() if it.due is not None
    }
    due |= {name[0]: ("with_", "find", "key") for name, call in state.calls.items() if call.waits_to_retry}
    for path, names in due.items():
        place = now.get(pattern(path))
        if place is not None and (changed := differing(was[pattern(path)].step, place.step, names)):
            yield f"Step {path} has begun, so the {changed} that it began with stays."


# --- what holds in both phases ----------------------------------------------------------------------------------------


def _mode(moving: Moving) -> Iterator[str]:
    if moving.state.mode == "live" and moving.new.flow.mode == "draft":
        yield "The new version is a draft, and this run is live."
    if moving.state.mode == "draft" and any(name[1] == "do" for name in moving.state.calls):
        yield "It has left drafts, and only the version that it began with knows how they are removed."


def _inputs(moving: Moving) -> Iterator[str]:
    for name, what in gained_inputs(moving.new, moving.state)[1].items():
        yield f"Input {name} does not fit the new version: {what}."


def _effects(moving: Moving) -> Iterator[str]:
    """What stands outside, or may stand there, is made good by the new version too."""
    for path, action in _standing(moving).items():
        steps = moving.steps(path)
        is_sure = any(effect.path == path for effect in moving.state.effects.values())
        stands = f"Step {path} has an effect that {'stands' if is_sure else 'may stand'}, and"
        if steps is None:
            yield f"{stands} it is gone."
        elif steps[1].action != action:
            yield f"{stands} it was {steps[0].verb} {action} and is {steps[1].verb} {steps[1].action} now."
        elif lost := _lost_compensation(moving, *steps):
            yield f"{stands} {lost}."
        else:
            for name in _missing_outputs(moving, path, steps[1]):
                yield f"The compensation of step {path} uses output.{name}, and the answer that this run got has none."


def _standing(moving: Moving) -> dict[str, str]:
    """The steps whose effect is not made good yet, or of which nobody knows, with the action; those of ended items by
    their patterns.
    """
    state = moving.state
    found = {effect.path: effect.action for effect in state.effects.values() if effect.disposition == "pending"}
    found |= {name[0]: call.action for name, call in state.calls.items() if name[1] == "do" and call.is_unsettled}
    for path in (path for path, listing in state.lists.items() if listing.left.get("pending")):
        inside = {name: place.step for name, place in moving.was.items() if name.startswith(f"{pattern(path)}/")}
        found |= {name: step.action for name, step in inside.items() if step.verb == "do"}
    return found


def _lost_compensation(moving: Moving, was: Step, now: Step) -> str:
    old, words = was.compensate, now.compensate
    if words is None:
        return "the new version does not say how it is made good"
    if words.word == "none" and (old is None or old.word != "none"):
        return f"the new version leaves it as it is, where it was made good by {made_good(old)}"
    action = moving.new.actions.get(now.action)
    if words.word == "cancel" and not words.action and (action is None or action.undo is None):
        return f"{now.action} no longer names its own undo"
    return ""


def _missing_outputs(moving: Moving, path: str, step: Step) -> list[str]:
    state = moving.state
    known = state.steps.get(path, StepState()).output or part_outputs(state, path, "do")
    if not known:
        return []
    action = moving.new.actions.get(step.action)
    own = action.undo.with_ if action is not None and action.undo is not None and _is_bare(step.compensate) else {}
    return [name for name in needed((step.compensate, own), "output") if name not in known]


def _is_bare(words: Compensation | None) -> bool:
    return words is not None and words.word == "cancel" and not words.action


def _calls(moving: Moving) -> Iterator[str]:
    """A call that is out, in doubt, or tried again goes on as what it was."""
    for (path, purpose, _), call in moving.state.calls.items():
        if not (call.is_open or call.is_unsettled or call.due is not None or call.fired):
            continue
        steps = moving.steps(path)
        if steps is None:
            if moving.state.root.closed and call.is_open:
                yield f"Step {path} {_doing(call)}, and it is gone."
            continue
        if purpose in ("undo", "undo_lookup"):
            if call.action != _undo_action(moving.new, steps[1]):
                yield f"Step {path} is being made good by {call.action}, and is {made_good(steps[1].compensate)} now."
        elif changed := differing(*steps, SENT if call.is_open or call.is_unsettled else ("action",)):
            yield f"Step {path} {_doing(call)}, and its {changed} changed."
        before, after = moving.old.actions.get(call.action), moving.new.actions.get(call.action)
        if before is not None and after is not None and any(getattr(before, n) != getattr(after, n) for n in BOUND):
            yield f"Step {path} {_doing(call)}, and its connector says something else of {call.action} now."


def _doing(call: Call) -> str:
    if call.is_open:
        return "has been called and has no answer yet"
    return "has a call of which nobody knows whether it happened" if call.is_unsettled else "is being tried again"


def _undo_action(bundle: Bundle, step: Step) -> str:
    words = step.compensate
    if words is None or words.action:
        return words.action if words is not None else ""
    if words.word == "quarantine":
        return "quarantine.add"
    action = bundle.actions.get(step.action)
    undo = action.undo if action is not None and words.word == "cancel" else None
    return f"{step.action.partition('.')[0]}.{undo.action}" if undo is not None else ""


# --- what holds while the run goes forward ----------------------------------------------------------------------------


def _steps_that_began(moving: Moving) -> Iterator[str]:
    """What has begun is still there, in its place, and does the same."""
    standing = _standing(moving)
    for path, known in moving.state.steps.items():
        if known.status == "skipped" or path.rpartition("/")[2].isdigit():
            continue
        word = _WORDS.get(known.status, "is done")
        was, now = moving.was[pattern(path)], moving.now.get(pattern(path))
        if now is None:
            if path not in standing:
                yield f"Step {path} {word}, and it is gone."
            continue
        if was.arm != now.arm:
            yield f"Step {path} {word}, and it stands {now} now, not {was}."
        if was.step.verb != now.step.verb:
            yield f"Step {path} {word} as {was.step.verb}, and it is {now.step.verb} now."
        elif was.step.action != now.step.action and path not in standing and not _may_begin_anew(moving.state, path):
            yield f"Step {path} {word} with {was.step.action}, and it is {now.step.action} now."
        if known.status == "open" and (changed := differing(was.step, now.step, FIXED.get(was.step.verb, ()))):
            yield f"Step {path} {word} with its {changed}, which changed."


def _may_begin_anew(state: State, path: str) -> bool:
    """The step failed without any effect: a retry begins it from the beginning."""
    calls = [call for name, call in state.calls.items() if name[0] == path and name[1] in ("do", "read")]
    return state.steps[path].status == "failed" and all(call.is_over for call in calls)


def _order(moving: Moving) -> Iterator[str]:
    """Nothing that should have come earlier comes late, and nothing is left out without a word."""
    arms: dict[Arm, list[str]] = {}
    for path, place in moving.now.items():
        arms.setdefault(place.arm, []).append(path)
    for arm, paths in arms.items():
        if any(moving.now[container].step.verb == "agent" for container, _ in arm):
            continue  # its model says in which order
        stayed = [path for path in paths if path in moving.was and moving.was[path].arm == arm]
        if any(moving.now[container].step.verb == "each" for container, _ in arm):
            began = any(pattern(path) in paths for path in moving.state.steps)
            yield from _turned(moving, stayed) if began else ()
            continue
        known = [path for path in stayed if path in moving.state.steps]
        yield from _turned(moving, [path for path in known if moving.state.steps[path].status != "skipped"])
        for path in paths[: paths.index(known[-1])] if known else ():
            if path not in moving.state.steps:
                word = _WORDS.get(moving.state.steps[known[-1]].status, "is done")
                yield f"Step {path} stands before step {known[-1]}, which {word}: it would be run late."


def _turned(moving: Moving, stayed: list[str]) -> Iterator[str]:
    before = [path for path in moving.was if path in stayed]
    for first, second in zip(before, stayed, strict=True):
        if first != second:
            yield f"Step {first} was run before step {second}, and the new version turns them round."
            return


def _places_that_passed(moving: Moving) -> Iterator[str]:
    """A step that comes to stand where the run has been already would never run, or not for all items."""
    used = needed((moving.new.flow.steps, moving.new.flow.outputs), "outcome")
    for path, place in moving.now.items():
        if path in moving.state.steps or (path in moving.was and moving.was[path].arm == place.arm):
            continue
        yield from _passed(moving, path, place, place.step.id in used)


def _passed(moving: Moving, path: str, place: Place, is_used: bool) -> Iterator[str]:
    for container, arm in place.arm:
        known, step = moving.state.steps.get(container), moving.now[container].step
        if known is None:
            continue
        if known.status == "skipped" or (step.verb == "choose" and arm != arm_name(step, known.branch)):
            if is_used:
                yield f"Step {path} stands in {arm} of {container}, which was not taken, and its outcome is used."
            return
        if known.status != "open":
            yield f"Step {path} stands inside {container}, which is done: it would never be run."
            return
        if step.verb == "each":
            yield f"Step {path} stands inside {container}, which has begun: it would be run for some items only."
            return


def _branches_taken(moving: Moving) -> Iterator[str]:
    """The branch that was taken is still the same one."""
    for path, known in moving.state.steps.items():
        steps = moving.steps(path)
        if steps is None or steps[0].verb != "choose" or steps[1].verb != "choose" or known.status != "open":
            continue
        old, new = (_ids(step.branches[known.branch : known.branch + 1]) for step in steps)
        if not old & new:
            yield f"Step {path} has taken {arm_name(steps[0], known.branch)}, and that is another one now."


def _ids(branches: tuple[Branch, ...]) -> set[str]:
    return {step.id for branch in branches for step in branch.steps}


def _questions(moving: Moving) -> Iterator[str]:
    """What a person is asked is still the question."""
    if moving.state.failure is not None and moving.new.flow.on_failure.do != moving.old.flow.on_failure.do:
        yield "A person is asked what follows the failure, and the new version decides that itself (on_failure)."
    for approval in moving.asked:
        for path in (approval.step, *approval.covers):
            steps = moving.steps(path)
            changed = differing(*steps, ("verb", "approval", "when", *SENT)) if steps is not None else "it"
            if changed:
                yield f"The approval of step {approval.step} is asked for, and {changed} of step {path} changed."


def _outputs_used(moving: Moving) -> Iterator[str]:
    """What the steps to come use of those that are done, these have answered."""
    flow, state = moving.new.flow, moving.state
    ahead = [place.step for path, place in moving.now.items() if not _has_ended(state, path)]
    texts = [[replace(step, branches=(), compensate=None) for step in ahead], flow.outputs]
    for path, known in state.steps.items():
        if "/" in path or known.status not in ("done", "found", "refused"):
            continue
        for name in needed(texts, "steps", path):
            if name not in known.output:
                yield f"The new version uses steps.{path}.{name}, and the answer that this run got has none."


def _has_ended(state: State, path: str) -> bool:
    known = state.steps.get(path)
    return known is not None and known.status not in ("open", "failed")


Rule = Callable[[Moving], Iterator[str]]
_ALWAYS: tuple[Rule, ...] = (_mode, _inputs, _effects, _calls)
_FORWARD: tuple[Rule, ...] = (
    _steps_that_began, _order, _places_that_passed, _branches_taken, _questions, _outputs_used,
)  # fmt: skip
