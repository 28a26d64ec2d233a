"""Tells a run's log as people read it: one line for each thing that happened, in order. Pure.

Attempts of one call that brought nothing are one line, which says how often and why, until the call has an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from runner.contract import Action, Json
from runner.core import events as e
from runner.core.state import Held
from runner.core.status import waits_for
from runner.language.bundle import Bundle
from runner.store.facts import LogRow
from runner.telling import sent
from runner.telling.words import MADE_GOOD, Sign, answered, bare, plain, sentence, shown_id

Call = tuple[str, str, int]
AGAIN = "Tried again."
NAMED = 4
"""How many steps of branches that are not taken are named."""
LOOKS = ("lookup", "find", "undo_lookup")
BUSY = {"unavailable": "not available", "rate_limited": "too many requests"}
NOTHING = {"CallRefused": "refused", "CallNotSent": "nothing was sent", "CallUnknown": "no clear answer"}
NOT_MADE_GOOD = {
    "cancel": "Could not be cancelled", "mark": "Could not be marked", "correct": "Could not be corrected",
    "quarantine": "Could not be quarantined",
}  # fmt: skip
_FIRST = re.compile(r"^(.+?)(?:[.;:]\s|[.;:]?$)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a timeline. Times are ms since the epoch; `step` is empty for the run as a whole.

    `until` is when a timer fires that is running, `then` what follows; `seq` is the last log entry the line tells of,
    `branch` the name of the step's branch in a parallel, `details` what stands below it.
    """

    at: int
    sign: Sign
    step: str
    text: str
    seq: int = 0
    branch: str = ""
    until: int | None = None
    then: Literal["", "goes on", "is tried again", "is looked up"] = ""
    details: tuple[str, ...] = ()
    is_passing: bool = False
    """It has just happened, and what follows from it will be told on the same line."""


def action_title(actions: Mapping[str, Action], name: str) -> str:
    """What an action does, in a few words: the beginning of its title, or its name where it has none."""
    action = actions.get(name)
    found = _FIRST.match(plain(action.title)) if action is not None else None
    return found[1] if found else name


