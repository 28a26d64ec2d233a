"""A case out of a real run: what its log says was given and answered, without anything personal, and what came of it.

The case is played before it is kept. It must go as the run went, so a case that is kept is green.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import get_args

from runner.clock import MINUTE
from runner.contract import Json
from runner.core import events as e
from runner.core.consents import UNDO as GATE_UNDO
from runner.core.gates import CHANGES
from runner.core.state import WITHDRAWN, State
from runner.errors import NotPossible
from runner.language.bundle import Bundle
from runner.language.dates import zone_of
from runner.language.flow import MODEL
from runner.language.rehearsed import Refusal
from runner.rehearsal.happened import Happened, Seen
from runner.rehearsal.names import UNDO, At, Names, side_of
from runner.rehearsal.stand_ins import StandIns

LONGEST = 100
"""Signs of a text that a test still expects word for word."""
_BY_HAND: Mapping[type[e.Event], str] = {
    e.StopRequested: "it was stopped by hand",
    e.ItemResumed: "an item of a list was resumed by hand",
    e.ItemAccepted: "an item of a list was left set aside by hand",
    e.RunMoved: "it was moved to another version of its flow",
    e.PersonalDataErased: "its personal data was erased",
}
_SIDES = {"find": "find", "lookup": "look_up", "undo_lookup": "look_up", "undo": UNDO}


class Recording:
    """One run's log, read for a case."""

    def __init__(self, bundle: Bundle, events: Sequence[e.Event], state: State) -> None:
        started = events[0]
        assert isinstance(started, e.RunStarted)
        self._bundle, self._events, self._state, self._started = bundle, events, state, started
        self._names = Names(bundle)
        self._items = {one.step: one.name for one in events if isinstance(one, e.ScopeStarted) and one.kind == "item"}
        self._texts = "\n".join(text for name, text in bundle.texts.items() if name.startswith(("flow:", "template:")))
        self.stand_ins = StandIns(bundle)
        self._look_for_persons()

    def given(self) -> dict[str, Json]:
        """The case up to `expect`, with stand-ins. Raises NotPossible for a run that no case can tell."""
        for event in self._events:
            if type(event) in _BY_HAND:
                raise NotPossible(f"run {self._started.run} cannot become a case: {_BY_HAND[type(event)]}")
        if self._started.continues:
            raise NotPossible(f"run {self._started.run} cleans up after another one, so it cannot become a case")
        at = datetime.fromtimestamp(self._started.at / 1000, tz=UTC).astimezone(zone_of(self._bundle.zone))
        started, trigger = self._started, dict(self._started.trigger)
        told = {name: one for name, one in trigger.items() if name not in ("id", "at", "by")}
        found = {
            "now": f"{at:%Y-%m-%d %H:%M}",
            "by": _by(started.starter).get("by", "").removeprefix("person:me"),
            "mode": "draft" if started.mode == "draft" else "",
            "trigger": told,
            "inputs": {name: _named(one) for name, one in started.inputs.items() if one is not None},
            "services": self._services(),
            "people": self._people(),
            "events": self._comes(),
        }
        return {name: self.stand_ins.without(one) for name, one in found.items() if one}

    def expected(self, happened: Happened) -> dict[str, Json]:
        """The `expect` of the case, out of how it went when it was played."""
        found: dict[str, Json] = {
            "end": happened.end,
            "calls": [_entry(one) for one in happened.calls],
            "compensations": [_entry(one) for one in happened.compensations],
            "asked": [one.at.shown for one in happened.asked],
            "outputs": {name: one for name, one in happened.outputs.items() if one is not None},
            "stands": [at.shown for at in happened.stands],
            "in_doubt": [at.shown for at in happened.in_doubt],
        }
        return {name: one for name, one in found.items() if one or name in ("calls", "compensations", "asked")}

    def went_otherwise(self, played: Happened, real: Happened) -> str:
        """What of the played case is not as the run went; empty where it went alike."""
        if played.end != real.end:
            return f"played again it ends {played.end}, and the run {real.end}"
        for name in ("calls", "compensations", "asked"):
            ours, its = (Counter(one.at.shown for one in getattr(each, name)) for each in (played, real))
            if ours != its:
                different = ", ".join(sorted((ours - its) + (its - ours)))
                return f"played again it differs in {name}: {different}"
        return ""

    # -- who is in it --

    def _look_for_persons(self) -> None:
        flow, see = self._bundle.flow, self.stand_ins
        see.see_inputs(flow.id, flow.inputs, self._started.inputs)
        intended: dict[tuple[str, str, int], str] = {}
        for event in self._events:
            if isinstance(event, e.CallIntended):
                intended[event.call] = event.action
                see.see_call(event.action, "input", event.input)
            elif isinstance(event, e.CallApplied | e.CallSettled):
                see.see_call(intended.get(event.call, ""), "output", event.output)
            elif isinstance(event, e.ScopeStarted) and event.kind == "call" and isinstance(event.value, Mapping):
                see.see_inputs(event.name, self._bundle.called[event.name].inputs, event.value)
            elif isinstance(event, e.EventReceived):
                see.see(event.data)
        see.see({name: one for name, one in self._started.trigger.items() if name != "by"})

    # -- services --

    def _at(self, path: str, side: str = "") -> At:
        return self._names.at(path, side, self._items)

    def _services(self) -> dict[str, Json]:
        found: dict[str, list[Json]] = {}
        for number, event in enumerate(self._events):
            if not isinstance(event, e.OutcomeEvent):
                continue
            said = self._answer(event, number)
            if said is not None:
                side = "" if event.purpose == "find" and _is_found(said) else _SIDES.get(event.purpose, "")
                found.setdefault(self._at(event.step, side).shown, []).append(said)
        return {
            name: said[0] if len(said) == 1 else said for name, said in found.items() if set(map(str, said)) != {"done"}
        }

    def _answer(self, event: e.OutcomeEvent, number: int) -> Json:
        if isinstance(event, e.CallApplied):
            if event.purpose == "find":
                count = event.count or 0
                return (
                    None
                    if not count
                    else "several_found"
                    if count > 1
                    else {"found": self._used(event.output, event.step)}
                )
            if event.purpose in ("lookup", "undo_lookup"):
                return None  # it follows from what is so outside
            if event.output.get("found") is False and event.purpose == "read":
                return "nothing_found"
            output = self._used(event.output, event.step)
            return {"gives": output} if output and event.purpose != "undo" else "done"
        if isinstance(event, e.CallRefused):
            reason = event.reason if event.reason in get_args(Refusal) else "invalid"
            return {"refused": reason, **_say(event.summary)}
        if isinstance(event, e.CallNotSent):
            return "not_sent"
        settled = self._settled(event, number)
        is_so = settled is not None and settled.result == "applied"
        output = (
            self._used(settled.output, event.step) if settled is not None and settled.by in ("lookup", "find") else {}
        )
        words = {"unknown": "happened" if is_so else "did not happen"}
        return {**words, **({"output": output} if output else {})}

    def _settled(self, event: e.OutcomeEvent, number: int) -> e.CallSettled | None:
        later = self._events[number:]
        return next((one for one in later if isinstance(one, e.CallSettled) and one.call == event.call), None)

    def _used(self, output: Mapping[str, Json], path: str) -> dict[str, Json]:
        """The fields that the flow's own texts speak of; of an agent's model what it wants."""
        step = self._bundle.find(path)
        if step is not None and step.tool_of and step.id == MODEL:
            return {name: one for name, one in output.items() if name in ("text", "calls")}
        used = {name: one for name, one in output.items() if re.search(rf"\.{re.escape(name)}\b", self._texts)}
        return {name: one for name, one in used.items() if (name, one) != ("found", True)}

    # -- people and events --

    def _people(self) -> dict[str, Json]:
        asked: dict[str, int] = {}
        found: dict[str, list[Json]] = {}
        handed: dict[str, e.HandedOff] = {}
        for event in self._events:
            if isinstance(event, e.ApprovalRequested):
                asked[event.approval] = event.at
            elif isinstance(event, e.HandedOff):
                handed[event.handoff] = event
            elif isinstance(event, e.ApprovalDecided):
                at = self._at(event.step, UNDO if event.approval.endswith(GATE_UNDO) else "")
                since = asked.get(event.approval, event.at)
                found.setdefault(at.shown, []).append(_decision(event, since))
            elif isinstance(event, e.HandOffResolved) and event.choice != WITHDRAWN and event.handoff in handed:
                question = handed[event.handoff]
                at = self._at(question.step, side_of(question.kind, question.purpose))
                found.setdefault(at.shown, []).append(_answered(event, question.at))
        return {name: said[0] if len(said) == 1 else said for name, said in found.items()}

    def _comes(self) -> dict[str, Json]:
        since = {one.step: one for one in self._events if isinstance(one, e.EventAwaited)}
        found: dict[str, Json] = {}
        for event in self._events:
            if isinstance(event, e.EventReceived) and event.step in since:
                waited = since[event.step]
                more = {name: one for name, one in event.data.items() if name not in waited.match}
                words = {**({"carries": more} if more else {}), **_after(event.at - waited.at)}
                found[self._at(event.step).shown] = words or "comes"
        return found


