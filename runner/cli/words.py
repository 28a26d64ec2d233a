"""The plain English of the doors: what statuses, outcomes and choices are called, and which command each one is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from runner.contract import Action, Json
from runner.core.state import HandOff, State
from runner.language.bundle import Bundle
from runner.people.operations import choices_of, fields_needed

STATUS: Mapping[str, str] = {
    "queued": "queued: it has not begun",
    "running": "running",
    "waiting": "waiting",
    "paused": "paused: nothing new is begun until it is resumed",
    "compensating": "compensating: a step failed, and what was done is being made good",
    "succeeded": "succeeded: the flow came to its end",
    "drafted": "drafted: every step was written down, nothing was sent",
    "failed": "failed: nothing had been done, so nothing is to be made good",
    "compensated": "compensated: it did not go through, and was made good",
    "stopped": "stopped: a person stopped it here",
    "needs_person": "needs a person: it rests until somebody answers",
    "closed": "closed: a person has settled it",
}
"""What each status means, for somebody who sees it for the first time."""

MADE_GOOD: Mapping[str, str] = {
    "cancel": "cancelled",
    "mark": "marked",
    "correct": "corrected",
    "quarantine": "quarantined",
    "hand_off": "handed to a person",
    "none": "left as it is",
}
"""The five words, and the reasoned none, as something that has been done."""

NOT_MADE_GOOD: Mapping[str, str] = {
    "cancel": "could not be cancelled",
    "mark": "could not be marked",
    "correct": "could not be corrected",
    "quarantine": "could not be quarantined",
}

DISPOSITION: Mapping[str, str] = {
    "pending": "stands for now",
    "undone": "cancelled",
    "answered": "answered",
    "accepted": "left as it is",
    "by_hand": "settled by hand",
    "stands": "STANDS",
}
"""What has become of an effect; `answered` is told by its own word where that is known."""

ANSWERED: Mapping[str, str] = {
    "happened": "it did happen",
    "did_not": "it did not happen",
    "compensate": "make good what was done",
    "retry": "try this step again",
    "skip": "go on without this step",
    "go_on": "go on",
    "done": "it was put right by hand",
    "stands": "it stays as it is",
    "close": "close the run",
    "take_over": "taken over by hand",
}
"""What a person has answered, for the timeline."""

OFFERED: Mapping[str, str] = {
    "happened": "it did happen",
    "did_not": "it did not: send again",
    "compensate": "make good what was done",
    "retry": "try the step again",
    "skip": "go on without the step",
    "go_on": "go on",
    "done": "put right by hand",
    "stands": "leave it as it is",
    "close": "close it, all stays",
    "take_over": "take it over by hand",
    "pause": "pause it",
    "resume": "go on",
    "stop": "stop here, all stays",
    "stop_compensate": "stop and make good",
    "rerun": "start it anew",
}
"""What a person may choose."""

BUSY: Mapping[str, str] = {"unavailable": "not available", "rate_limited": "too many requests"}
"""A no for now, by its reason."""

OUTCOME_EVENTS: Mapping[str, str] = {
    "CallRefused": "refused",
    "CallNotSent": "nothing was sent",
    "CallUnknown": "no clear answer",
}

_ODD = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_HIDDEN = ("Cc", "Cf", "Cs", "Co")
_ARTICLE = re.compile(r"^(the|a|an|no|nothing|it|this|there)\b")
_FIRST = re.compile(r"^(.+?)(?:[.;:]\s|[.;:]?$)", re.DOTALL)


def plain(value: object) -> str:
    """A text as one line that is safe to print: no line breaks, no control signs, no hidden direction marks."""
    text = _ODD.sub(" ", str(value)).strip()
    return "".join(sign for sign in text if unicodedata.category(sign) not in _HIDDEN)


def sentence(text: str) -> str:
    """A text as a sentence: one line, with a full stop; an article at its beginning gets its capital letter."""
    line = _ARTICLE.sub(lambda found: found[0].capitalize(), plain(text))
    return line if not line or line.endswith((".", "!", "?", "…", "。")) else f"{line}."


def bare(text: str) -> str:
    """A sentence without its full stop, to be put inside another one."""
    return plain(text).removesuffix(".").removesuffix("。")


def action_title(actions: Mapping[str, Action], name: str) -> str:
    """What an action does, in a few words: the beginning of its title, or its name where it has none."""
    action = actions.get(name)
    title = plain(action.title) if action is not None else ""
    found = _FIRST.match(title)
    return found[1] if found and found[1] else name


def shown_id(external_id: str, longest: int = 26) -> str:
    """An outside id, cut in the middle where it is long (mails have long ones)."""
    text = plain(external_id)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def quoted(value: Json) -> str:
    """A value as it stands in a sentence."""
    return plain(value if isinstance(value, str) else str(value))


def asks(handoff: HandOff) -> str:
    """The question of a hand-off in one sentence."""
    about = f"step {handoff.step}" if handoff.step else "the run"
    texts: Mapping[str, str] = {
        "unknown": f"Did {about} happen?",
        "several": f"Which record is the one of {about}?",
        "failure": f"What is to follow the failure of {about}?",
        "step": "The flow stops here and asks how to go on.",
        "compensation": f"Please make {about} good by hand.",
        "compensation_failed": f"{about.capitalize()} could not be made good. What now?",
        "compensation_unknown": f"Did the compensation of {about} happen?",
        "request": f"The compensation of {about} could not be put together. What now?",
    }
    return texts.get(handoff.kind, f"Please look at {about}.")


def who(owner: str) -> str:
    """An owner as a reader understands it."""
    return f"{owner} (whoever started it from the terminal)" if owner == "person:me" else plain(owner)


def command_of(bundle: Bundle, state: State, choice: str, handoff: HandOff | None = None) -> str:
    """What to type for a choice. With more than one open question it names the one that is meant."""
    run = state.run
    written = _COMMANDS.get(choice)
    if written is not None and handoff is None:
        return written.format(run=run)
    if handoff is None:
        return ""
    settle = f"amends runs settle {run} {handoff.step}"
    if choice == "happened":
        is_asked = handoff.purpose in ("do", "find")
        needed = fields_needed(bundle, handoff.step, is_closed=state.root.closed) if is_asked else ()
        return " ".join([settle, "--happened", *(f"{name}=…" for name in needed)])
    if choice == "did_not":
        return f"{settle} --did-not"
    if choice in ("retry", "skip") and handoff.step:
        reason = ' --reason "…"' if choice == "skip" else ""
        return f"amends runs {choice} {run} {handoff.step}{reason}"
    if choice in ("compensate", "take_over") and _fits_one(state, choice):
        return f"amends runs {choice.replace('_', '-')} {run}"
    reason = ' --reason "…"' if choice in ("done", "stands", "skip") else ""
    return f"amends handoffs resolve {run} {handoff.id} {choice}{reason}"


def _fits_one(state: State, choice: str) -> bool:
    return sum(choice in choices_of(state, handoff) for handoff in state.open_handoffs) == 1


_COMMANDS: Mapping[str, str] = {
    "pause": "amends runs pause {run}",
    "resume": "amends runs resume {run}",
    "stop": "amends runs stop {run}",
    "stop_compensate": "amends runs stop {run} --compensate",
    "compensate": "amends runs compensate {run}",
    "take_over": "amends runs take-over {run}",
    "rerun": "amends runs rerun {run}",
}

ORDERS = ("resume", "pause", "stop", "stop_compensate")
"""The orders that answer no question."""
