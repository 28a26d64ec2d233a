"""Every way in which a step can fail, as a script for the world, a plan for people, or a death of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.core import events as e
from runner.core.state import State
from runner.drill.persons import Button, Plan, has_begun
from runner.drill.situations import Situation
from runner.drill.world import Answer, CallName, Script, World
from runner.engine.simulated import Calm
from runner.language.bundle import Bundle
from runner.people.operations import Order

OPERATOR = "person:operator"
NO = Answer(result="refused", stays=True)
NOT_SENT = Answer(result="not_sent", stays=True)
LOST = Answer(result="unknown", happened=True)
LOST_BEFORE = Answer(result="unknown")
SILENCE = Answer(result="unknown", happened=True, stays=True)
CALM = "nothing"
"""The way of a run in which nothing goes wrong; its step is empty."""
Said = Mapping[str, Answer | tuple[Answer, ...]]
"""Answers by the purpose of the call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One step failing in one way. `item` is the number of the item it stands in, else empty; `after` is the step that
    fails later, where this one's compensation is what fails; `dies_at` is the call at whose sending the engine dies.
    """

    step: str
    way: str
    situation: Situation
    item: str = ""
    after: str = ""
    dies_at: CallName | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """A run without a fault: its situation, its facts and where it came to."""

    situation: Situation
    events: tuple[e.Event, ...]
    state: State


def trials(bundle: Bundle, course: Course) -> Iterator[Trial]:
    """Everything that can go wrong with each step of a course, in the order of the steps."""
    for path in dict.fromkeys(_paths(course)):
        if _is_meant(path, course):
            yield from _Failing(bundle, course, path).trials()


def _paths(course: Course) -> Iterator[str]:
    for event in course.events:
        is_wait = isinstance(event, e.TimerSet) and event.timer == "wait"
        is_question = isinstance(event, e.HandedOff) and event.kind == "step"
        if is_wait or is_question or isinstance(event, e.CallIntended | e.ApprovalRequested | e.EventAwaited):
            yield event.step


def _is_meant(path: str, course: Course) -> bool:
    """Of a list with several items the one in the middle stands for all."""
    parts = path.split("/")
    counts = {ev.step: len(ev.value) for ev in course.events if isinstance(ev, e.ScopeStarted) and ev.kind == "each"}
    for place, part in enumerate(parts):
        count = counts.get("/".join(parts[:place]))
        if part.isdigit() and count is not None and int(part) != (count + 1) // 2:
            return False
    return True


def pattern_of(path: str) -> str:
    """The step's pattern: its path without the numbers of items."""
    return "/".join(part for part in path.split("/") if not part.isdigit())


def item_of(path: str) -> str:
    """The number of the innermost item around it; empty where there is none."""
    return next((part for part in reversed(path.split("/")) if part.isdigit()), "")