def _named(value: Json) -> Json:
    """An input; a file by a name that tells its kind alone."""
    is_file = isinstance(value, Mapping) and set(value) == {"name", "size", "kind", "sha256"}
    return f"file.{value['kind']}" if is_file else value


def _is_found(said: Json) -> bool:
    return said == "several_found" or (isinstance(said, dict) and "found" in said)


def _say(summary: str) -> dict[str, Json]:
    return {"say": summary} if summary else {}


def _after(ms: int) -> dict[str, Json]:
    return {"after": f"{round(ms / MINUTE)} min"} if ms >= 2 * MINUTE else {}


def _by(person: str) -> dict[str, Json]:
    return {"by": person} if re.fullmatch(r"person:\w+", person) else {}


def _decision(event: e.ApprovalDecided, since: int) -> dict[str, Json]:
    wish = event.comment.removeprefix(CHANGES) if event.comment.startswith(CHANGES) else ""
    comment = {"changes": wish} if wish else {"why": event.comment} if event.comment else {}
    edited = {path.rpartition("/")[2]: _texts(one.get("input", {})) for path, one in event.edited.items()}
    numbers = sorted({int(part) for path in event.left_out for part in path.split("/") if part.isdigit()})
    return {
        "say": event.answer, **_by(event.by), **_after(event.at - since), **comment,
        **({"edit": edited} if edited else {}), **({"leave_out": numbers} if numbers else {}),
    }  # fmt: skip


def _texts(given: Mapping[str, Json]) -> dict[str, Json]:
    return {name: one for name, one in given.items() if name == "text"}


def _answered(event: e.HandOffResolved, since: int) -> dict[str, Json]:
    why = event.reference or event.reason
    output = {"output": dict(event.output)} if event.output else {}
    return {
        "say": event.choice, **_by(event.by), **_after(event.at - since), **({"why": why} if why else {}), **output,
    }  # fmt: skip


def _entry(one: Seen) -> Json:
    fields = {name: value for name, value in one.fields.items() if _is_short(value)}
    return {one.at.shown: fields} if fields else one.at.shown


def _is_short(value: Json) -> bool:
    text = str(value)
    return value is not None and not isinstance(value, list | Mapping) and len(text) <= LONGEST and "\n" not in text
