"""Who is told of what has just happened in a run: facts become messages, written with them and sent after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import Gate, State
from runner.language.bundle import Bundle
from runner.language.calendar import Calendar, after
from runner.language.duty import chain, told
from runner.language.flow import NOBODY, Duration
from runner.language.people import ME, People, Person
from runner.people.post import Channel
from runner.store.messages import Message

ANSWER_WITHIN = Duration(amount=1, unit="business_day")
"""How long silence is waited for where a team says nothing of it."""
ESCALATE = "escalate"
TELLING = frozenset((e.ApprovalRequested, e.TimerFired, e.Escalated, e.HandedOff))
"""The facts that somebody may be told of."""
_ENDED_BADLY = frozenset({"failed", "compensated", "stopped", "closed"})
_ENDED_ALONE = frozenset({"failed", "compensated"})
_BY_ITSELF = frozenset({"form", "webhook", "schedule", "mail", "poll", "event"})
"""What `trigger` names where nobody started a run by hand."""

Entitled = Callable[[tuple[str, ...]], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Staff:
    """The people of a project now. `channels` says how somebody can be reached, `admin` who is told when nobody can."""

    people: People
    channels: Callable[[Person], tuple[Channel, ...]]
    calendar: Calendar
    admin: str = ""

    def behind(self, names: Iterable[str], at: int) -> tuple[Person, ...]:
        """Who is told for these names at that moment, as far as they can be reached."""
        found = dict.fromkeys(one for name in names for one in told(self.people, name, at, self.calendar.zone))
        return tuple(person for person in found if self.channels(person))

    def messages(self, people: Iterable[Person], about: str, kind: str, at: int, number: int = 0) -> list[Message]:
        """One for each of their channels; `number` is the round of an approval, or how often silence was passed on."""
        return [
            Message(
                about=about, round=number, kind=kind, person=f"person:{person.id}", channel=channel, at=at, due=at
            )
            for person in people
            for channel in self.channels(person)
        ]  # fmt: skip


def is_telling(event: e.Event) -> bool:
    """Whether somebody may have to be told of a fact: this is asked of every one, so it costs next to nothing."""
    return type(event) in TELLING or (isinstance(event, e.RunFinished) and event.status in _ENDED_BADLY)


def needs_people(bundle: Bundle, state: State, event: e.Event) -> bool:
    """Whether it takes a look at the people to know who is told of a fact that tells. Of timers only reminders do, of
    ends those that somebody hears of: waits that are over and runs that were undone come by the thousand."""
    if isinstance(event, e.TimerFired):
        return event.timer == "remind"
    return not isinstance(event, e.RunFinished) or bool(hears(bundle, state))


def messages_of(
    staff: Staff, bundle: Bundle, state: State, events: Sequence[e.Event], entitled: Entitled
) -> tuple[Message, ...]:
    """What people are told of these facts; `state` is after them, `entitled` says who may approve for some names."""
    found: list[Message] = []
    for event in events:
        if isinstance(event, e.ApprovalRequested | e.TimerFired | e.Escalated):
            found += _of_gate(staff, state, event, entitled)
        elif isinstance(event, e.HandedOff) and not state.handoffs[event.handoff].choice:
            found += _of_handoff(staff, bundle, state, event)
        elif isinstance(event, e.RunFinished) and event.status in _ENDED_BADLY and (name := hears(bundle, state)):
            people = meant(staff, state, (name,), event.at)
            found += staff.messages(people, "", "told", event.at) if state.root.closed else []
            if asks_to_see(bundle, state):
                due = after(event.at, bundle.flow.on_failure.within or ANSWER_WITHIN, staff.calendar)
                found.append(escalate_at("", 0, event.at, due))
    return tuple(found)


def _of_gate(
    staff: Staff, state: State, event: e.ApprovalRequested | e.TimerFired | e.Escalated, entitled: Entitled
) -> Iterator[Message]:
    """Asked are those on duty, all where more are needed; a reminder goes to everybody who may decide."""
    if isinstance(event, e.TimerFired):
        name, kind = event.step + (UNDO if event.purpose == "undo" else ""), "reminder"
        wanted = event.timer == "remind"
    else:
        name, kind = (event.approval, "asked") if isinstance(event, e.ApprovalRequested) else (event.about, "joined")
        wanted = True
    gate = state.gates.get(name)
    if not wanted or gate is None or gate.status != "open":
        return
    people = _asked(staff, state, gate, event, entitled)
    yield from staff.messages(people, name, kind, event.at, gate.round)


def _asked(staff: Staff, state: State, gate: Gate, event: e.Event, entitled: Entitled) -> Iterator[Person]:
    names = (event.to,) if isinstance(event, e.Escalated) else gate.by
    may = set(entitled(names)) - {yes.by for yes in gate.yes}
    everybody = [staff.people.people[one] for one in (name.partition(":")[2] for name in sorted(may))
                 if one in staff.people.people]  # fmt: skip
    on_duty = [person for person in staff.behind(names, event.at) if f"person:{person.id}" in may]
    is_enough = len(on_duty) >= gate.needs - len(gate.yes)
    yield from on_duty if is_enough and on_duty and not isinstance(event, e.TimerFired) else everybody


def meant(staff: Staff, state: State, names: tuple[str, ...], at: int) -> tuple[Person, ...]:
    """Who is told; of a draft only whoever started it, and the admin where nobody can be reached."""
    if state.mode == "draft":
        return staff.behind([name for name in (state.starter,) if name != ME], at)
    names = tuple(state.starter if name == ME else name for name in names)
    if all(name == ME for name in names):
        return ()
    return staff.behind(names, at) or staff.behind([staff.admin], at)


def _of_handoff(staff: Staff, bundle: Bundle, state: State, event: e.HandedOff) -> Iterator[Message]:
    people = meant(staff, state, (event.owner,), event.at)
    yield from staff.messages(people, event.handoff, "handed_off", event.at)
    tell, is_failing = bundle.flow.on_failure.tell, state.failure is not None or state.root.closed
    others = meant(staff, state, (tell,), event.at) if tell not in ("", NOBODY) and is_failing else ()
    yield from staff.messages([one for one in others if one not in people], event.handoff, "told", event.at)
    if state.mode == "live" and next_ones(staff, bundle, state, event.owner):
        due = after(event.at, patience(staff, bundle, state, event.owner), staff.calendar)
        yield escalate_at(event.handoff, 0, event.at, due)


def hears(bundle: Bundle, state: State) -> str:
    """Who is told that a run has ended badly: whom the flow names; else its owner, where nobody started it by hand and
    no person has ended it. Empty for nobody."""
    tell = bundle.flow.on_failure.tell
    if tell:
        return "" if tell == NOBODY else tell
    is_by_itself = not _BY_ITSELF.isdisjoint(state.trigger) or str(state.trigger.get("by", "")).startswith("run:")
    return state.owner if is_by_itself and state.status in _ENDED_ALONE else ""


def asks_to_see(bundle: Bundle, state: State) -> bool:
    """Whether those who are told that a run has failed are to say that they have seen it."""
    words, is_told = bundle.flow.on_failure, state.status in _ENDED_BADLY and state.root.closed
    return is_told and state.mode == "live" and bool(words.escalate_to and hears(bundle, state))


def escalate_at(handoff: str, level: int, at: int, due: int) -> Message:
    """The time when silence about a hand-off, or about the end of a run (empty), is passed on to the next in line."""
    return Message(about=handoff, round=level, kind=ESCALATE, at=at, due=due)


def patience(staff: Staff, bundle: Bundle, state: State, owner: str) -> Duration:
    """How long somebody may be silent."""
    words = bundle.flow.on_failure
    team = staff.people.teams.get(owner.removeprefix("team:"))
    if words.within is not None and (state.failure is not None or state.root.closed):
        return words.within
    return (team.answer_within if team is not None else None) or ANSWER_WITHIN


def next_ones(staff: Staff, bundle: Bundle, state: State, owner: str) -> tuple[str, ...]:
    """Who is told when the owner of a hand-off is silent, in order."""
    owner = state.starter if owner == ME else owner
    if owner == ME:
        return ()
    words, line = bundle.flow.on_failure, chain(staff.people, owner, staff.admin)
    if words.escalate_to and (state.failure is not None or state.root.closed):
        line = (words.escalate_to, *line)
    return tuple(name for name in dict.fromkeys(line) if name != owner)