class _Failing:
    """The ways of one step."""

    def __init__(self, bundle: Bundle, course: Course, path: str) -> None:
        self.bundle = bundle
        self.course = course
        self.path = path
        self.step = bundle.step(path)
        self.pattern, self.item = pattern_of(path), item_of(path)

    def trials(self) -> Iterator[Trial]:
        yield from _OF_VERB[self.step.verb](self)
        if not self._is_own:
            yield self._pressed("stop_here", "stop")
            yield self._pressed("stop_compensate", "stop_compensate")

    @property
    def _is_own(self) -> bool:
        action = self.bundle.actions.get(self.step.action)
        return action is not None and action.own

    def _name(self, purpose: str) -> CallName:
        return CallName(step=self.pattern, purpose=purpose, item=self.item)  # type: ignore[arg-type]

    def _trial(
        self, way: str, answers: Said | None = None, *, after: str = "", dies: bool = False, plan: Plan | None = None
    ) -> Trial:
        script = self._script(answers or {})
        situation = self.course.situation
        situation = replace(situation, script={**situation.script, **script}, plan=plan or situation.plan)
        return Trial(
            step=self.pattern, way=way, item=self.item, situation=situation, after=after,
            dies_at=self._name("do" if self.step.verb == "do" else "read") if dies else None,
        )  # fmt: skip

    def _script(self, answers: Said) -> Script:
        listed = ((purpose, said if isinstance(said, tuple) else (said,)) for purpose, said in answers.items())
        return {self._name(purpose): said for purpose, said in listed}

    def _pressed(self, way: str, action: str) -> Trial:
        button = Button(
            order=Order(action=action, by=OPERATOR, reason="Stopped in the drill."), when=has_begun(self.path)
        )
        return self._trial(way, plan=replace(self.course.situation.plan, buttons=(button,)))

    # -- forward --

    def write(self) -> Iterator[Trial]:
        if self.step.find is not None and not self._is_found:
            yield self._trial("several", {"find": Answer(count=2, stays=True)})
            yield self._fails_later()("found", {"find": Answer(count=1, stays=True)})
        if self._is_found:
            return
        yield self._trial("refused", {"do": NO})
        if not self._is_own:
            yield self._trial("not_sent", {"do": NOT_SENT})
            yield self._trial("lost_happened", {"do": LOST})
            yield self._trial("lost_did_not", {"do": LOST_BEFORE})
            asked: Said = {"find": (Answer(), SILENCE)} if self.step.find is not None else {}
            yield self._trial("lost_for_ever", {"do": SILENCE, "lookup": SILENCE, **asked})
            yield self._trial("killed_happened", dies=True)
            yield self._trial("killed_did_not", {"do": LOST_BEFORE}, dies=True)
        if self._parts > 1:
            yield self._trial("part_refused", {"do": (Answer(), NO)})
            yield self._trial("part_lost", {"do": (Answer(), SILENCE), "lookup": SILENCE})
        yield from self._undone()

    @property
    def _parts(self) -> int:
        """How many calls its action fans out to."""
        calls = (event for event in self.course.events if isinstance(event, e.CallIntended))
        return max((call.parts for call in calls if (call.step, call.purpose) == (self.path, "do")), default=1)

    @property
    def _is_found(self) -> bool:
        known = self.course.state.steps.get(self.path)
        return known is not None and known.outcome == "found"

    def read(self) -> Iterator[Trial]:
        yield self._trial("refused", {"read": NO})
        yield self._trial("no_answer", {"read": SILENCE})
        action = self.bundle.actions[self.step.action]
        known = self.course.state.steps.get(self.path)
        if "found" in action.output and (known is None or known.output.get("found") is not False):
            yield self._trial("not_found", {"read": Answer(output={"found": False}, stays=True)})
        if not action.own:
            yield self._trial("killed", dies=True)

    def approve(self) -> Iterator[Trial]:
        for word in ("no", "late"):
            yield self._said(word, self.pattern, word)

    def _said(self, way: str, gate: str, word: str, after: Trial | None = None) -> Trial:
        trial = after or self._trial(way)
        plan = trial.situation.plan
        plan = replace(plan, approvals={**plan.approvals, gate: word})  # type: ignore[dict-item]
        return replace(trial, way=way, situation=replace(trial.situation, plan=plan))

    def wait_for(self) -> Iterator[Trial]:
        plan = self.course.situation.plan
        if plan.events.get(self.pattern, {}) is not None:
            yield self._trial("never", plan=replace(plan, events={**plan.events, self.pattern: None}))

    def hand_off(self) -> Iterator[Trial]:
        for way in ("nobody_answers", "compensate", "close"):
            plan = self.course.situation.plan
            orders = () if way == "nobody_answers" else (Order(action=way, by=OPERATOR),)
            yield self._trial(f"answer_{way}", plan=replace(plan, answers={**plan.answers, self.pattern: orders}))

    def nothing(self) -> Iterator[Trial]:
        yield from ()

    # -- its compensation --

    def _undone(self) -> Iterator[Trial]:
        """What can go wrong when this step is made good, after the last step behind it has failed."""
        words = self.step.compensate
        if words is None or words.word in ("none", "hand_off"):
            return
        failing = self._fails_later()
        if words.approve_by:
            for word in ("no", "late"):
                yield self._said(f"undo_{word}", f"{self.pattern}:undo", word, failing(f"undo_{word}"))
        yield failing("undo_refused", {"undo": NO})
        if self.bundle.actions[self._undo_action].own:
            return
        yield failing("undo_not_sent", {"undo": NOT_SENT})
        yield failing("undo_lost_happened", {"undo": LOST})
        yield failing("undo_lost_did_not", {"undo": LOST_BEFORE})
        yield failing("undo_lost_for_ever", {"undo": SILENCE, "undo_lookup": SILENCE})
        dies_at = self._name("undo")
        yield replace(failing("undo_killed_happened"), dies_at=dies_at)
        yield replace(failing("undo_killed_did_not", {"undo": LOST_BEFORE}), dies_at=dies_at)

    @property
    def _undo_action(self) -> str:
        words, own = self.step.compensate, self.bundle.actions[self.step.action].undo
        if words is not None and (words.action or words.word == "quarantine"):
            return words.action or "quarantine.add"
        return f"{self.step.action.partition('.')[0]}.{own.action}" if own is not None else ""

    def _fails_later(self) -> Callable[..., Trial]:
        later = self._last_behind() if self.bundle.flow.on_failure.do == "compensate" else None
        if later is None:
            return self._stopped

        def fails(way: str, answers: Said | None = None) -> Trial:
            trial = self._trial(way, answers, after=pattern_of(later.step))
            name = CallName(step=pattern_of(later.step), purpose=later.purpose, item=item_of(later.step))  # type: ignore[arg-type]
            script = {**trial.situation.script, name: (NO,)}
            return replace(trial, situation=replace(trial.situation, script=script))

        return fails

    def _stopped(self, way: str, answers: Said | None = None) -> Trial:
        """Nothing behind it can fail: somebody stops the run while the step is out."""
        trial = self._pressed(way, "stop_compensate")
        script = {**trial.situation.script, **self._script(answers or {})}
        return replace(trial, after="stop", situation=replace(trial.situation, script=script))

    def _last_behind(self) -> e.CallIntended | None:
        calls = [ev for ev in self.course.events if isinstance(ev, e.CallIntended) and ev.purpose in ("do", "read")]
        place = max((number for number, call in enumerate(calls) if call.step == self.path), default=len(calls))
        own = self._catcher(self.path)
        for call in reversed(calls[place + 1 :]):
            step = self.bundle.step(call.step)
            asks = step.if_refused == "continue" or step.tool_of  # what fails for an agent is a person's matter
            if not asks and self._catcher(call.step) in ("", own):
                return call
        return None

    def _catcher(self, path: str) -> str:
        """The nearest item around a path that may fail alone."""
        parts = path.split("/")
        for place in range(len(parts) - 1, 0, -1):
            if parts[place].isdigit() and self.bundle.step("/".join(parts[:place])).if_one_fails == "continue":
                return "/".join(parts[: place + 1])
        return ""


