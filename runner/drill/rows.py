"""What a run that failed leaves: what was made good and in which order, what stands outside, who knows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import State
from runner.core.status import standing_of
from runner.drill.ways import CALM, Trial, pattern_of
from runner.drill.world import Landed, World
from runner.engine.simulated import Result
from runner.language.bundle import Bundle
from runner.language.flow import NOBODY
from runner.people.told import hears

Became = Literal["done", "failed", "in_doubt", "handed", "declined", "left", "waits"]
"""What became of a compensation: done; it gave up; nobody knows; a person makes it good; nobody approved it; the flow
leaves the effect, with its reason; it had not ended."""

How = Literal["stands", "in_doubt", "marked", "corrected", "quarantined", "left", "twice"]
"""How an effect is there: as it was made; it may be or may not; flagged; put right by another one; set aside; left by
the flow's own word; made more than once."""

OPEN = ("stands", "in_doubt", "twice")
"""Effects of which somebody has to know."""
ENDED_WELL = ("succeeded", "drafted")
_ANSWERED: Mapping[str, How] = {"mark": "marked", "correct": "corrected", "quarantine": "quarantined"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Amend:
    """One compensation, in its place of the order. `by` is who is asked about it, or has said no."""

    step: str
    item: str
    word: str
    became: Became
    action: str = ""
    by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One effect that is outside when the run has come to rest."""

    step: str
    item: str
    action: str
    how: How


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """Somebody who knows: `asked` has a question with these `choices`, `approves` a compensation, `told` hears how it
    ended, `stopped` pressed the button.
    """

    who: str
    how: Literal["asked", "approves", "told", "stopped"]
    choices: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One step, failing in one way. `situations` are the numbers of those in which all of this is so; `waits` is what
    the run rests on where it has not ended; `failed_at` and `why` say where and why it failed, where that is another
    step than the one that was made to fail.
    """

    step: str
    way: str
    item: str = ""
    after: str = ""
    situations: tuple[int, ...] = ()
    amends: tuple[Amend, ...] = ()
    standing: tuple[Standing, ...] = ()
    told: tuple[Told, ...] = ()
    end: str = ""
    waits: str = ""
    follows: str = ""
    failed_at: str = ""
    why: str = ""

    @property
    def is_untold(self) -> bool:
        """Something stands outside, and nobody knows."""
        return any(one.how in OPEN for one in self.standing) and not self.told


def row_of(bundle: Bundle, trial: Trial, world: World, result: Result) -> Row:
    """The row of a trial."""
    row = Row(step=trial.step, way=trial.way, item=trial.item, after=trial.after)
    row = left_by(bundle, result.events, result.state, world.landed, row)
    return row if result.end != "exhausted" else replace(row, end=result.end)


def left_by(bundle: Bundle, events: Sequence[e.Event], state: State, landed: Sequence[Landed], row: Row) -> Row:
    """The row with what a run has left, by its facts and by what is true outside."""
    reading = _Reading(bundle, events, state)
    standing = standing_of(state)
    finished = next((event for event in events if isinstance(event, e.RunFinished)), None)
    is_well = standing.status in ENDED_WELL
    failure = next((one.failure for one in state.scopes.values() if one.failure is not None), None)
    place = pattern_of(failure.step) if failure is not None else ""
    is_other = row.way == CALM or place not in ("", row.step, row.after)
    if failure is not None and is_other and not is_well:
        row = replace(row, failed_at=place, why=failure.summary)
    return replace(
        row,
        amends=tuple(reading.amends()),
        standing=() if is_well else tuple(reading.standing(landed)),
        told=tuple(dict.fromkeys(reading.told())),
        end=standing.status,
        waits="" if state.has_ended else standing.waiting_for,
        follows=finished.then if finished is not None else "",
    )


Place = tuple[str, int]


class _Reading:
    """What a log says of its compensations."""

    def __init__(self, bundle: Bundle, events: Sequence[e.Event], state: State) -> None:
        self.bundle = bundle
        self.events = events
        self.state = state
        self.begun: dict[str, str] = {}
        self.became: dict[str, Became] = {}
        self.by: dict[str, str] = {}
        self.doubts: set[Place] = set()
        for event in events:
            self._read(event)
        asked = [handoff for handoff in state.open_handoffs if handoff.asks_what_became and handoff.purpose == "do"]
        self.doubts |= {(handoff.step, handoff.part) for handoff in asked}

    def _read(self, event: e.Event) -> None:
        path = event.step
        if isinstance(event, e.CallEvent) and event.purpose == "do":
            self._read_forward(event)
        elif isinstance(event, e.CallIntended) and event.purpose == "undo":
            self._began(path, "waits", event.action)
        elif isinstance(event, e.CallEvent) and event.purpose == "undo":
            self._read_undo(event)
        elif isinstance(event, e.CompensationFailed):
            self._began(path, "failed")
        elif isinstance(event, e.CompensationSkipped):
            self._began(path, "declined" if event.by else "left")
            self.by[path] = event.by
        elif isinstance(event, e.ApprovalRequested) and event.approval.endswith(UNDO):
            self._began(path, "waits")
            self.by[path] = " or ".join(event.by)
        elif isinstance(event, e.HandedOff) and _is_of_undo(event):
            became = "in_doubt" if event.kind == "compensation_unknown" else "failed"
            self._began(path, "handed" if event.kind == "compensation" else became)  # type: ignore[arg-type]
            self.by[path] = event.owner

    def _began(self, path: str, became: Became, action: str = "") -> None:
        self.begun[path] = action or self.begun.get(path, "")
        self.became[path] = became

    def _read_forward(self, event: e.CallEvent) -> None:
        place = (event.step, event.part)
        if isinstance(event, e.CallUnknown):
            self.doubts.add(place)
        elif isinstance(event, e.CallApplied | e.CallSettled):
            self.doubts.discard(place)

    def _read_undo(self, event: e.CallEvent) -> None:
        is_settled = isinstance(event, e.CallSettled) and event.result == "applied"
        if isinstance(event, e.CallApplied) or is_settled:
            self.became[event.step] = "done"
        elif isinstance(event, e.CallUnknown):
            self.became[event.step] = "in_doubt"

    def amends(self) -> Iterator[Amend]:
        """In the order in which they began."""
        for path, action in self.begun.items():
            words = self.bundle.step(path).compensate
            yield Amend(
                step=pattern_of(path), item=_items(path), word=words.word if words is not None else "hand_off",
                became=self.became[path], action=action, by=self.by.get(path, ""),
            )  # fmt: skip

    def standing(self, landed: Sequence[Landed]) -> Iterator[Standing]:
        """What is outside, in the order in which it was made; what nobody knows of for sure counts as there."""
        made = [each for each in landed if each.purpose == "do"]
        actions = {(each.step, each.part): each.action for each in made}
        for path, part in self.doubts:
            actions.setdefault((path, part), self.bundle.step(path).action)
        undone = {each.step for each in landed if each.purpose == "undo"}
        for (path, part), action in actions.items():
            how = self._how((path, part), path in undone, sum((each.step, each.part) == (path, part) for each in made))
            if how is not None:
                yield Standing(step=pattern_of(path), item=_items(path), action=action, how=how)

    def _how(self, place: Place, is_undone: bool, times: int) -> How | None:
        path = place[0]
        words = self.bundle.step(path).compensate
        became = self.became.get(path)
        if times > 1:
            return "twice"
        if place in self.doubts:
            return "in_doubt"
        if became == "done" or (became == "in_doubt" and is_undone):
            answered = _ANSWERED.get(words.word) if words is not None else None
            return "in_doubt" if became == "in_doubt" else answered
        return "left" if became == "left" and words is not None and words.word == "none" else "stands"

    def told(self) -> Iterator[Told]:
        """Who knows of it when the run has come to rest."""
        state, tell = self.state, self.bundle.flow.on_failure.tell
        is_failing = state.failure is not None or state.root.closed
        for handoff in state.open_handoffs:
            yield Told(who=handoff.owner, how="asked", choices=handoff.choices, about=pattern_of(handoff.step))
            if is_failing and tell not in ("", NOBODY, handoff.owner):
                yield Told(who=tell, how="told")
        for name, gate in state.gates.items():
            if gate.status == "open":
                for who in gate.by:
                    yield Told(who=who, how="approves", about=pattern_of(name.removesuffix(UNDO)))
        for event in self.events:
            has_closed = isinstance(event, e.HandOffResolved) and event.choice in ("close", "take_over")
            if has_closed or isinstance(event, e.StopRequested):
                yield Told(who=event.by, how="stopped")  # type: ignore[attr-defined]
            elif isinstance(event, e.RunFinished) and state.root.closed and (name := hears(self.bundle, state)):
                yield Told(who=name, how="told")


def _is_of_undo(event: e.HandedOff) -> bool:
    is_undo = event.kind.startswith("compensation") or (event.kind == "request" and event.purpose in ("", "undo"))
    return is_undo and event.purpose in ("", "undo")


def _items(path: str) -> str:
    """The numbers of the items around a path: `2`, `2/1`."""
    return "/".join(part for part in path.split("/") if part.isdigit())
