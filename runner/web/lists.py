"""Pieces that several pages show: hand-offs as rows, effects as rows, whose a question is, what was just done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runner.language.people import ME
from runner.people.asked import asks_about
from runner.people.told import asks_to_see, hears
from runner.store import outbox
from runner.store.facts import HandOffView
from runner.telling import sent, words
from runner.telling.story import Story, became, became_of, disposition_of, events_sent, status_line
from runner.tongue import _, marked
from runner.web.console import Console
from runner.web.guard import Caller
from runner.web.render import who

MOST_ENDS = 20
"""Runs that have ended of which it is asked whether somebody has seen it."""
DONE = {
    "seen": marked("It is noted that you are looking at it."),
    "acknowledge": marked("It is noted that you have seen it."),
    "started": marked("The run has begun."),
    "joined": marked("A run with this key was there already: this is that run, and nothing was started again."),
}
"""What was just done, beside the answers to questions."""


def standing(console: Console, story: Story) -> str:
    """How a run stands, with people called by their names."""
    return status_line(story, lambda name: who(console, name))


def unseen(console: Console, caller: Caller) -> Sequence[dict[str, object]]:
    """Runs that have failed, of which the caller was told and nobody has said yet that they saw it, as rows."""
    found: list[dict[str, object]] = []
    for run in console.store.ask(outbox.ends_told(caller.person))[:MOST_ENDS]:
        bundle, state = console.amends.state(run)
        view = console.amends.veiled(console.store.run(run))
        if asks_to_see(bundle, state) and not state.seen_by:
            found.append({
                "path": f"/runs/{run}", "run": run, "flow": view.flow, "step": "", "seen": False,
                "owner": hears(bundle, state), "at": view.ended_at,
                "about": _("A run has failed: {title}", title=view.title),
                "why": words.sentence(words.summary(view.summary)),
            })  # fmt: skip
    return found


def too_few(console: Console, story: Story, *names: str) -> Sequence[str]:
    """What is to be said of open approvals (of all, or of these) that cannot be given: too few are left who may."""
    desk, state = console.driver.desk, story.state
    left = {name: desk.left_for(story.bundle, state, name, console.now) for name in names or state.gates}
    return [
        _(
            "It cannot be approved as things stand: {needs} must say yes, and {count} may. If people.yaml stays so, "
            "silence will be a no.", needs=state.gates[name].needs, count=count,
        )
        for name, count in left.items() if count is not None
    ]  # fmt: skip


def is_mine(console: Console, caller: Caller, owner: str) -> bool:
    """Whether this is asked of the caller: by name, by post, by team. The terminal's person is any admin."""
    if owner == ME:
        return caller.role == "admin"
    return caller.person.removeprefix("person:") in {one.id for one in console.people.resolve(owner)}


def mine_of(console: Console, caller: Caller, found: Iterable[HandOffView]) -> list[HandOffView]:
    """Those that the caller is asked: as their owner, as who stands in, or because silence was passed on to them."""
    told = console.store.ask(outbox.told_of(caller.person))
    return [
        each
        for each in found
        if is_mine(console, caller, each.owner) or told.get((each.run, each.handoff), "told") != "told"
    ]


def rows_of(console: Console, found: Iterable[HandOffView]) -> Sequence[dict[str, object]]:
    """Hand-offs as rows of a list: the question in words, where it leads to."""
    return [
        {
            "path": f"/handoffs/{each.run}/{each.handoff}", "run": each.run, "flow": each.flow, "step": each.step,
            "owner": each.owner, "at": each.opened_at, "seen": each.status == "acknowledged",
            "about": words.plain(each.summary) if is_said else question_of(each),
            "why": answer_of(each) if each.status == "resolved" else "" if is_said else why_of(each),
        }
        for each, is_said in (_seen(console, each) for each in found)
    ]  # fmt: skip


def _seen(console: Console, each: HandOffView) -> tuple[HandOffView, bool]:
    """A hand-off without personal data, its summary in the author's words; whether there are such words."""
    said = console.amends.said(each)
    return console.amends.veiled(replace(each, summary=said or each.summary)), bool(said)


def question_of(each: HandOffView) -> str:
    """What a hand-off asks."""
    about = _("step {step}", step=each.step) if each.step else _("the run")
    return words.capital(asks_about(each.kind, about))


def why_of(each: HandOffView) -> str:
    """Why it is asked, where the question does not say it itself."""
    return "" if each.kind == "step" else words.sentence(words.summary(each.summary))


def answer_of(each: HandOffView) -> str:
    """The answer that was given."""
    return _("answered: {what}", what=words.answered(each.choice, each.kind) or _("by the end of the run"))


def label(status: str) -> str:
    """A status as one word or two."""
    return _(words.STATUS_NAMES.get(status, status))


def notice(said: str, kind: str = "") -> str:
    """What was just done, for whoever pressed the button; `kind` of the question that was answered."""
    if said in DONE:
        return _(DONE[said])
    known = words.CHOICES.get(said)
    what = words.answered(said, kind) or _(known[0]) if known is not None else ""
    return _("Done: {what}. It stands in the log.", what=what) if what else ""


def effects(story: Story) -> Sequence[dict[str, str]]:
    """What was done outside: the step, the action, the outside id, what was sent, what has become of it; of ended items
    of long lists how many there are.
    """
    return [
        {
            "step": story.place(each.path), "action": each.action, "id": words.plain(each.external_id),
            "to": story.receiver(each.path, each.part), "now": became(story, each),
            "stands": "stands" if disposition_of(story, each) in ("pending", "stands") and not story.went_well else "",
            "sent": sent.pairs(story.input_of(each.path, "do", each.part)),
        }
        for each in story.effects
    ] + [
        {
            "step": story.place(each.path), "action": each.action, "id": "", "sent": "",
            "to": _("({count} in all)", count=f"{each.count:,}"), "now": became_of(story, each),
            "stands": "stands" if each.disposition in ("pending", "stands") and not story.went_well else "",
        }
        for each in story.folded
    ] + [
        {"step": place, "action": event, "id": "", "sent": "", "to": "", "now": now, "stands": ""}
        for place, event, now in events_sent(story)
    ]  # fmt: skip
