"""Reading what the state of a run does not keep: ended items of its lists, and events that nobody waits for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields

from sqlalchemy import and_, exists, func, or_, select

from runner.core.events import Event
from runner.store.abridged import Abridged, Choosing, FoldedEffects
from runner.store.facts import EffectView, LogRow
from runner.store.log import with_remains
from runner.store.tables import awaited, effects, kept_events, log
from runner.store.turns import Turns
from runner.store.views import STORED, stored

_EFFECT = [column.name for column in effects.c][1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class EventView:
    """An event that is kept for whoever will wait for it: `fed_to` is the run and the step that got it, or empty."""

    event_id: str
    event: str
    source: str
    at: int
    until: int
    fed_to: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitView:
    """A step of a run that waits for an event with these fields."""

    run: str
    path: str
    event: str
    fields: tuple[str, ...]
    since: int


_EVENT = select(*(kept_events.c[field.name] for field in fields(EventView)))


class EndedItems(Turns):
    """What each promises stands in `facts.Store`."""

    def abridged(self, run: str, whole: str = "") -> Abridged:
        """A run's log without what stands in ended items of long lists, but with all in `whole`."""
        chosen = Choosing(whole)
        asked = select(log.c.seq, log.c.type, log.c.step, log.c.at).where(log.c.run_id == run).order_by(log.c.seq)
        with self._read() as connection:
            answer = connection.execute(asked.execution_options(yield_per=5_000))
            for rows in answer.partitions():
                for row in rows:
                    chosen.read(*row)
            chosen.finish()
            seqs = {*chosen.outside, *(seq for some in chosen.items.values() for seq in some)}
            for item, (first, last) in chosen.opened_again().items():
                inside = or_(log.c.step == item, log.c.step.startswith(f"{item}/", autoescape=True))
                again = select(log.c.seq).where(log.c.run_id == run, log.c.seq.between(first, last), inside)
                seqs.update(connection.execute(again).scalars())
        return Abridged(
            rows=self._entries(run, sorted(seqs)),
            end=chosen.end, done=chosen.done, made_good=chosen.made_good, begun=chosen.begun,
            undone_at=chosen.undone_at,
            kept=chosen.kept(), whole=chosen.whole(),
        )  # fmt: skip

    def facts_about(self, run: str, items: Sequence[str], *, whole: bool) -> Mapping[str, Sequence[tuple[int, Event]]]:
        found: dict[str, list[tuple[int, Event]]] = {item: [] for item in items}
        asked = select(log.c.step, func.max(log.c.seq).label("seq")).where(
            log.c.run_id == run, log.c.step.in_(items), log.c.type == "ScopeStarted"
        )
        # One that stands in an item that was set aside and begun anew has lives that are over: its last one is meant.
        began = {row.step: row.seq for row in self._rows(asked.group_by(log.c.step))}
        rows = STORED.where(log.c.run_id == run, log.c.seq >= min(began.values(), default=1)).order_by(log.c.seq)
        left = set(items)
        with self._read() as connection, connection.execute(rows.execution_options(yield_per=500)) as answer:
            for row in map(stored, answer):
                item = _item_of(row.step, left)
                item = item if row.seq >= began.get(item, 0) else ""
                event = self._log_row(run, row).event if item else None
                if event is not None:
                    found[item].append((row.seq, event))
                if event is not None and row.type == "ScopeEnded" and row.step == item and not whole:
                    left.remove(item)
                    if not left:
                        break
        return found

    def _entries(self, run: str, seqs: Sequence[int]) -> Sequence[LogRow]:
        found: list[LogRow] = []
        for at in range(0, len(seqs), 500):
            wanted = STORED.where(log.c.run_id == run, log.c.seq.in_(seqs[at : at + 500])).order_by(log.c.seq)
            found += [self._log_row(run, stored(row)) for row in self._rows(wanted)]
        return with_remains(found)

    def events_of(self, run: str, *types: str) -> Sequence[Event]:
        """The facts of a run that are of these types, in order."""
        wanted = select(log.c.seq).where(log.c.run_id == run, log.c.type.in_(types)).order_by(log.c.seq)
        with self._read() as connection:
            seqs = connection.execute(wanted).scalars().all()
        return [row.event for row in self._entries(run, seqs) if row.event is not None]

    def told_effects(self, run: str, told: Abridged) -> tuple[list[EffectView], list[FoldedEffects]]:
        """The effects that an abridged log tells of, by start number, and those of ended items as counts."""
        asked = select(effects).where(effects.c.run_id == run).order_by(effects.c.start_no)
        with self._read() as connection:
            rows = connection.execute(asked.execution_options(yield_per=5_000))
            return told.told_of(EffectView(run=row.run_id, **dict(zip(_EFFECT, row[1:], strict=True))) for row in rows)

    def being_made_good(self, run: str) -> AbstractSet[str]:
        begun = select(log.c.step).where(log.c.run_id == run, log.c.type == "CompensationBegun")
        return {row.step for row in self._rows(begun)}

    def open_events(self) -> Sequence[str]:
        asked = select(kept_events.c.event_id).where(kept_events.c.fed_to == "").order_by(kept_events.c.at)
        return [row.event_id for row in self._rows(asked)]

    def kept_event(self, event_id: str) -> EventView | None:
        """An event that came within the last day; None where there is none."""
        found = self._rows(_EVENT.where(kept_events.c.event_id == event_id))
        return EventView(**found[0]._mapping) if found else None

    def kept(self, now: int) -> Sequence[EventView]:
        """The events that nobody has waited for yet, oldest first."""
        asked = _EVENT.where(kept_events.c.fed_to == "", kept_events.c.until > now)
        return [EventView(**row._mapping) for row in self._rows(asked.order_by(kept_events.c.at))]

    def waiting(self) -> Sequence[WaitView]:
        """The steps that wait for an event, longest first."""
        return [
            WaitView(run=row.run_id, path=row.path, event=row.event, fields=tuple(json.loads(row.fields)), since=row.at)
            for row in self._rows(select(awaited).order_by(awaited.c.at, awaited.c.run_id, awaited.c.path))
        ]

    def newest_effects(
        self, runs: Sequence[str], scope: str, before: int | None, limit: int
    ) -> Sequence[tuple[int, str]]:
        left = ("pending", "stands") if len(runs) > 1 else ("pending",)
        since = effects.alias("since")
        is_decided = or_(
            since.c.disposition.not_in(left), and_(since.c.run_id == runs[-1], since.c.disposition != "pending")
        )
        decided = exists().where(since.c.run_id.in_(runs[1:]), since.c.start_no == effects.c.start_no, is_decided)
        asked = select(effects.c.start_no, effects.c.path).where(
            effects.c.run_id == runs[0], effects.c.disposition.in_(left), ~decided
        )
        if before is not None:
            asked = asked.where(effects.c.start_no < before)
        if scope:
            asked = asked.where(effects.c.path.startswith(f"{scope}/", autoescape=True))
        rows = self._rows(asked.order_by(effects.c.start_no.desc()).limit(limit))
        return [(row.start_no, row.path) for row in rows]


def _item_of(path: str, items: AbstractSet[str]) -> str:
    """Which of the items this path is, or stands in; empty for none."""
    while path and path not in items:
        path = path.rpartition("/")[0]
    return path
