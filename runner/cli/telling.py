"""Tells a run's log as people read it: one line for each thing that happened, in order. Pure.

Attempts of one call that brought nothing are one line, which says how often and why, until the call has an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from runner.cli import words
from runner.core import events as e
from runner.language.bundle import Bundle
from runner.store.facts import LogRow

Sign = Literal["done", "failed", "unknown", "good", "person", "note", "wait"]
Call = tuple[str, str, int]
AGAIN = "Tried again."


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a timeline. Times are ms since the epoch; `step` is empty for the run as a whole.

    `until` is when a timer fires that is running, `then` what follows; `seq` is the last log entry the line tells of.
    """

    at: int
    sign: Sign
    step: str
    text: str
    seq: int = 0
    until: int | None = None
    then: Literal["", "goes on", "tried again", "looked up"] = ""


def tell(bundle: Bundle, rows: Iterable[LogRow]) -> tuple[Line, ...]:
    """The lines of a whole log."""
    teller = Teller(bundle)
    for row in rows:
        teller.read(row)
    return tuple(teller.lines)


class Teller:
    """Reads a log row by row; `lines` is what there is to say so far. A line may change until its call has an end."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.lines: list[Line] = []
        self._seq = 0
        self._intents: dict[Call, e.CallIntended] = {}
        self._trouble: dict[Call, int] = {}
        self._tries: dict[Call, int] = {}
        self._waits: dict[str, int] = {}
        self._asked: dict[str, e.HandedOff] = {}
        self._has_effects = False

    def read(self, row: LogRow) -> None:
        """One more row."""
        self._seq = row.seq
        if row.event is None:
            self._say_at(row.at, "note", row.step, f"The content of this entry ({row.type}) was erased.")
            return
        told = _TOLD.get(type(row.event))
        if told is not None:
            told(self, row.event)

    # -- lines --

    def _say_at(self, at: int, sign: Sign, step: str, text: str) -> int:
        self.lines.append(Line(at=at, sign=sign, step=step, text=text, seq=self._seq))
        return len(self.lines) - 1

    def say(self, event: e.Event, sign: Sign, text: str) -> int:
        """A new line; its place."""
        return self._say_at(event.at, sign, event.step, text)

    def _change(self, place: int, **changes: Any) -> None:
        self.lines[place] = replace(self.lines[place], seq=self._seq, **changes)

    def title(self, action: str) -> str:
        """An action in words."""
        return words.action_title(self.bundle.actions, action)

    def about(self, event: e.CallEvent) -> str:
        """The call of an event in words; a part of several is numbered."""
        intent = self._intents.get(event.call)
        if intent is None:
            return "The call"
        title = self.title(intent.action)
        if event.purpose in ("lookup", "find", "undo_lookup"):
            title = "Looking it up"
        return f"{title} ({event.part + 1} of {intent.parts})" if intent.parts > 1 else title

    # -- calls --

    def intended(self, event: e.CallIntended) -> None:
        before = self._intents.get(event.call)
        if before is not None and before.generation != event.generation:
            self._trouble.pop(event.call, None)
            self._tries.pop(event.call, None)
        self._intents[event.call] = event
        self._tries[event.call] = self._tries.get(event.call, 0) + 1
        place = self._trouble.get(event.call)
        if place is not None:
            self._change(place, text=f"{self.lines[place].text} {AGAIN}", until=None, then="")

    def troubled(self, event: e.CallRefused | e.CallNotSent | e.CallUnknown) -> None:
        """An attempt brought nothing: one line for all of them in a row."""
        tries = self._tries.get(event.call, 1)
        word = words.BUSY.get(event.reason) or words.OUTCOME_EVENTS[type(event).__name__]
        why = words.sentence(event.summary)
        often = f"{tries} tries, the last: " if tries > 1 else ""
        text = f"{self.about(event)}: {often}{word}." + (f" {why}" if why else "")
        sign: Sign = "unknown" if isinstance(event, e.CallUnknown) and event.purpose in ("do", "undo") else "wait"
        place = self._trouble.get(event.call)
        if place is None:
            self._trouble[event.call] = self.say(event, sign, text)
        else:
            self._change(place, at=event.at, sign=sign, text=text)

    def applied(self, event: e.CallApplied) -> None:
        intent = self._intents.get(event.call)
        self._trouble.pop(event.call, None)
        tries = self._tries.pop(event.call, 1)
        if intent is None or event.purpose in ("lookup", "find", "undo_lookup"):
            return
        known = words.shown_id(event.external_id)
        again = f", at try {tries}" if tries > 1 else ""
        if event.purpose == "undo":
            word = words.MADE_GOOD.get(intent.word, "made good").capitalize()
            ids = f", {known}" if known else ""
            self.say(event, "good", f"{word}: {self.about(event)}{ids}{again}.")
            return
        if event.purpose == "read":
            nothing = event.output.get("found") is False
            self.say(event, "done", f"{self.about(event)}: {'nothing was found' if nothing else 'read'}{again}.")
            return
        self._has_effects = True
        self.say(event, "done", f"{self.about(event)}: done{again}{f', {known}' if known else ''}.")

    def settled(self, event: e.CallSettled) -> None:
        self._trouble.pop(event.call, None)
        self._tries.pop(event.call, None)
        if event.by not in ("lookup", "find", "evidence"):
            self._has_effects = self._has_effects or (event.result == "applied" and event.purpose == "do")
            return
        how = {"lookup": "by our reference", "find": "by its fields"}.get(event.by, "from a late answer")
        known = words.shown_id(event.external_id)
        if event.result != "applied":
            self.say(event, "wait", f"Looked up {how}: it did not happen.")
            return
        ids = f", {known}" if known else ""
        if event.purpose == "undo":
            word = words.MADE_GOOD.get(self._intents[event.call].word, "made good")
            self.say(event, "good", f"Looked up {how}: it is {word}{ids}.")
            return
        self._has_effects = True
        maybe = " (perhaps not ours)" if event.adopted else ""
        self.say(event, "done", f"Looked up {how}: it did happen{ids}{maybe}.")

    def came_late(self, event: e.EvidenceLate) -> None:
        self.say(event, "note", words.sentence(f"A late answer was kept, it changes nothing: {event.summary}"))

    def found(self, event: e.RecordFound) -> None:
        known = words.shown_id(event.external_id)
        ids = f" ({known})" if known else ""
        self.say(event, "done", f"Was there already{ids}: used as it is, not made by this run.")

    # -- steps --

    def failed(self, event: e.StepFailed) -> None:
        goes_on = " The flow goes on." if event.goes_on else ""
        sign: Sign = "note" if event.goes_on else "failed"
        place = len(self.lines) - 1
        last = self.lines[place] if self.lines else None
        if last is not None and last.step == event.step and place in self._trouble.values():
            self._change(place, sign=sign, text=f"{last.text}{goes_on}")
            return
        self.say(event, sign, f"{words.sentence(f'Failed: {event.summary}')}{goes_on}")

    def skipped(self, event: e.StepSkipped) -> None:
        if event.why != "person":  # a person's answer is told as an answer
            self.say(event, "note", "Left out: its condition said no.")

    def drafted(self, event: e.DraftRecorded) -> None:
        self.say(event, "note", f"{self.title(event.action)}: written down, not sent.")

    def timer_set(self, event: e.TimerSet) -> None:
        if not event.purpose:
            self._waits[event.step] = self.say(event, "wait", "Waits.")
            self._change(self._waits[event.step], until=event.due, then="goes on")
            return
        place = self._trouble.get(_call_of(event))
        if place is not None:
            self._change(place, until=event.due, then="looked up" if event.timer == "lookup" else "tried again")

    def timer_fired(self, event: e.TimerFired) -> None:
        is_wait = not event.purpose
        place = self._waits.pop(event.step, None) if is_wait else self._trouble.get(_call_of(event))
        if place is None:
            return
        if is_wait:
            self._change(place, at=event.at, sign="done", text="The wait is over.")
        self._change(place, until=None, then="")

    # -- the run --

    def started(self, event: e.RunStarted) -> None:
        self._has_effects = bool(event.continues)
        if event.continues:
            self.say_run(event, "person", f"{words.plain(event.starter)} lets run {event.continues} be cleaned up.")

    def held(self, event: e.RunHeld) -> None:
        by = f" by run {event.by_run}" if event.by_run else ""
        self.say(event, "wait", f"Waits: {words.plain(event.why)} {words.plain(event.name)} is held{by}.")

    def paused(self, event: e.RunPaused) -> None:
        self.say(event, "person", f"{words.plain(event.by)} pauses it.{_because(event.reason)}")

    def resumed(self, event: e.RunResumed) -> None:
        self.say(event, "person", f"{words.plain(event.by)} lets it go on.")

    def stop_asked(self, event: e.StopRequested) -> None:
        how = "; what was done is to be made good" if event.compensate else " here"
        self.say(event, "person", f"{words.plain(event.by)} stops it{how}.{_because(event.reason)}")

    def closed(self, event: e.ForwardClosed) -> None:
        if not event.compensate:
            if event.cause != "stop":
                self.say_run(event, "note", "Nothing more is begun; what was done stays.")
            return
        follows = "What was done is now made good." if self._may_stand() else "Nothing had been done."
        why = f"Step {event.failed_step} failed. " if event.cause == "failure" and event.failed_step else ""
        self.say_run(event, "note", f"{why}{follows}")

    def say_run(self, event: e.Event, sign: Sign, text: str) -> None:
        """A line about the run as a whole."""
        self._say_at(event.at, sign, "", text)

    def _may_stand(self) -> bool:
        return self._has_effects or any(call[1] == "do" for call in self._trouble)

    def undo_skipped(self, event: e.CompensationSkipped) -> None:
        by = f" by {words.plain(event.by)}" if event.by else ""
        self.say(event, "note", words.sentence(f"Left as it is{by}: {words.bare(event.reason)}"))

    def undo_failed(self, event: e.CompensationFailed) -> None:
        intent = self._intents.get((event.step, "undo", event.part))
        word = words.NOT_MADE_GOOD.get(intent.word if intent else "", "could not be made good")
        place = len(self.lines) - 1
        text = words.sentence(f"{word.capitalize()}: {event.summary}")
        if self.lines and self.lines[place].step == event.step and place in self._trouble.values():
            self._change(place, at=event.at, sign="failed", text=text)
            return
        self.say(event, "failed", text)

    def finished(self, event: e.RunFinished) -> None:
        self.say_run(event, "failed" if event.status in ("failed", "stopped") else "done", _ENDS[event.status])

    # -- people --

    def handed_off(self, event: e.HandedOff) -> None:
        self._asked[event.handoff] = event
        why = event.say or event.summary
        place = len(self.lines) - 1
        if place in self._trouble.values() and self.lines[place].step == event.step:
            why = event.say
        if event.kind == "compensation_failed":
            why = ""
        said = f": {words.bare(why)}" if why else ""
        self.say(event, "person", words.sentence(f"Handed to {event.owner} ({event.handoff}){said}"))

    def acknowledged(self, event: e.HandOffAcknowledged) -> None:
        self.say(event, "person", f"{words.plain(event.by)} has seen {event.handoff}.")

    def escalated(self, event: e.Escalated) -> None:
        to = words.plain(event.to)
        self.say(event, "person", f"No answer came: {words.plain(event.about)} is passed on to {to}.")

    def resolved(self, event: e.HandOffResolved) -> None:
        answer = words.ANSWERED.get(event.choice, event.choice)
        reference = f" ({words.plain(event.reference)})" if event.reference else ""
        known = f", {words.shown_id(event.external_id)}" if event.external_id else ""
        said = f"{words.plain(event.by)} answers {event.handoff}: {answer}{known}{reference}."
        self.say(event, "person", f"{said}{_because(event.reason)}")

    def quarantined(self, event: e.RecordQuarantined) -> None:
        self.say(event, "good", f"{words.plain(event.record)} is set aside.{_because(event.reason)}")

    def moved(self, event: e.RunMoved) -> None:
        self.say_run(event, "person", f"{words.plain(event.by)} moved the run to another version of its flow.")

    def erased(self, event: e.PersonalDataErased) -> None:
        self.say_run(event, "person", f"{words.plain(event.by)} erased personal data of this run.")


def _call_of(timer: e.TimerSet | e.TimerFired) -> Call:
    return (timer.step, timer.purpose, timer.part)


def _because(reason: str) -> str:
    return f" {words.sentence(reason)}" if reason else ""


_ENDS: Mapping[str, str] = {
    "succeeded": "Succeeded.",
    "drafted": "Drafted.",
    "failed": "Failed; nothing had been done.",
    "compensated": "Compensated; nothing stands.",
    "stopped": "Stopped; what was done stays.",
    "closed": "Closed by a person.",
}

_TOLD: Mapping[type[e.Event], Callable[[Teller, Any], None]] = {
    e.RunStarted: Teller.started,
    e.CallIntended: Teller.intended,
    e.CallApplied: Teller.applied,
    e.CallRefused: Teller.troubled,
    e.CallNotSent: Teller.troubled,
    e.CallUnknown: Teller.troubled,
    e.CallSettled: Teller.settled,
    e.EvidenceLate: Teller.came_late,
    e.RecordFound: Teller.found,
    e.StepFailed: Teller.failed,
    e.StepSkipped: Teller.skipped,
    e.DraftRecorded: Teller.drafted,
    e.TimerSet: Teller.timer_set,
    e.TimerFired: Teller.timer_fired,
    e.RunHeld: Teller.held,
    e.RunPaused: Teller.paused,
    e.RunResumed: Teller.resumed,
    e.StopRequested: Teller.stop_asked,
    e.ForwardClosed: Teller.closed,
    e.CompensationSkipped: Teller.undo_skipped,
    e.CompensationFailed: Teller.undo_failed,
    e.RunFinished: Teller.finished,
    e.HandedOff: Teller.handed_off,
    e.HandOffAcknowledged: Teller.acknowledged,
    e.Escalated: Teller.escalated,
    e.HandOffResolved: Teller.resolved,
    e.RecordQuarantined: Teller.quarantined,
    e.RunMoved: Teller.moved,
    e.PersonalDataErased: Teller.erased,
}
"""How each fact is told. What stands nowhere here is for machines."""