_OF_VERB: dict[str, Callable[[_Failing], Iterator[Trial]]] = {
    "do": _Failing.write,
    "read": _Failing.read,
    "approve": _Failing.approve,
    "wait": _Failing.nothing,
    "wait_for": _Failing.wait_for,
    "hand_off": _Failing.hand_off,
}


class Death(Calm):
    """The engine dies once, when the call that is meant has just been sent; its answer is never heard."""

    def __init__(self, world: World, call: CallName) -> None:
        self._world = world
        self._call = call
        self._seen = 0
        self._is_over = False

    def crash_after_send(self) -> bool:
        """See `engine.simulated.Weather`."""
        new, self._seen = self._world.sent[self._seen :], len(self._world.sent)
        if not self._is_over and any(self._call in self._world.names_of(sent.intent) for sent in new):
            self._is_over = True
            return True
        return False


WAYS: Sequence[str] = (
    CALM, "found", "several", "refused", "not_sent", "lost_happened", "lost_did_not", "lost_for_ever", "no_answer",
    "not_found", "killed", "killed_happened", "killed_did_not", "part_refused", "part_lost",
    "no", "late", "never", "answer_nobody_answers",
    "answer_compensate", "answer_close", "undo_no", "undo_late", "undo_refused", "undo_not_sent", "undo_lost_happened",
    "undo_lost_did_not", "undo_lost_for_ever", "undo_killed_happened", "undo_killed_did_not", "stop_here",
    "stop_compensate",
)  # fmt: skip
"""Every way there is, in the order in which they are told."""
