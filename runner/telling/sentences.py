"""What facts are called in a timeline: sentences of one line, ends of a run, and the facts that have no line."""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Action, Json
from runner.core import events as e
from runner.recorded import retold
from runner.telling.words import Sign, plain, sentence
from runner.tongue import _, marked

BUSY = {"unavailable": marked("not available"), "rate_limited": marked("too many requests")}
NOTHING = {
    "CallRefused": marked("refused"), "CallNotSent": marked("nothing was sent"),
    "CallUnknown": marked("no clear answer"),
}  # fmt: skip
LOOKED = {
    "lookup": marked("by our reference"), "find": marked("by its fields"), "evidence": marked("from a late answer"),
}  # fmt: skip
GOES_ON = marked("The flow goes on.")
STEP_FAILED = marked("Step {step} failed.")
FOLLOWS = marked("Flow {flow} follows.")
NOT_MADE_GOOD = {
    "cancel": marked("Could not be cancelled: {why}"), "mark": marked("Could not be marked: {why}"),
    "correct": marked("Could not be corrected: {why}"), "quarantine": marked("Could not be quarantined: {why}"),
    "": marked("Could not be made good: {why}"),
}  # fmt: skip

ENDS: Mapping[str, str] = {
    "succeeded": marked("Succeeded."),
    "drafted": marked("Drafted."),
    "failed": marked("Failed; nothing had been done."),
    "compensated": marked("Compensated; what was done is made good."),
    "stopped": marked("Stopped; what was done stays."),
    "closed": marked("Closed by a person."),
}

SAID: Mapping[type[e.Event], tuple[Sign, str]] = {
    e.EvidenceLate: ("note", marked("A late answer was kept, it changes nothing: {summary}")),
    e.RecordFound: ("done", marked("Was there already{known}: used as it is, not made by this run.")),
    e.RunPaused: ("person", marked("{by} pauses it.{because}")),
    e.RunResumed: ("person", marked("{by} lets it go on.")),
    e.HandOffAcknowledged: ("person", marked("{by} has seen {handoff}.")),
    e.Escalated: ("person", marked("No answer came: {about} is passed on to {to}.")),
    e.RecordQuarantined: ("good", marked("{record} is set aside.{because}")),
    e.QuarantineReleased: ("person", marked("{by} takes {record} out of quarantine.{because}")),
    e.QuarantineDiscarded: ("person", marked("{by} discards {record}.{because}")),
    e.RunMoved: ("person", marked("{by} moved the run from version {before:.8} of its flow to {bundle:.8}.")),
    e.PersonalDataErased: ("person", marked("{by} erased personal data of this run.")),
}
"""Facts that are always one line: the fact's own fields, `because` its reason, `known` the outside id."""

SAID_OF_END: Mapping[type[e.Event], str] = {
    e.HandOffAcknowledged: marked("{by} has seen how it ended."),
    e.Escalated: marked("Nobody has said that they saw it: {to} is told."),
}
"""The same facts where they are about the end of the run."""

FOR_MACHINES: Mapping[type[e.Event], str] = {
    e.CompensationBegun: "ForwardClosed says that it follows",
    e.RecordHeld: "the head of the page says that the record is held",
    e.RecordReleased: "the same",
    e.RecordLocked: "who waits for the record says who works on it",
    e.NoticeSent: "that somebody was told is said where the question is shown",
}
"""Facts of a run that have no line, and why."""


def said_of(event: e.Event) -> tuple[Sign, str] | None:
    """The line of a fact that is always one; None for the others."""
    is_of_end = isinstance(event, e.HandOffAcknowledged | e.Escalated) and not getattr(event, "handoff", "")
    if is_of_end and not getattr(event, "about", ""):
        return "person", SAID_OF_END[type(event)]
    return SAID.get(type(event))


LONGEST_SAID = 200
"""Signs of an agent's last words that its line tells."""


def turn_of(action: Action | None, output: Mapping[str, Json]) -> str:
    """What an agent's model wants next, or its last words; empty for what is no turn of an agent."""
    if action is None or not action.is_agent:
        return ""
    calls = [call for call in output.get("calls") or () if isinstance(call, Mapping)]
    if calls:
        return sentence(_("Asks for {tools}", tools=", ".join(plain(call.get("tool", "")) for call in calls)))
    said = plain(output.get("text", ""))
    return sentence(_("Says: {text}", text=said if len(said) <= LONGEST_SAID else f"{said[:LONGEST_SAID]}…"))


def no_draft(event: e.DraftRecorded) -> str:
    """Why a step left no draft, in a sentence; empty where it did, or has no draft form."""
    return _("No draft could be left: {why}", why=sentence(retold(event.why))) if event.why else ""
