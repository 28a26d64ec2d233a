"""What a message says, in the reader's language. What came from outside is one quoted line without invisible signs."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.core.drafts import drafts_left
from runner.core.state import State
from runner.people.asked import asks_about, first_failure
from runner.people.post import QUOTE
from runner.recorded import retold
from runner.store.messages import OF_GATES, Outgoing
from runner.tongue import _, marked, point, several

LONGEST = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """One message, ready to go."""

    subject: str
    text: str
    link: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Matter:
    """What a message is about, as it stands when it is sent. `question` is what an approval asks, `address` where the
    pages are, `name` says what a person is called, `veil` takes personal data out of a text.
    """

    title: str
    state: State
    address: str
    zone: str
    name: Callable[[str], str]
    veil: Callable[[str], str]
    question: str = ""
    locator: str = ""
    is_to_be_seen: bool = False
    """Whoever is told is to say that they have seen it."""

    def quoted(self, text: str) -> str:
        """Words of others, in one line that cannot be taken for ours."""
        return QUOTE + self.plain(text)

    def plain(self, text: str) -> str:
        """The same without the mark."""
        kept = "".join(sign if unicodedata.category(sign) not in ("Cf", "Cc", "Zl", "Zp") else " " for sign in text)
        line = self.veil(" ".join(kept.split()))
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def letter_about(matter: Matter, it: Outgoing) -> Letter:
    """The words of one message."""
    write = _of_approval if it.kind in OF_GATES else _of_failure if it.kind == "unreached" else _of_run
    letter = (_of_handoff if it.kind != "unreached" and it.about in matter.state.handoffs else write)(matter, it)
    if matter.state.mode != "draft":
        return letter
    text = "\n\n".join((_("{what}.", what=nothing_was_sent(matter.state)), letter.text))
    return Letter(subject=_("DRAFT {subject}", subject=letter.subject), text=text, link=letter.link)


def nothing_was_sent(state: State) -> str:
    """What every page and mail about a draft run says."""
    if not (count := drafts_left(state)):
        return _("DRAFT: nothing was sent")
    return several(
        "DRAFT: {count} draft was left at the services, nothing was sent",
        "DRAFT: {count} drafts were left at the services, nothing was sent",
        count,
    )


def _letter(subject: str, *paragraphs: str, link: str) -> Letter:
    return Letter(subject=subject, text="\n\n".join(part for part in paragraphs if part), link=link)


_ASKED: Mapping[str, str] = {
    "asked": marked("You are asked to decide this:"),
    "joined": marked("Nobody has decided this yet, so you are asked too:"),
    "reminder": marked("Nobody has decided this yet:"),
}


def _of_approval(matter: Matter, it: Outgoing) -> Letter:
    state = matter.state
    until = point(state.gates[it.about].due, matter.zone)
    if it.kind == "short":
        return _letter(
            _("Too few people can approve: {question}", question=matter.plain(matter.question)),
            _("Fewer people are left who may say yes to this than have to:"),
            matter.quoted(matter.question),
            _("Put people.yaml right, or stop the run. Else silence is a no, on {until}.", until=until),
            _("It is a step of the flow “{title}”.", title=matter.title),
            link=f"{matter.address}/runs/{it.run}",
        )
    by = state.starter and _("{person} has started it.", person=matter.name(state.starter))
    by = by[:1].upper() + by[1:]
    return _letter(
        _("Please decide: {question}", question=matter.plain(matter.question)),
        _(_ASKED[it.kind]),
        matter.quoted(matter.question),
        _("Time to decide: until {until}. Silence is a no.", until=until),
        " ".join((_("It is a step of the flow “{title}”.", title=matter.title), by)).strip(),
        _("The page shows exactly what will be sent. Opening it decides nothing; there you say who you are."),
        link=f"{matter.address}/review/{matter.locator}",
    )


_HANDED: Mapping[str, str] = {
    "handed_off": marked("The run cannot go on by itself, and you are asked what to do."),
    "escalated": marked("The run cannot go on by itself. {owner} has not answered, so you are asked what to do."),
    "told": marked("The run cannot go on by itself. {owner} is asked what to do; you are told of it."),
}


MOST_STANDING = 5
"""Effects that are named in a mail."""


def _of_handoff(matter: Matter, it: Outgoing) -> Letter:
    state, asked = matter.state, matter.state.handoffs[it.about]
    is_said = asked.kind == "step" and bool(asked.say)
    about = _step(asked.step) if asked.step else _("the run")
    question = matter.plain(asked.say) if is_said else asks_about(asked.kind, about)
    question, first = question[:1].upper() + question[1:], first_failure(state, asked)
    return _letter(
        _("{question} (run {run})", question=question, run=it.run),
        _(_HANDED[it.kind], owner=matter.name(asked.owner)),
        "" if is_said else question,
        "" if asked.kind == "step" else matter.quoted(retold(asked.summary)),
        matter.quoted(asked.say) if asked.say else "",
        _("That was to be made good because {step} had failed before:", step=_step(first.step)) if first else "",
        matter.quoted(retold(first.summary)) if first else "",
        _standing(matter),
        _("It is a run of the flow “{title}”.", title=matter.title),
        " ".join((
            _("The page says what was done, what stands, and what can be done now."),
            _("Opening it changes nothing; there you say who you are."),
            "" if it.kind == "told" else _("Say there that you are looking at it: silence is passed on."),
        )).strip(),
        link=f"{matter.address}/handoff/{matter.locator}",
    )  # fmt: skip


def _step(path: str) -> str:
    return _("step {step}", step=path.replace("/", " › "))


def _standing(matter: Matter) -> str:
    """What stands outside now, the newest first, with the ids that the services gave."""
    kept = [each for each in matter.state.effects.values() if each.disposition in ("pending", "stands")]
    named = [
        f"{each.path.replace('/', ' › ')} {matter.plain(each.external_id)}".strip()
        for each in reversed(kept[-MOST_STANDING:])
    ]
    more = [_("{count} more", count=len(kept) - len(named))] if len(kept) > len(named) else []
    return _("Stands outside now: {effects}.", effects=", ".join([*named, *more])) if kept else ""


_ENDED: Mapping[str, str] = {
    "failed": marked("It failed. Nothing had been done."),
    "compensated": marked("It failed. What had been done was made good."),
    "stopped": marked("It was stopped. What had been done stays."),
    "closed": marked("It failed, and a person has settled it."),
}


def _of_run(matter: Matter, it: Outgoing) -> Letter:
    state = matter.state
    failure = state.root.failure
    return _letter(
        _("A run has failed: {title}", title=matter.title),
        _(_ENDED.get(state.status, _ENDED["failed"])),
        matter.quoted(retold(failure.summary)) if failure is not None else "",
        _("Nobody who was told has said that they saw it, so you are told.") if it.kind == "escalated" else "",
        _("Say on its page that you have seen it: silence is passed on.")
        if matter.is_to_be_seen and it.kind == "told"
        else _("You are told because the flow says so, or because it is yours; nothing is asked of you."),
        link=f"{matter.address}/runs/{it.run}",
    )


def _of_failure(matter: Matter, it: Outgoing) -> Letter:
    person, _colon, why = it.said.partition(" ")
    return _letter(
        _("{person} could not be told", person=matter.name(person)),
        _("A message about the flow “{title}” did not reach {person}:", title=matter.title, person=matter.name(person)),
        matter.quoted(why),
        _("Put the address right in people.yaml, and tell them: somebody waits for their answer."),
        link=f"{matter.address}/runs/{it.run}",
    )
