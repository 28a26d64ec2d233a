"""What facts are called in a timeline: sentences of one line, ends of a run, and the facts that have no line."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core import events as e
from runner.telling.words import Sign

BUSY = {"unavailable": "not available", "rate_limited": "too many requests"}
NOTHING = {"CallRefused": "refused", "CallNotSent": "nothing was sent", "CallUnknown": "no clear answer"}
NOT_MADE_GOOD = {
    "cancel": "Could not be cancelled", "mark": "Could not be marked", "correct": "Could not be corrected",
    "quarantine": "Could not be quarantined",
}  # fmt: skip

ENDS: Mapping[str, str] = {
    "succeeded": "Succeeded.",
    "drafted": "Drafted.",
    "failed": "Failed; nothing had been done.",
    "compensated": "Compensated; nothing stands.",
    "stopped": "Stopped; what was done stays.",
    "closed": "Closed by a person.",
}

SAID: Mapping[type[e.Event], tuple[Sign, str]] = {
    e.EvidenceLate: ("note", "A late answer was kept, it changes nothing: {summary}"),
    e.RecordFound: ("done", "Was there already{known}: used as it is, not made by this run."),
    e.RunPaused: ("person", "{by} pauses it.{because}"),
    e.RunResumed: ("person", "{by} lets it go on."),
    e.HandOffAcknowledged: ("person", "{by} has seen {handoff}."),
    e.Escalated: ("person", "No answer came: {about} is passed on to {to}."),
    e.RecordQuarantined: ("good", "{record} is set aside.{because}"),
    e.QuarantineReleased: ("person", "{by} takes {record} out of quarantine.{because}"),
    e.QuarantineDiscarded: ("person", "{by} discards {record}.{because}"),
    e.RunMoved: ("person", "{by} moved the run from version {before:.8} of its flow to {bundle:.8}."),
    e.PersonalDataErased: ("person", "{by} erased personal data of this run."),
}
"""Facts that are always one line: the fact's own fields, `because` its reason, `known` the outside id."""

FOR_MACHINES: Mapping[type[e.Event], str] = {
    e.CompensationBegun: "ForwardClosed says that it follows",
    e.RecordHeld: "the head of the page says that the record is held",
    e.RecordReleased: "the same",
    e.RecordLocked: "who waits for the record says who works on it",
    e.NoticeSent: "that somebody was told is said where the question is shown",
}
"""Facts of a run that have no line, and why."""
