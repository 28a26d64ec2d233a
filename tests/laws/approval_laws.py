"""I20 to I24: what approvals cover leaves only as it was approved, by enough entitled people, in time, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core import events as e
from tests.laws.register import law, named
from tests.laws.story import Story

UNDO = ":undo"


@dataclass(kw_only=True)
class Round:
    """One round of one approval as the log has it: who said what to it while it was open, and where it ended."""

    seq: int
    event: e.ApprovalRequested
    by: tuple[str, ...]
    yes: list[tuple[int, e.ApprovalDecided]] = field(default_factory=list)
    edits: dict[str, dict[str, object]] = field(default_factory=dict)
    decided: int = 0
    ended: int = 0
    why: str = ""
    edited_since: frozenset[str] = frozenset()
    """The hashes of what was asked before it was edited: an answer to one of them, yes or no, is to something else."""

    @property
    def is_good(self) -> bool:
        """Everybody who was needed has said yes, and nothing has ended it."""
        return bool(self.decided) and not self.ended


def _rounds(story: Story, until: int) -> dict[str, Round]:
    """The newest round of each approval, as the log stood before an entry."""
    found: dict[str, Round] = {}
    for seq, event in enumerate(story.raw[: until - 1], 1):
        match event:
            case e.ApprovalRequested():
                found[event.approval] = Round(seq=seq, event=event, by=event.by)
            case e.Escalated() if event.about in found:
                asked = found[event.about]
                asked.by = (*asked.by, event.to)
            case e.ApprovalDecided() if event.approval in found:
                _read(story, found[event.approval], seq, event)
            case e.ApprovalLapsed() if event.approval in found:
                _end(found[event.approval], seq, "lapsed")
            case e.TimerFired(timer="approval"):
                _end(found[event.step + (UNDO if event.purpose else "")], seq, "late")
            case _:
                pass
    return found


def _end(asked: Round, seq: int, why: str) -> None:
    asked.ended, asked.why = seq, why


def _read(story: Story, asked: Round, seq: int, event: e.ApprovalDecided) -> None:
    """Whether an answer counts, by the law and not by the core."""
    is_other = event.hash in asked.edited_since if asked.edited_since else event.hash != asked.event.hash
    is_old = event.round != asked.event.round or is_other
    is_twice = any(yes.by == event.by for _, yes in asked.yes)
    if asked.ended or asked.decided or is_old or event.at >= asked.event.due or is_twice:
        return
    if event.answer != "yes":
        _end(asked, seq, "no")
        return
    if event.edited:
        asked.yes, asked.edited_since = [], asked.edited_since | {event.hash}
        asked.edits = {path: one["input"] for path, one in event.edited.items()}
    asked.yes.append((seq, event))
    if len(asked.yes) >= asked.event.needs:
        asked.decided = seq


def _sends(story: Story) -> Iterator[tuple[int, e.CallIntended, list[str]]]:
    """The first attempt of every generation of what needs an approval, and by which."""
    if story.started.mode == "draft":
        return
    for seq, event in enumerate(story.raw, 1):
        if not isinstance(event, e.CallIntended) or event.attempt != 1:
            continue
        step = story.bundle.step(event.step)
        if event.purpose == "do" and step.covered_by:
            scopes = [event.step.rpartition("/")[0]]
            while scopes[-1]:
                scopes.append(scopes[-1].rpartition("/")[0])
            yield seq, event, [f"{scope}/{name}" if scope else name for scope in scopes for name in step.covered_by]
        if event.purpose == "undo" and step.compensate is not None and step.compensate.approve_by:
            yield seq, event, [event.step + UNDO]


@law("I20")
def what_is_covered_has_its_approvals(story: Story) -> Iterator[str]:
    """Every approval that asked has all its yeses, recorded before, still good; at least one has asked."""
    for seq, intent, names in _sends(story):
        rounds = {name: one for name, one in _rounds(story, seq).items() if name in names}
        if not rounds and not story.bundle.step(intent.step).unattended:
            yield f"{named(intent)} was sent, and nobody was asked"
        for name, asked in rounds.items():
            if not asked.is_good:
                yield f"{named(intent)} was sent while {name} was {asked.why or 'open'}"
            elif not _has_begun(story, asked, intent, seq):
                good = story.raw[asked.decided - 1].at + asked.event.good_for
                if intent.at >= good:
                    yield f"{named(intent)} was sent when the yes of {name} was no longer good"


def _has_begun(story: Story, asked: Round, intent: e.CallIntended, seq: int) -> bool:
    """Under this round the step had begun before."""
    between = story.raw[asked.seq : seq - 1]
    return any(
        isinstance(event, e.CallIntended) and (event.step, event.purpose) == (intent.step, intent.purpose)
        for event in between
    )


@law("I21")
def what_leaves_is_what_was_shown(story: Story) -> Iterator[str]:
    """The request is the one that was shown, or edited; and it goes where it went then."""
    staff = story.ledger.staff
    for seq, intent, names in _sends(story):
        request = story.raw[seq - 1].request if isinstance(story.raw[seq - 1], e.CallIntended) else {}  # type: ignore[attr-defined]
        for name, asked in _rounds(story, seq).items():
            if name not in names or not asked.is_good:
                continue
            shown = asked.event.shown["steps"].get(intent.step)
            if shown is None:
                yield f"{named(intent)} was sent, and {name} did not show it"
                continue
            edited = asked.edits.get(intent.step)
            wanted = edited if edited is not None else _given(shown["requests"][intent.part])
            if _given(request) not in (None, wanted):
                yield f"{named(intent)} sends {_given(request)}, and {name} approved {wanted}"
            decided = story.raw[asked.seq - 1].at if edited is None else story.raw[asked.decided - 1].at
            if staff.where(decided) != staff.where(intent.at):
                yield f"{named(intent)} goes elsewhere than {name} approved"


def _given(request: Mapping[str, Any]) -> Any:
    """What a request was made of; None where it does not say so, but only what goes over the line to a real service."""
    return request.get("input")


@law("I22")
def a_yes_is_used_once(story: Story) -> Iterator[str]:
    """Under one round a part of a step is sent anew only by a person's answer about that call."""
    used: dict[tuple[str, int, str, str, int], int] = {}
    for seq, intent, names in _sends(story):
        for name, asked in _rounds(story, seq).items():
            if name not in names or not asked.is_good:
                continue
            use = (name, asked.seq, intent.step, intent.purpose, intent.part)
            before = used.get(use, 0)
            between = story.raw[before : seq - 1] if before else ()
            items = [event.step for event in between if isinstance(event, e.ItemResumed | e.ItemSetAside)]
            if before and any(intent.step.startswith(f"{item}/") for item in items):
                yield f"{named(intent)} uses the yes of {name} a second time"
            used[use] = seq


