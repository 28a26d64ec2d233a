"""Who keeps a record from whom: holds (somebody must answer first), locks (a run works on it), the line behind them.

The tables are the rule (`locks` has one row for a record); what stands here reads them, inside a transaction of the
writer too, and says who comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import BindParameter, Connection, bindparam, literal, select, union_all

from runner.store.facts import RecordIsHeld
from runner.store.tables import holds, locks, waits

_NAMED: BindParameter[object] = bindparam("names", expanding=True)
_USES = union_all(
    *(
        select(literal(kind).label("kind"), table.c.record, table.c.run_id, table.c.at).where(
            table.c.record.in_(_NAMED)
        )
        for kind, table in (("hold", holds), ("lock", locks), ("wait", waits))
    )
)
_LINKS = (
    select(waits.c.record, locks.c.run_id)
    .outerjoin(locks, locks.c.record == waits.c.record)
    .where(waits.c.run_id == bindparam("run"))
    .order_by(waits.c.record)
)


@dataclass(kw_only=True, slots=True)
class Use:
    """Who uses one record. `holds`, in their order, are runs and persons; `line` says since when each run waits."""

    record: str
    holds: list[str] = field(default_factory=list)
    lock: str = ""
    line: dict[str, int] = field(default_factory=dict)

    def keeper(self, run: str, since: int = 0) -> RecordIsHeld | None:
        """Who keeps the record from a run that began at `since`. Nobody stands in line before who has it already."""
        others = [holder for holder in self.holds if holder != run]
        if others:
            return RecordIsHeld(self.record, others[0])
        if self.lock and self.lock != run:
            return RecordIsHeld(self.record, self.lock, "lock")
        if run == self.lock or run in self.holds:
            return None
        earlier = [(at, other) for other, at in self.line.items() if (at, other) < (self.line.get(run, since), run)]
        return RecordIsHeld(self.record, min(earlier)[1], "lock") if earlier else None

    def next_in_line(self) -> str:
        """The run that waits and may have it now, or empty."""
        ordered = sorted(self.line, key=lambda run: (self.line[run], run))
        return next((run for run in ordered if self.keeper(run) is None), "")


def read_uses(connection: Connection, records: Iterable[str]) -> dict[str, Use]:
    """Who uses these records now."""
    found = {record: Use(record=record) for record in records}
    if not found:
        return found
    rows = connection.execute(_USES, {"names": list(found)}).all()
    for kind, record, run, at in sorted(rows, key=lambda row: (row.at, row.run_id)):
        if kind == "hold":
            found[record].holds.append(run)
        elif kind == "lock":
            found[record].lock = run
        else:
            found[record].line[run] = at
    return found


def find_circle(
    connection: Connection, run: str, waits_for: Iterable[str], locked: Iterable[str]
) -> tuple[tuple[str, str, str], ...]:
    """The circle that closes when this run, which has just `locked` these records, waits for those: (run, record, run
    that works on it), from this run round to itself. Empty where there is none.

    Only locks count: they are kept until the run ends, while a hold ends with an answer.
    """
    own = set(locked)
    steps: list[tuple[tuple[str, str, str], ...]] = [
        ((run, use.record, use.lock),) for use in read_uses(connection, waits_for).values() if use.lock not in ("", run)
    ]
    seen = {run}
    while steps:
        way = steps.pop(0)
        last = way[-1][2]
        if last == run:
            return way
        if last not in seen:
            seen.add(last)
            for record, owner in connection.execute(_LINKS, {"run": last}):
                if owner := run if record in own else owner:
                    steps.append((*way, (last, record, owner)))
    return ()
