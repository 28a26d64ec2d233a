"""Tells a run's log as people read it: one line for each thing that happened, in order. Pure.

Attempts of one call that brought nothing are one line, which says how often and why, until the call has an end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from runner.contract import Json
from runner.core import events as e
from runner.core.gates import wish_of
from runner.core.paths import is_in
from runner.core.state import Held
from runner.core.status import waits_for
from runner.language.bundle import Bundle
from runner.recorded import retold
from runner.store.abridged import WHOLE, Abridged
from runner.store.facts import LogRow
from runner.telling import sent, sentences
from runner.telling.scopes import Scopes
from runner.telling.sentences import BUSY, ENDS, FOLLOWS, GOES_ON, LOOKED, NOT_MADE_GOOD, NOTHING, STEP_FAILED, said_of
from runner.telling.tree import Line, Tree
from runner.telling.words import MADE_GOOD, Sign, action_title, answered, bare, plain, sentence, shown_id
from runner.tongue import _, marked

Call = tuple[str, str, int]
AGAIN = marked("Tried again.")
NAMED = 4
"""How many steps of branches that are not taken are named."""
LOOKS = ("lookup", "find", "undo_lookup")


def _because(reason: str) -> str:
    return f" {sentence(reason)}" if reason else ""


def _known(external_id: str) -> str:
    return _(", {id}", id=shown_id(external_id)) if external_id else ""


class Teller:
    """Reads a log row by row. A line may change until its call has an end; items of long lists are told as `scopes`
    says, but for what stands in `whole`.
    """

    def __init__(self, bundle: Bundle, whole: str | None = None, left_out: Abridged = WHOLE) -> None:
        self.bundle = bundle
        self.tree = Tree()
        self.scopes = Scopes(bundle, self.tree, whole, left_out)
        self.asking: dict[Call, Line] = {}
        self._seq = 0
        self._left_out: list[str] = []
        self._left_out_at = 0
        self._late: dict[str, int] = {}
        self._approvals: dict[str, int] = {}
        self._questions: dict[str, str] = {}
        self._intents: dict[Call, e.CallIntended] = {}
        self._trouble: dict[Call, int] = {}
        self._tries: dict[Call, int] = {}
        self._waits: dict[str, int] = {}
        self._given: dict[tuple[str, str], Mapping[str, Json]] = {}
        self._in_doubt: set[Call] = set()
        self._taken_over_by = ""
        self._has_effects = False

    def use(self, bundle: Bundle) -> None:
        """From here on the run is told by this version of its flow."""
        if bundle is not self.bundle:
            self.bundle = self.scopes.bundle = bundle

    def read(self, row: LogRow) -> None:
        """One more row."""
        self._seq = row.seq
        if row.event is None:
            text = _("The content of this entry ({type}) was erased.", type=row.type)
            self.tree.add(self._line(row.at, "note", row.step, text))
            return
        if isinstance(row.event, e.CallEvent):
            self.asking.pop(row.event.call, None)
        if said := said_of(row.event):
            words = {each.name: retold(plain(getattr(row.event, each.name))) for each in fields(row.event)}
            known = _(" ({id})", id=shown_id(row.event.external_id)) if row.event.external_id else ""
            words |= {"because": _because(words.get("reason", "")), "known": known}
            self.say(row.event, said[0], sentence(_(said[1], **words)))
        elif told := _TOLD.get(type(row.event)):
            told(self, row.event)

    # -- lines --

    def told(self, asked: Collection[str] = (), to_come: Collection[str] = ()) -> tuple[Line, ...]:
        """The lines there are, what has no answer yet among them. `asked`: the steps that a person is asked about,
        `to_come`: those that are still to be made good beside these.
        """
        quiet, good = self.scopes.write(asked, to_come)
        return self.tree.told(self.asking.values(), quiet, good)

    def _line(self, at: int, sign: Sign, step: str, text: str) -> Line:
        self.scopes.ensure(step, at, self._seq)
        names = self.scopes.names_of(step)
        return Line(
            at=at, sign=sign, step=step, text=text, name=names[-1], place=" › ".join(names), seq=self._seq,
            branch=self.scopes.branch(step),
        )  # fmt: skip

    def _place(self, step: str) -> str:
        return " › ".join(self.scopes.names_of(step))

    def say(self, event: e.Event, sign: Sign, text: str) -> int:
        """A new line; its number."""
        return self.tree.add(self._line(event.at, sign, event.step, text))

    def _change(self, number: int, **changes: Any) -> None:
        self.tree.change(number, seq=self._seq, **{"is_passing": False, **changes})

    def _trouble_above(self, step: str) -> int | None:
        """The number of the step's last line, if it tells of a call that brought nothing, or of an event that did not
        come.
        """
        number = self.tree.last(step)
        return number if number in self._trouble.values() or number == self._late.get(step, 0) else None

    def _forget(self, item: str) -> None:
        """An item is not told any more."""
        if not item:
            return
        calls: tuple[dict[Any, Any], ...] = (self._intents, self._trouble, self._tries, self._given, self.asking)
        for kept in calls:
            for key in [key for key in kept if is_in(key[0], item)]:
                del kept[key]
        for steps in (self._waits, self._late):
            for step in [step for step in steps if is_in(step, item)]:
                del steps[step]
        self._in_doubt = {call for call in self._in_doubt if not is_in(call[0], item)}

    def about(self, event: e.CallEvent) -> str:
        """The call of an event in words; a part of several is numbered."""
        intent = self._intents.get(event.call)
        if intent is None:
            return _("The call")
        title = _("Looking it up") if event.purpose in LOOKS else action_title(self.bundle.actions, intent.action)
        action, given = self.bundle.actions.get(intent.action), self._given.get((event.step, event.purpose), {})
        if action is not None and action.own and given.get("collection"):
            title = _("{what} ({by})", what=title, by=sent.value(given["collection"]))
        if intent.parts <= 1:
            return title
        title = _("{call} to {who}", call=title, who=sent.receiver(action, given, event.part)) if given else title
        return _("{call} ({number} of {count})", call=title, number=event.part + 1, count=intent.parts)

    def _made_good(self, event: e.CallEvent) -> str:
        intent = self._intents.get(event.call)
        return _(MADE_GOOD.get(intent.word if intent else "", "made good"))

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
            self._change(place, text=f"{self.tree[place].text} {_(AGAIN)}", until=None, then="")
        elif event.purpose not in LOOKS:
            line = self._line(event.at, "wait", event.step, _("{call} …", call=self.about(event)))
            self.asking[event.call] = replace(line, within=self.tree.around(event.step), is_asking=True)

    def troubled(self, event: e.CallRefused | e.CallNotSent | e.CallUnknown) -> None:
        """An attempt brought nothing: one line for all of them in a row."""
        tries = self._tries.get(event.call, 1)
        word = _(BUSY.get(event.reason) or NOTHING[type(event).__name__])
        form = marked("{call}: {count} tries, the last: {what}.") if tries > 1 else marked("{call}: {what}.")
        text = _(form, call=self.about(event), count=tries, what=word) + _because(retold(event.summary))
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
        again = _(", at try {count}", count=tries) if tries > 1 else ""
        about, known = self.about(event), _known(event.external_id)
        if event.purpose == "undo":
            done = self._made_good(event).capitalize()
            self.say(event, "good", _("{done}: {call}{known}{again}.", done=done, call=about, known=known, again=again))
        elif event.purpose == "read":
            what = _("nothing was found") if event.output.get("found") is False else _("read")
            turn = sentences.turn_of(self.bundle.actions.get(self._intents[event.call].action), event.output)
            self.say(event, "done", turn or _("{call}: {what}{again}.", call=about, what=what, again=again))
        else:
            self._has_effects = True
            self.say(event, "done", _("{call}: done{again}{known}.", call=about, again=again, known=known))

    def settled(self, event: e.CallSettled) -> None:
        self._trouble.pop(event.call, None)
        self._tries.pop(event.call, None)
        self._in_doubt.discard(event.call)
        happened = event.result == "applied"
        self._has_effects = self._has_effects or (happened and event.purpose == "do")
        if event.by not in LOOKED:  # a person's answer is told as an answer
            return
        how, known = _(LOOKED[event.by]), _known(event.external_id)
        if not happened:
            self.say(event, "wait", _("Looked up {how}: it did not happen.", how=how))
        elif event.purpose == "undo":
            done = self._made_good(event)
            self.say(event, "good", _("Looked up {how}: it is {done}{known}.", how=how, done=done, known=known))
        else:
            maybe = _(" (perhaps not ours)") if event.adopted else ""
            self.say(
                event, "done", _("Looked up {how}: it did happen{known}{maybe}.", how=how, known=known, maybe=maybe)
            )

    # -- steps --

    def failed(self, event: e.StepFailed) -> None:
        goes_on = f" {_(GOES_ON)}" if event.goes_on else ""
        sign: Sign = "note" if event.goes_on else "failed"
        place = self._trouble_above(event.step)
        if place is not None:
            self._change(place, sign=sign, text=f"{self.tree[place].text}{goes_on}", until=None, then="")
        else:
            self.say(event, sign, sentence(_("Failed: {why}", why=retold(event.summary))) + goes_on)
        if not event.goes_on:
            self.scopes.failed(event.step, event.summary)

    def skipped(self, event: e.StepSkipped) -> None:
        if event.why != "branch":
            self._left_out = []
        if event.why == "when":  # a person's answer is told as an answer
            is_choose = self.bundle.step(event.step).verb == "choose"
            self.say(
                event,
                "note",
                _("Left out: no condition said yes.") if is_choose else _("Left out: its condition said no."),
            )
        elif self._left_out:
            self._left_out.append(event.step.rpartition("/")[2])
            chosen, *steps = self._left_out
            rest = _(" and {count} more", count=len(steps) - NAMED) if len(steps) > NAMED else ""
            text = _("Left out: {steps}{rest}.", steps=", ".join(steps[:NAMED]), rest=rest)
            self._change(self._left_out_at, text=f"{chosen} {text}")

    def chosen(self, event: e.BranchChosen) -> None:
        """The branch that is taken, in the words of its condition; the steps of the others follow on the same line."""
        when = self.bundle.step(event.step).branches[event.branch].when
        words = plain(when).removeprefix("${{").removesuffix("}}").strip() if when else _("otherwise")
        self._left_out = [_("Chosen: {condition}.", condition=words)]
        self._left_out_at = self.say(event, "note", self._left_out[0])

    def scope_started(self, event: e.ScopeStarted) -> None:
        if event.kind == "parallel":
            names = ", ".join(branch.name for branch in self.bundle.step(event.step).branches)
            self.say(event, "note", _("At once: {names}.", names=names))
        elif why := self.scopes.started(event, self._seq):
            self.say(event, "note", sentence(_("Not called: {why}", why=why)))

    def scope_ended(self, event: e.ScopeEnded) -> None:
        self._forget(self.scopes.ended(event, self._seq))

    def set_aside(self, event: e.ItemSetAside) -> None:
        self._forget(self.scopes.set_aside(event, self._seq))

    def item_resumed(self, event: e.ItemResumed) -> None:
        self.scopes.taken_up(event.step)
        self.say(event, "person", _("{by} has it done anew.", by=plain(event.by)) + _because(event.reason))

    def item_accepted(self, event: e.ItemAccepted) -> None:
        self.scopes.accepted(event.step, self._seq)
        text = _("{by} leaves it set aside.", by=plain(event.by)) + _because(event.reason)
        self.tree.add(self._line(event.at, "person", event.step, text))

    def drafted(self, event: e.DraftRecorded) -> None:
        emitted = event.action.startswith("emit ")
        title = action_title(self.bundle.actions, event.action)
        what = _("The event {event}", event=event.action[5:]) if emitted else title
        text = _("{what}: written down.", what=what)
        self.say(event, "note", f"{text} {sentences.no_draft(event)}".rstrip())

    def timer_set(self, event: e.TimerSet) -> None:
        if not event.purpose:
            self._waits[event.step] = self.say(event, "wait", _("Waits."))
            self._change(self._waits[event.step], until=event.due, then="goes on")
        elif (place := self._trouble.get((event.step, event.purpose, event.part))) is not None:
            self._change(place, until=event.due, then="is looked up" if event.timer == "lookup" else "is tried again")

    def timer_fired(self, event: e.TimerFired) -> None:
        about = event.step + (":undo" if event.purpose == "undo" else "")
        if event.timer == "remind":
            self.say(event, "note", _("Nobody has answered yet: they are reminded."))
        elif event.timer == "approval" and (asked := self._approvals.get(about)) is not None:
            self._change(asked, until=None, then="")
            self.say(event, "note", _("The time to decide is over: that is a no."))
        elif not event.purpose and event.step in self._waits:
            place = self._waits.pop(event.step)
            if event.timer == "late":
                self._late[event.step] = place
                text = _("{event} did not come in time.", event=self.bundle.step(event.step).event)
                self._change(place, at=event.at, sign="note", text=text, until=None, then="")
            else:
                self._change(place, at=event.at, sign="done", text=_("The wait is over."), until=None, then="")
        elif event.purpose and (trouble := self._trouble.get((event.step, event.purpose, event.part))) is not None:
            self._change(trouble, until=None, then="")

    def awaited(self, event: e.EventAwaited) -> None:
        which = _(" ({fields})", fields=sent.pairs(event.match)) if event.match else ""
        text = _("Waits for {event}{which}.", event=plain(event.event), which=which)
        self._waits[event.step] = self.say(event, "wait", text)
        if event.due:
            self._change(self._waits[event.step], until=event.due, then="is late")

    def received(self, event: e.EventReceived) -> None:
        which = f": {sent.pairs(event.data)}" if event.data else ""
        text = sentence(_("{event} has come{which}", event=plain(event.event), which=which))
        place = self._waits.pop(event.step, None) or self.say(event, "done", text)
        self._change(place, at=event.at, sign="done", text=text, until=None, then="")

    def asked(self, event: e.ApprovalRequested) -> None:
        form = marked("Asks {count} of {who}: {question}") if event.needs > 1 else marked("Asks {who}: {question}")
        who, question = _(" or ").join(map(plain, event.by)), plain(event.shown.get("question", ""))
        text = sentence(_(form, count=event.needs, who=who, question=question))
        self._approvals[event.approval] = self.say(event, "person", text)
        self._change(self._approvals[event.approval], until=event.due, then="is a no without an answer")

    def decided(self, event: e.ApprovalDecided) -> None:
        if (number := self._approvals.get(event.approval)) is not None:
            self._change(number, until=None, then="")
        by, wish = plain(event.by), wish_of(event.comment) if event.answer != "yes" else ""
        form = marked("{by} says yes.") if event.answer == "yes" else marked("{by} says no.")
        asked = sentence(_("{by} asked for changes: {wish}", by=by, wish=plain(wish))) if wish else ""
        self.say(event, "person", asked or _(form, by=by) + _because(event.comment))

    def lapsed(self, event: e.ApprovalLapsed) -> None:
        self._approvals.pop(event.approval, None)
        self.say(event, "note", sentence(_("The yes is not good any more: {why}", why=retold(plain(event.why)))))

    def emitted(self, event: e.Emitted) -> None:
        which = f": {sent.pairs(event.data)}" if event.data else ""
        self.say(event, "done", sentence(_("Sends {event}{which}", event=plain(event.event), which=which)))

    # -- the run --

    def held(self, event: e.RunHeld) -> None:
        held = Held(why=event.why, name=plain(event.name), by=plain(event.by_run))
        self.say(event, "wait", sentence(retold(waits_for(held))))

    def stop_asked(self, event: e.StopRequested) -> None:
        form = (
            marked("{by} stops it; what was done is to be made good.")
            if event.compensate
            else marked("{by} stops it here.")
        )
        self.say(event, "person", _(form, by=plain(event.by)) + _because(event.reason))

    def started(self, event: e.RunStarted) -> None:
        self._has_effects = bool(event.continues)
        self._taken_over_by = plain(event.starter) if event.clean_up == "take_over" else ""
        if event.continues:
            text = _("{by} lets run {run} be cleaned up.", by=plain(event.starter), run=event.continues)
            self.say(event, "person", text)

    def closed(self, event: e.ForwardClosed) -> None:
        if event.step:  # an item that fails alone says so itself
            self.scopes.failed(f"{event.step}/", event.summary)
            return
        self.scopes.close()
        if event.compensate:
            may_stand = self._has_effects or bool(self._in_doubt)
            follows = _("What was done is now made good.") if may_stand else _("Nothing had been done.")
            if event.cause == "failure" and event.failed_step:
                follows = f"{_(STEP_FAILED, step=self._place(event.failed_step))} {follows}"
            self.say(event, "note", follows)
        elif event.cause != "stop":
            self.say(event, "note", _("Nothing more is begun; what was done stays."))

    def undo_skipped(self, event: e.CompensationSkipped) -> None:
        form = marked("Left as it is by {by}: {why}") if event.by else marked("Left as it is: {why}")
        self.say(event, "note", sentence(_(form, by=plain(event.by), why=bare(retold(event.reason)))))

    def undo_failed(self, event: e.CompensationFailed) -> None:
        intent = self._intents.get((event.step, "undo", event.part))
        form = NOT_MADE_GOOD.get(intent.word if intent else "", NOT_MADE_GOOD[""])
        text = sentence(_(form, why=retold(event.summary)))
        self.scopes.not_made_good(event.step, event.summary)
        place = self._trouble_above(event.step)
        if place is not None:
            self._change(place, at=event.at, sign="failed", text=text)
        else:
            self.say(event, "failed", text)

    def finished(self, event: e.RunFinished) -> None:
        by = self._taken_over_by if event.status == "closed" else ""
        sign: Sign = "failed" if event.status in ("failed", "stopped") else "done"
        self.scopes.finish()
        then = f" {_(FOLLOWS, flow=event.then)}" if event.then else ""
        self.say(event, sign, (_("Closed: {by} has taken it over.", by=by) if by else _(ENDS[event.status])) + then)

    def handed_off(self, event: e.HandedOff) -> None:
        self._questions[event.handoff] = event.kind
        is_told = event.kind == "compensation_failed" or self._trouble_above(event.step) is not None
        why = ("" if event.kind == "compensation_failed" else event.say) or ("" if is_told else event.summary)
        form = marked("Handed to {owner} ({handoff}): {why}") if why else marked("Handed to {owner} ({handoff})")
        text = _(form, owner=event.owner, handoff=event.handoff, why=bare(retold(why)))
        self.say(event, "person", sentence(text))

    def resolved(self, event: e.HandOffResolved) -> None:
        reference = _(" ({id})", id=plain(event.reference)) if event.reference else ""
        self._taken_over_by = plain(event.by) if event.choice == "take_over" else self._taken_over_by
        kind = self._questions.pop(event.handoff, "")
        if kind == "set_aside" and event.choice in ("retry", "skip"):
            self._settle_aside(event)
        answer = f"{answered(event.choice, kind)}{_known(event.external_id)}{reference}"
        text = _("{by} answers {handoff}: {answer}.", by=plain(event.by), handoff=event.handoff, answer=answer)
        self.say(event, "person", text + _because(event.reason))

    def _settle_aside(self, event: e.HandOffResolved) -> None:
        if event.choice == "retry":
            self.scopes.leave(event.step)
        else:
            for item in self.scopes.aside_of(event.step):
                self.scopes.accepted(item, self._seq)


_TOLD: Mapping[type[e.Event], Callable[[Teller, Any], None]] = {
    e.RunStarted: Teller.started, e.RunFinished: Teller.finished, e.ForwardClosed: Teller.closed,
    e.CallIntended: Teller.intended, e.CallApplied: Teller.applied, e.CallRefused: Teller.troubled,
    e.CallNotSent: Teller.troubled, e.CallUnknown: Teller.troubled, e.CallSettled: Teller.settled,
    e.StepFailed: Teller.failed, e.StepSkipped: Teller.skipped, e.DraftRecorded: Teller.drafted,
    e.TimerSet: Teller.timer_set, e.TimerFired: Teller.timer_fired, e.HandedOff: Teller.handed_off,
    e.CompensationFailed: Teller.undo_failed, e.CompensationSkipped: Teller.undo_skipped, e.RunHeld: Teller.held,
    e.StopRequested: Teller.stop_asked, e.HandOffResolved: Teller.resolved, e.BranchChosen: Teller.chosen,
    e.ScopeStarted: Teller.scope_started, e.ScopeEnded: Teller.scope_ended, e.ItemSetAside: Teller.set_aside,
    e.ItemResumed: Teller.item_resumed, e.ItemAccepted: Teller.item_accepted, e.EventAwaited: Teller.awaited,
    e.EventReceived: Teller.received, e.ApprovalRequested: Teller.asked, e.ApprovalDecided: Teller.decided,
    e.ApprovalLapsed: Teller.lapsed, e.Emitted: Teller.emitted,
}  # fmt: skip
"""Facts that change other lines, or are told by what was before."""