@law("I23")
def people_are_distinct_and_entitled(story: Story) -> Iterator[str]:
    """Each yes is another entitled person's, never the starter's, and they are entitled when it leaves."""
    staff, starter = story.ledger.staff, story.started.starter
    for seq, intent, names in _sends(story):
        for name, asked in _rounds(story, seq).items():
            if name not in names or not asked.is_good:
                continue
            people = [yes.by for _, yes in asked.yes]
            if len(set(people)) < asked.event.needs:
                yield f"{named(intent)}: {name} needs {asked.event.needs} people and has {people}"
            for _, yes in asked.yes:
                if yes.by not in staff.may(asked.by, yes.at, starter):
                    yield f"{named(intent)}: {yes.by} said yes to {name} and may not"
                if yes.by not in staff.may(asked.by, intent.at, starter):
                    yield f"{named(intent)}: {yes.by} may not approve {name} any more"


@law("I24")
def what_was_refused_or_left_out_does_not_happen(story: Story) -> Iterator[str]:
    """After a no, silence, or an item that was left out nothing of it is sent; nobody's time ends before its end."""
    for seq, intent, names in _sends(story):
        for name, asked in _rounds(story, seq).items():
            left_out = {path for _, yes in asked.yes for path in yes.left_out}
            if name in names and intent.step in left_out:
                yield f"{named(intent)} was left out of {name} and is sent"
    asked_at: dict[str, e.ApprovalRequested] = {}
    for event in story.raw:
        if isinstance(event, e.ApprovalRequested):
            asked_at[event.approval] = event
        if isinstance(event, e.TimerFired) and event.timer == "approval":
            request = asked_at[event.step + (UNDO if event.purpose else "")]
            if event.at < request.due:
                yield f"{request.approval} ended before its time"


@law("asked once")
def a_round_is_asked_when_the_one_before_is_over(story: Story) -> Iterator[str]:
    """Rounds follow each other, and nobody is asked while an older round is open or good."""
    for seq, event in enumerate(story.raw, 1):
        if isinstance(event, e.ApprovalRequested):
            before = _rounds(story, seq).get(event.approval)
            is_new = before is None or _is_forgotten(story, before, event, seq)
            if before is not None and not before.ended and not is_new:
                yield f"round {event.round} of {event.approval} is asked while round {before.event.round} holds"
            if event.round != (1 if is_new or before is None else before.event.round + 1):
                yield f"round {event.round} of {event.approval} does not follow"


def _is_forgotten(story: Story, before: Round, event: e.ApprovalRequested, seq: int) -> bool:
    """The item that it stands in began anew since."""
    items = [one.step for one in story.raw[before.seq : seq] if isinstance(one, e.ScopeStarted) and one.kind == "item"]
    return any(event.approval.startswith(f"{item}/") for item in items)
