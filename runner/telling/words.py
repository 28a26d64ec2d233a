"""The plain English of the doors: what statuses, outcomes and choices are called. Texts of others as safe lines."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from runner.contract import Action
from runner.recorded import retold
from runner.tongue import _, marked

Sign = Literal["done", "failed", "part", "unknown", "good", "person", "note", "wait"]
"""What kind of thing a line tells of."""

STATUS: Mapping[str, str] = {
    "queued": marked("queued: it has not begun"),
    "running": marked("running"),
    "waiting": marked("waiting"),
    "paused": marked("paused: nothing new is begun until it is resumed"),
    "compensating": marked("compensating: a step failed, and what was done is being made good"),
    "succeeded": marked("succeeded: the flow came to its end"),
    "drafted": marked("drafted: every step was written down"),
    "failed": marked("failed: nothing had been done, so nothing is to be made good"),
    "compensated": marked("compensated: it did not go through, and was made good"),
    "stopped": marked("stopped: a person stopped it here"),
    "needs_person": marked("needs a person: it rests until somebody answers"),
    "closed": marked("closed: a person has settled it"),
}
"""What each status means, for somebody who sees it for the first time."""

STATUS_NAMES: Mapping[str, str] = {
    "queued": marked("queued"),
    "running": marked("running"),
    "waiting": marked("waiting"),
    "paused": marked("paused"),
    "compensating": marked("compensating"),
    "succeeded": marked("succeeded"),
    "drafted": marked("drafted"),
    "failed": marked("failed"),
    "compensated": marked("compensated"),
    "stopped": marked("stopped"),
    "needs_person": marked("needs a person"),
    "closed": marked("closed"),
}
"""Each status in a word or two."""

MADE_GOOD: Mapping[str, str] = {
    "cancel": marked("cancelled"),
    "mark": marked("marked"),
    "correct": marked("corrected"),
    "quarantine": marked("quarantined"),
    "hand_off": marked("handed to a person"),
    "none": marked("left as it is"),
}
"""The five words, and the reasoned none, as something that has been done."""

ANSWERED_BY: Mapping[str, str] = {
    "mark": marked("stays, marked"),
    "correct": marked("stays; a correction was sent"),
    "quarantine": marked("stays, quarantined"),
}
"""What has become of an effect that is not taken back but answered, by the word of its compensation."""

DISPOSITION: Mapping[str, str] = {
    "pending": marked("stands"),
    "undone": marked("cancelled"),
    "answered": marked("answered"),
    "accepted": marked("left as it is"),
    "by_hand": marked("settled by hand"),
    "stands": marked("STANDS"),
    "left": marked("not undone"),
    "in_doubt": marked("in doubt: nobody knows whether it was made good"),
}
"""What has become of an effect; `answered` is told by its own word where that is known."""

CHOICES: Mapping[str, tuple[str, str]] = {
    "happened": (marked("it did happen"), marked("it did happen")),
    "did_not": (marked("it did not: send again"), marked("it did not happen")),
    "compensate": (marked("make good what was done"), marked("make good what was done")),
    "retry": (marked("try the step again"), marked("try this step again")),
    "skip": (marked("go on without the step"), marked("go on without this step")),
    "go_on": (marked("go on"), marked("go on")),
    "done": (marked("put right by hand"), marked("it was put right by hand")),
    "stands": (marked("leave it"), marked("it stays as it is")),
    "close": (marked("close it; what stands now stays"), marked("close the run")),
    "again": (marked("ask the service again"), marked("ask the service again")),
    "take_over": (marked("take it all over"), marked("taken over by hand")),
    "pause": (marked("pause it"), ""),
    "resume": (marked("go on"), ""),
    "stop": (marked("end it now; what stands now stays"), ""),
    "stop_compensate": (marked("stop and make good"), ""),
    "rerun": (marked("start it anew"), ""),
}
"""What a person may choose: as it is offered, and as the answer that was given."""

BY_CASE: Mapping[str, Mapping[str, str]] = {
    "several": {"happened": marked("it is this one"), "did_not": marked("none of them: make a new one")},
    "several closed": {"happened": marked("it is this one"), "did_not": marked("none of them: nothing to make good")},
    "unknown keyed": {"did_not": marked("it did not: send again with a NEW key (only if you have looked)")},
    "unknown lookup": {"did_not": marked("it did not: send again with a NEW key (only if you have looked)")},
    "keyed": {"again": marked("ask again with the same key: harmless")},
    "lookup": {"again": marked("look it up again")},
    "unknown closed": {
        "did_not": marked("it did not: nothing to make good"), "go_on": marked("make the rest good first"),
    },
    "unknown stopped": {"did_not": marked("it did not")},
    "compensation_unknown": {"did_not": marked("it did not: try to make it good again")},
    "compensation_unknown stopped": {"did_not": marked("it did not")},
    "compensation_failed": {"retry": marked("try to make it good again")},
    "request": {"retry": marked("try to make it good again")},
    "set_aside": {"retry": marked("do them all anew"), "skip": marked("leave them set aside")},
    "late": {"go_on": marked("go on without it")},
    "then_run": {"go_on": marked("end without it")},
    "item": {"compensate": marked("make this item good")},
    "draft": {
        "compensate": marked("remove its drafts"), "stop_compensate": marked("stop it and remove its drafts"),
    },
}  # fmt: skip
"""What a choice is called where it means something else: by the kind of question, and what the run is about."""

ANSWERED: Mapping[tuple[str, str], str] = {
    ("compensation_failed", "retry"): marked("try to make it good again"),
    ("request", "retry"): marked("try to make it good again"),
    ("set_aside", "retry"): marked("do them anew"),
    ("set_aside", "skip"): marked("leave them set aside"),
    ("late", "go_on"): marked("go on without it"),
    ("then_run", "go_on"): marked("end without it"),
}
"""Answers that mean something else for one kind of question."""

_ODD = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_HIDDEN = ("Cc", "Cf", "Cs", "Co")
_CHOSE = re.compile(r" chose (\w+)(?=[.\s]|$)")
_ARTICLE = re.compile(r"^(the|a|an|no|nothing|it|this|there)\b")


def plain(value: object) -> str:
    """A text as one line that is safe to print: no line breaks, no control signs, no hidden direction marks."""
    text = _ODD.sub(" ", str(value)).strip()
    return "".join(sign for sign in text if unicodedata.category(sign) not in _HIDDEN)


def sentence(text: str) -> str:
    """A text as a sentence: one line, with a full stop; an article at its beginning gets its capital letter."""
    line = _ARTICLE.sub(lambda found: found[0].capitalize(), plain(text))
    if not line or line.endswith((".", "!", "?", "…", "。", "！", "？", "：")):
        return line
    return f"{line}。" if line[-1] > "\u3000" else f"{line}."


def capital(text: str) -> str:
    """With a capital letter at its beginning, for the label of a button; an address stays as it is."""
    return text if "@" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def bare(text: str) -> str:
    """A sentence without its full stop, to be put inside another one."""
    return plain(text).removesuffix(".").removesuffix("。")


def shown_id(external_id: str, longest: int = 26) -> str:
    """An outside id, cut in the middle where it is long (mails have long ones)."""
    text = plain(external_id)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def answered(choice: str, kind: str = "") -> str:
    """The answer that a person gave to a question of this kind."""
    return _(ANSWERED.get((kind, choice)) or CHOICES.get(choice, ("", choice))[1])


def offered(choice: str, *cases: str) -> str:
    """A choice as it is offered, in the first of these cases that has words of its own for it."""
    found = (BY_CASE.get(case, {}).get(choice) for case in cases)
    return _(next((text for text in found if text), CHOICES.get(choice, (choice.replace("_", " "),))[0]))


def summary(text: str) -> str:
    """Why a run ended as it did, with a person's choice in words."""
    return retold(_CHOSE.sub(lambda found: f": {answered(found[1])}", text))


def program() -> str:
    """What to type for `amends` here: the word alone where the shell finds this program by it, else its place."""
    typed = Path(sys.argv[0])
    found = shutil.which("amends")
    is_other = typed.name == "amends" and typed.is_file() and (not found or not typed.samefile(found))
    return shlex.quote(os.path.normpath(typed.absolute())) if is_other else "amends"


PROGRAM = program()


_FIRST = re.compile(r"^(.+?)(?:[.;:]\s|[.;:]?$)", re.DOTALL)


def action_title(actions: Mapping[str, Action], name: str) -> str:
    """What an action does, in a few words: the beginning of its title, or its name where it has none."""
    action = actions.get(name)
    found = _FIRST.match(plain(action.title)) if action is not None else None
    return retold(found[1]) if found else name


def called(path: str, others: Iterable[str]) -> str:
    """What who knows no flow reads of `inputs.pay_day`: pay day; the whole where two would be called the same."""
    last = [each.rpartition(".")[2] for each in (path, *others)]
    return last[0].replace("_", " ") if last.count(last[0]) == 2 else path