def tell(bundle: Bundle, rows: Iterable[LogRow]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """(the lines of a whole log, a line for each first call that has no answer yet)."""
    teller = Teller(bundle)
    for row in rows:
        teller.read(row)
    return tuple(teller.lines), tuple(teller.asking.values())


def _because(reason: str) -> str:
    return f" {sentence(reason)}" if reason else ""


def _known(external_id: str, form: str = ", {}") -> str:
    return form.format(shown_id(external_id)) if external_id else ""


class Teller:
    """Reads a log row by row; `lines` is what there is to say so far. A line may change until its call has an end."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.lines: list[Line] = []
        self.asking: dict[Call, Line] = {}
        self._seq = 0
        self._branches = bundle.flow.branch_names()
        self._left_out: list[str] = []
        self._intents: dict[Call, e.CallIntended] = {}
        self._trouble: dict[Call, int] = {}
        self._tries: dict[Call, int] = {}
        self._waits: dict[str, int] = {}
        self._given: dict[tuple[str, str], Mapping[str, Json]] = {}
        self._in_doubt: set[Call] = set()
        self._taken_over_by = ""
        self._has_effects = False

    def read(self, row: LogRow) -> None:
        """One more row."""
        self._seq = row.seq
        if row.event is None:
            text = f"The content of this entry ({row.type}) was erased."
            self.lines.append(Line(at=row.at, sign="note", step=row.step, text=text, seq=row.seq))
            return
        if isinstance(row.event, e.CallEvent):
            self.asking.pop(row.event.call, None)
        if said := _SAID.get(type(row.event)):
            words = {each.name: plain(getattr(row.event, each.name)) for each in fields(row.event)}
            words |= {"because": _because(words.get("reason", "")), "known": _known(row.event.external_id, " ({})")}
            self.say(row.event, said[0], sentence(said[1].format_map(words)))
        elif told := _TOLD.get(type(row.event)):
            told(self, row.event)

    # -- lines --

    def say(self, event: e.Event, sign: Sign, text: str) -> int:
        """A new line; its place."""
        branch = self._branches.get(event.step, "")
        self.lines.append(Line(at=event.at, sign=sign, step=event.step, text=text, seq=self._seq, branch=branch))
        return len(self.lines) - 1

    def _change(self, place: int, **changes: Any) -> None:
        self.lines[place] = replace(self.lines[place], seq=self._seq, **{"is_passing": False, **changes})

    def _trouble_above(self, step: str) -> int | None:
        """The place of the step's last line, if it tells of a call that brought nothing."""
        place = next((at for at in range(len(self.lines) - 1, -1, -1) if self.lines[at].step == step), -1)
        return place if place in self._trouble.values() else None

    def about(self, event: e.CallEvent) -> str:
        """The call of an event in words; a part of several is numbered."""
        intent = self._intents.get(event.call)
        if intent is None:
            return "The call"
        title = "Looking it up" if event.purpose in LOOKS else action_title(self.bundle.actions, intent.action)
        action, given = self.bundle.actions.get(intent.action), self._given.get((event.step, event.purpose), {})
        if action is not None and action.own and given.get("collection"):
            title = f"{title} ({sent.value(given['collection'])})"
        to = f" to {sent.receiver(action, given, event.part)}" if intent.parts > 1 and given else ""
        return f"{title}{to} ({event.part + 1} of {intent.parts})" if intent.parts > 1 else title

    def _made_good(self, event: e.CallEvent) -> str:
        intent = self._intents.get(event.call)
        return MADE_GOOD.get(intent.word if intent else "", "made good")

    # -- calls --

    def intended(self, event: e.CallIntended) -> None:
        before = self._intents.get(event.call)
        if before is not None and before.generation != event.generation:
            self._trouble.pop(event.call, None)
            self._tries.pop(event.call, None)
        self._intents[event.call] = event
        if event.input:
            self._given[event.step, event.purpose] = event.input
        self._tries[event.call] = self._tries.get(event.call, 0) + 1
        place = self._trouble.get(event.call)
        if place is not None:
            self._change(place, text=f"{self.lines[place].text} {AGAIN}", until=None, then="")
        elif event.purpose not in LOOKS:
            text = f"{self.about(event)} …"
            branch = self._branches.get(event.step, "")
            self.asking[event.call] = Line(
                at=event.at, sign="wait", step=event.step, text=text, seq=self._seq, branch=branch
            )

    def troubled(self, event: e.CallRefused | e.CallNotSent | e.CallUnknown) -> None:
        """An attempt brought nothing: one line for all of them in a row."""
        tries = self._tries.get(event.call, 1)
        word = BUSY.get(event.reason) or NOTHING[type(event).__name__]
        often = f"{tries} tries, the last: " if tries > 1 else ""
        text = f"{self.about(event)}: {often}{word}.{_because(event.summary)}"
        sign: Sign = "unknown" if isinstance(event, e.CallUnknown) and event.purpose in ("do", "undo") else "wait"
        if isinstance(event, e.CallUnknown) and event.purpose == "do":
            self._in_doubt.add(event.call)
        place = self._trouble.get(event.call)
        if place is None:
            place = self._trouble[event.call] = self.say(event, sign, text)
        self._change(place, at=event.at, sign=sign, text=text, is_passing=True)

    def applied(self, event: e.CallApplied) -> None:
        self._trouble.pop(event.call, None)
        self._in_doubt.discard(event.call)
        tries = self._tries.pop(event.call, 1)
        if event.call not in self._intents or event.purpose in LOOKS:
            return
        again = f", at try {tries}" if tries > 1 else ""
        about, known = self.about(event), _known(event.external_id)
        if event.purpose == "undo":
            self.say(event, "good", f"{self._made_good(event).capitalize()}: {about}{known}{again}.")
        elif event.purpose == "read":
            what = "nothing was found" if event.output.get("found") is False else "read"
            self.say(event, "done", f"{about}: {what}{again}.")
        else:
            self._has_effects = True
            self.say(event, "done", f"{about}: done{again}{known}.")

    def settled(self, event: e.CallSettled) -> None:
        self._trouble.pop(event.call, None)
        self._tries.pop(event.call, None)
        self._in_doubt.discard(event.call)
        happened = event.result == "applied"
        self._has_effects = self._has_effects or (happened and event.purpose == "do")
        how = {"lookup": "by our reference", "find": "by its fields", "evidence": "from a late answer"}.get(event.by)
        if how is None:  # a person's answer is told as an answer
            return
        known = _known(event.external_id)
        if not happened:
            self.say(event, "wait", f"Looked up {how}: it did not happen.")
        elif event.purpose == "undo":
            self.say(event, "good", f"Looked up {how}: it is {self._made_good(event)}{known}.")
        else:
            maybe = " (perhaps not ours)" if event.adopted else ""
            self.say(event, "done", f"Looked up {how}: it did happen{known}{maybe}.")

    # -- steps --

    def failed(self, event: e.StepFailed) -> None:
        goes_on = " The flow goes on." if event.goes_on else ""
        sign: Sign = "note" if event.goes_on else "failed"
        place = self._trouble_above(event.step)
        if place is not None:
            self._change(place, sign=sign, text=f"{self.lines[place].text}{goes_on}")
        else:
            self.say(event, sign, f"{sentence(f'Failed: {event.summary}')}{goes_on}")

    def skipped(self, event: e.StepSkipped) -> None:
        if event.why != "branch":
            self._left_out = []
        if event.why == "when":  # a person's answer is told as an answer
            is_choose = self.bundle.step(event.step).verb == "choose"
            self.say(event, "note", f"Left out: {'no condition said yes' if is_choose else 'its condition said no'}.")
        elif self._left_out:
            self._left_out.append(event.step)
            chosen, *steps = self._left_out
            rest = f" and {len(steps) - NAMED} more" if len(steps) > NAMED else ""
            self._change(len(self.lines) - 1, text=f"{chosen} Left out: {', '.join(steps[:NAMED])}{rest}.")

    def chosen(self, event: e.BranchChosen) -> None:
        """The branch that is taken, in the words of its condition; the steps of the others follow on the same line."""
        when = self.bundle.step(event.step).branches[event.branch].when
        words = plain(when).removeprefix("${{").removesuffix("}}").strip() if when else "otherwise"
        self._left_out = [f"Chosen: {words}."]
        self.say(event, "note", self._left_out[0])

    def scope_started(self, event: e.ScopeStarted) -> None:
        names = ", ".join(branch.name for branch in self.bundle.step(event.step).branches)
        self.say(event, "note", f"At once: {names}.")

    def drafted(self, event: e.DraftRecorded) -> None:
        place = self.say(event, "note", f"{action_title(self.bundle.actions, event.action)}: written down.")
        self._change(place, details=sent.fields(event.input))

    def timer_set(self, event: e.TimerSet) -> None:
        if not event.purpose:
            self._waits[event.step] = self.say(event, "wait", "Waits.")
            self._change(self._waits[event.step], until=event.due, then="goes on")
        elif (place := self._trouble.get((event.step, event.purpose, event.part))) is not None:
            self._change(place, until=event.due, then="is looked up" if event.timer == "lookup" else "is tried again")

    def timer_fired(self, event: e.TimerFired) -> None:
        if not event.purpose and event.step in self._waits:
            place = self._waits.pop(event.step)
            self._change(place, at=event.at, sign="done", text="The wait is over.", until=None, then="")
        elif event.purpose and (trouble := self._trouble.get((event.step, event.purpose, event.part))) is not None:
            self._change(trouble, until=None, then="")

    # -- the run --

    def held(self, event: e.RunHeld) -> None:
        held = Held(why=event.why, name=plain(event.name), by=plain(event.by_run))
        self.say(event, "wait", sentence(waits_for(held)))

    def stop_asked(self, event: e.StopRequested) -> None:
        how = "; what was done is to be made good" if event.compensate else " here"
        self.say(event, "person", f"{plain(event.by)} stops it{how}.{_because(event.reason)}")

    def started(self, event: e.RunStarted) -> None:
        self._has_effects = bool(event.continues)
        self._taken_over_by = plain(event.starter) if event.clean_up == "take_over" else ""
        if event.continues:
            self.say(event, "person", f"{plain(event.starter)} lets run {event.continues} be cleaned up.")

    def closed(self, event: e.ForwardClosed) -> None:
        if event.compensate:
            may_stand = self._has_effects or bool(self._in_doubt)
            follows = "What was done is now made good." if may_stand else "Nothing had been done."
            why = f"Step {event.failed_step} failed. " if event.cause == "failure" and event.failed_step else ""
            self.say(event, "note", f"{why}{follows}")
        elif event.cause != "stop":
            self.say(event, "note", "Nothing more is begun; what was done stays.")

    def undo_skipped(self, event: e.CompensationSkipped) -> None:
        by = f" by {plain(event.by)}" if event.by else ""
        self.say(event, "note", sentence(f"Left as it is{by}: {bare(event.reason)}"))

    def undo_failed(self, event: e.CompensationFailed) -> None:
        intent = self._intents.get((event.step, "undo", event.part))
        word = NOT_MADE_GOOD.get(intent.word if intent else "", "Could not be made good")
        text = sentence(f"{word}: {event.summary}")
        place = self._trouble_above(event.step)
        if place is not None:
            self._change(place, at=event.at, sign="failed", text=text)
        else:
            self.say(event, "failed", text)

    def finished(self, event: e.RunFinished) -> None:
        by = f" {self._taken_over_by} has taken it over." if event.status == "closed" and self._taken_over_by else ""
        sign: Sign = "failed" if event.status in ("failed", "stopped") else "done"
        self.say(event, sign, f"Closed:{by}" if by else _ENDS[event.status])

    def handed_off(self, event: e.HandedOff) -> None:
        is_told = event.kind == "compensation_failed" or self._trouble_above(event.step) is not None
        why = ("" if event.kind == "compensation_failed" else event.say) or ("" if is_told else event.summary)
        said = f": {bare(why)}" if why else ""
        self.say(event, "person", sentence(f"Handed to {event.owner} ({event.handoff}){said}"))

    def resolved(self, event: e.HandOffResolved) -> None:
        reference = f" ({plain(event.reference)})" if event.reference else ""
        self._taken_over_by = plain(event.by) if event.choice == "take_over" else self._taken_over_by
        answer = f"{answered(event.choice)}{_known(event.external_id)}{reference}"
        self.say(event, "person", f"{plain(event.by)} answers {event.handoff}: {answer}.{_because(event.reason)}")


_ENDS: Mapping[str, str] = {
    "succeeded": "Succeeded.",
    "drafted": "Drafted.",
    "failed": "Failed; nothing had been done.",
    "compensated": "Compensated; nothing stands.",
    "stopped": "Stopped; what was done stays.",
    "closed": "Closed by a person.",
}

_SAID: Mapping[type[e.Event], tuple[Sign, str]] = {
    e.EvidenceLate: ("note", "A late answer was kept, it changes nothing: {summary}"),
    e.RecordFound: ("done", "Was there already{known}: used as it is, not made by this run."),
    e.RunPaused: ("person", "{by} pauses it.{because}"),
    e.RunResumed: ("person", "{by} lets it go on."),
    e.HandOffAcknowledged: ("person", "{by} has seen {handoff}."),
    e.Escalated: ("person", "No answer came: {about} is passed on to {to}."),
    e.RecordQuarantined: ("good", "{record} is set aside.{because}"),
    e.RunMoved: ("person", "{by} moved the run from version {before:.8} of its flow to {bundle:.8}."),
    e.PersonalDataErased: ("person", "{by} erased personal data of this run."),
}
"""Facts that are always one line: the fact's own fields, `because` its reason, `known` the outside id."""

_TOLD: Mapping[type[e.Event], Callable[[Teller, Any], None]] = {
    e.RunStarted: Teller.started, e.RunFinished: Teller.finished, e.ForwardClosed: Teller.closed,
    e.CallIntended: Teller.intended, e.CallApplied: Teller.applied, e.CallRefused: Teller.troubled,
    e.CallNotSent: Teller.troubled, e.CallUnknown: Teller.troubled, e.CallSettled: Teller.settled,
    e.StepFailed: Teller.failed, e.StepSkipped: Teller.skipped, e.DraftRecorded: Teller.drafted,
    e.TimerSet: Teller.timer_set, e.TimerFired: Teller.timer_fired, e.HandedOff: Teller.handed_off,
    e.CompensationFailed: Teller.undo_failed, e.CompensationSkipped: Teller.undo_skipped, e.RunHeld: Teller.held,
    e.StopRequested: Teller.stop_asked, e.HandOffResolved: Teller.resolved, e.BranchChosen: Teller.chosen,
    e.ScopeStarted: Teller.scope_started,
}  # fmt: skip
"""Facts that change other lines, or are told by what was before. What stands nowhere here is for machines."""
