"""Reading: runs, logs, lists and the check of the chains, on connections that never block the writer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, Table, and_, bindparam, exists, func, or_, select
from sqlalchemy.exc import DBAPIError

from runner.contract import Json
from runner.core.events import RunMoved
from runner.core.state import Held
from runner.core.status import WAITS, waits_for
from runner.errors import NotFound, StoreCorrupt
from runner.language.personal import TEXT as PERSONAL
from runner.store.artifacts import Artifacts
from runner.store.database import Database
from runner.store.facts import (
    EffectView,
    HandOffView,
    LogEnd,
    LogRow,
    QuarantineView,
    RecordIsHeld,
    RunFilter,
    RunView,
    VersionView,
)
from runner.store.log import SITE, StoredRow, decode, elsewhere, read_apart, with_remains
from runner.store.personal import Personal
from runner.store.record_locks import read_uses
from runner.store.tables import (
    bundles,
    effects,
    handoffs,
    holds,
    log,
    meta,
    quarantine,
    runs,
    site_holds,
    texts,
    version,
    waits,
)

T = TypeVar("T")

STORED = select(log)
"""Rows of the log; see `stored`."""
ALL = 2_147_483_647
_AFTER = STORED.where(log.c.run_id == bindparam("run"), log.c.seq > bindparam("after")).order_by(log.c.seq)
_PAGE = _AFTER.limit(bindparam("most", ALL))

_STANDS = (
    select(func.count())
    .where(effects.c.run_id == runs.c.run_id, effects.c.disposition.in_(("pending", "stands")))
    .scalar_subquery()
    .label("stands")
)
_RUN = select(
    runs.c.run_id.label("run"), *(runs.c[field.name] for field in fields(RunView) if field.name in runs.c), _STANDS
)
_NAMES = tuple(_RUN.selected_columns.keys())
_ONE: Select[Any] = _RUN.where(runs.c.run_id == bindparam("run"))
_OPEN = runs.c.ended_at.is_(None)


def stored(row: Any) -> StoredRow:
    """A row of `STORED`."""
    return StoredRow._make(row[1:])


class Views:
    """Every reading method of the store; what each promises stands in `facts.Store`.

    Safe from any thread; each call sees one state of the database.
    """

    def __init__(self, file: Database, engine: Engine, artifacts: Artifacts) -> None:
        self.artifacts = artifacts
        self._file = file
        self._readers = engine
        self._single = engine.execution_options(single=True)
        self._worded: dict[Select[Any], tuple[str, Sequence[str], Mapping[str, Any]]] = {}
        self._personal: dict[str, str | None] = {}

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        try:
            with self._begun() as connection:
                yield connection
        except DBAPIError as error:
            raise self._file.translate(error) from None

    def _begun(self, *, again: bool = True) -> Connection:
        """A connection in a transaction. A kept one may have broken meanwhile: its BEGIN shows it."""
        connection = self._readers.connect()
        try:
            connection.begin()
        except DBAPIError as error:
            connection.close()
            if not again or not error.connection_invalidated:
                raise
            return self._begun(again=False)
        return connection

    def _rows(
        self, asked: Select[Any], values: Mapping[str, Any] | None = None, *, again: bool = True
    ) -> Sequence[Row[Any]]:
        """The rows of one statement, which needs no transaction around it: a third of the ways to a server."""
        try:
            with self._single.connect() as connection:
                return connection.execute(asked, values or {}).all()
        except DBAPIError as error:
            if not again or not error.connection_invalidated:
                raise self._file.translate(error) from None
        return self._rows(asked, values, again=False)

    def rows(self, asked: Select[Any], values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of one statement that is asked all the time. On SQLite its text goes to the driver, for a few texts
        and numbers only: through the library it costs eight times as much.
        """
        if self._file.is_shared:
            return self._rows(asked, values)
        text, names, fixed = self._worded.get(asked) or self._word(asked, values)
        given = [values[name] if name in values else fixed[name] for name in names]
        failures: tuple[type[Exception], ...] = (DBAPIError, *self._file.errors)
        try:
            with closing(self._readers.raw_connection()) as connection:
                found: Sequence[Sequence[Any]] = connection.cursor().execute(text, given).fetchall()
        except failures as error:
            raise self._file.translate(error) from None
        return found

    def _word(self, asked: Select[Any], values: Mapping[str, Any]) -> tuple[str, Sequence[str], Mapping[str, Any]]:
        made: Any = asked.compile(dialect=self._file.dialect)
        told = made.construct_expanded_state(dict(values))
        self._worded[asked] = told.statement, tuple(told.positiontup), told.parameters
        return self._worded[asked]

    def _ids(self, asked: Select[Any]) -> list[str]:
        return [row.run_id for row in self._rows(asked)]

    def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer of a table that no log speaks of (see `access`)."""
        with self._read() as connection:
            return question(connection)

    # -- the whole --

    def about(self) -> Mapping[str, Json]:
        """The database itself: `path`, `software`, whether it `is_safe`, `schema`, `bytes` (with what waits in SQLite's
        write-ahead file), `free` bytes on its disk where that is known, `commits`, `restored`."""
        with self._read() as connection:
            row = connection.execute(select(meta)).one()
            schema = connection.execute(select(version.c.version_num)).scalar_one()
            told = self._file.about(connection)
        return {**told, "schema": schema, "commits": row.commit_no, "restored": row.restored_at is not None}

    def fence(self) -> int:
        return int(self._rows(select(meta.c.fence))[0].fence)

    def site_holds(self) -> Mapping[str, str]:
        rows = self._rows(select(site_holds.c.name, site_holds.c.held_by).order_by(site_holds.c.name))
        people = self._rows(select(holds).where(holds.c.run_id.contains(":")).order_by(holds.c.record))
        return {row.name: row.held_by for row in rows} | {f"record:{row.record}": row.run_id for row in people}

    def bundle(self, digest: str) -> Mapping[str, str]:
        rows = self._rows(
            select(bundles.c.name, texts.c.content)
            .join(texts, texts.c.digest == bundles.c.text_digest)
            .where(bundles.c.digest == digest)
            .order_by(bundles.c.name)
        )
        if not rows:
            raise NotFound(f"there is no bundle {digest}")
        return {row.name: row.content for row in rows}

    # -- logs --

    def log(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[LogRow]:
        """The log after a seq, in order; `_site` too. Raises NotFound."""
        found = self.rows(_PAGE, {"run": run, "after": after, "most": limit or ALL})
        if not found:
            self.log_end(run)
        return with_remains([self._log_row(run, stored(row)) for row in found])

    def _log_row(self, run: str, row: StoredRow) -> LogRow:
        digest = elsewhere(row)
        try:
            event = decode(row, read_apart(self.artifacts.get(digest)) if digest else None)
        except (NotFound, StoreCorrupt):
            event = None
        return LogRow(
            run=run, seq=row.seq, type=row.type, at=row.at, step=row.step, external_id=row.external_id, event=event,
            hash=row.hash, erased=row.data is None,
        )  # fmt: skip

    def personal(self, run: str | RunView, told: Iterable[LogRow] | None = None) -> Personal | None:
        """What is personal in a run's log; None where nothing is. A clean-up run shares it with the run before.

        With `told` the values are those of these rows, and not of the whole log.
        """
        view = self.run(run) if isinstance(run, str) else run
        if view.bundle not in self._personal:
            asked = select(texts.c.content).join(bundles, texts.c.digest == bundles.c.text_digest)
            asked = asked.where(bundles.c.digest == view.bundle, bundles.c.name == PERSONAL)
            self._personal[view.bundle] = next(iter(self._rows(asked)), (None,))[0]
        text = self._personal[view.bundle]
        if text is None:
            return None
        before = self.personal(view.continues) if view.continues else None
        found = Personal({PERSONAL: text}, before.values if before else ())
        return found.learn(row.event for row in (self.log(view.run) if told is None else told))

    def _artifacts_of(self, run: str, seqs: Sequence[int]) -> list[str]:
        rows = self._rows(STORED.where(log.c.run_id == run, log.c.seq.in_(seqs)))
        return [digest for row in rows if (digest := elsewhere(stored(row)))]

    def log_end(self, run: str) -> LogEnd:
        with self._read() as connection:
            return log_end(connection, run)

    # -- runs --

    def run(self, run: str) -> RunView:
        found = self.rows(_ONE, {"run": run})
        if not found and run:
            begin = runs.c.run_id.startswith(run, autoescape=True)
            found = self._rows(_RUN.where(begin).order_by(runs.c.run_id).limit(3))
        if len(found) > 1:
            names = ", ".join(one[0] for one in found[:2])
            raise NotFound(f"{run} is the beginning of several runs ({names}, …); give more of it")
        if not found:
            raise NotFound(f"there is no run {run}")
        view = RunView(**dict(zip(_NAMES, found[0], strict=True)))
        return self.ask(lambda it: _told(it, [view]))[0] if view.waiting_for.startswith(WAITS) else view

    def run_of_key(self, flow: str, mode: str, run_key: str) -> tuple[RunView, str] | None:
        same = (runs.c.flow == flow, runs.c.mode == mode, runs.c.run_key == run_key)
        rows = self._rows(_RUN.add_columns(runs.c.inputs_digest).where(*same).order_by(runs.c.rerun.desc()).limit(1))
        if not rows:
            return None
        told = dict(rows[0]._mapping)
        digest: str = told.pop("inputs_digest")
        return RunView(**told), digest

    def runs(self, wanted: RunFilter) -> Sequence[RunView]:
        """Runs, newest first. Raises NotFound when `before` names no run."""
        with self._read() as connection:
            narrowed = _narrowed(connection, wanted).limit(wanted.limit)
            if not wanted.status:
                found = list(connection.execute(narrowed))
            else:
                # One question for each status: each walks its own index and stops, however rare the status is.
                found = [
                    row
                    for status in dict.fromkeys(wanted.status)
                    for row in connection.execute(narrowed.where(runs.c.status == status))
                ]
                found.sort(key=lambda row: (row.started_at, row.run), reverse=True)
            return _told(connection, [RunView(**row._mapping) for row in found[: wanted.limit]])

    def counts(self) -> Mapping[str, int]:
        return dict(self.ask(lambda it: it.execute(select(runs.c.status, func.count()).group_by(runs.c.status)).all()))

    def open_runs(self) -> Sequence[str]:
        return self._ids(select(runs.c.run_id).where(_OPEN).order_by(runs.c.started_at, runs.c.run_id))

    def next_in_line(self, record: str) -> str:
        with self._read() as connection:
            return read_uses(connection, (record,))[record].next_in_line()

    def keeper(self, record: str, run: str) -> RecordIsHeld | None:
        with self._read() as connection:
            return read_uses(connection, (record,))[record].keeper(run)

    def holder(self, record: str) -> str:
        """The run or the person that keeps the record from others, or empty."""
        kept = self.keeper(record, "")
        return kept.by_run if kept is not None else ""

    # -- lists beside the runs --

    def effects(self, run: str) -> Sequence[EffectView]:
        rows = self._rows(_as_view(effects).where(effects.c.run_id == run).order_by(effects.c.start_no))
        return [EffectView(**row._mapping) for row in rows]

    def handoffs(self, *, run: str = "", open_only: bool = True) -> Sequence[HandOffView]:
        asked = _as_view(handoffs).add_columns(runs.c.flow).join(runs, runs.c.run_id == handoffs.c.run_id)
        if run:
            asked = asked.where(handoffs.c.run_id == run)
        if open_only:
            asked = asked.where(handoffs.c.status != "resolved")
        rows = self._rows(asked.order_by(handoffs.c.opened_at, handoffs.c.run_id, handoffs.c.handoff))
        return [HandOffView(**{**row._mapping, "choices": tuple(json.loads(row.choices))}) for row in rows]

    def quarantined(self, *, open_only: bool = True) -> Sequence[QuarantineView]:
        asked = _as_view(quarantine).order_by(quarantine.c.at, quarantine.c.record, quarantine.c.run_id)
        if open_only:
            asked = asked.where(quarantine.c.status == "set_aside")
        return [QuarantineView(**{**row._mapping, "content": json.loads(row.content)}) for row in self._rows(asked)]

    # -- versions --

    def versions(self, flow: str = "") -> Sequence[VersionView]:
        """Every version that ran, the one used last first. A run that was moved counts for each version it was on."""
        meant = (runs.c.flow == flow,) if flow else ()
        is_move = log.c.type == "RunMoved"
        key = (runs.c.flow, runs.c.bundle)
        used = select(*key, func.min(runs.c.started_at), func.max(runs.c.started_at), func.count())
        stayed = used.where(*meant, runs.c.run_id.not_in(select(log.c.run_id).where(is_move))).group_by(*key)
        moved = select(runs.c.flow, runs.c.run_id, runs.c.started_at, log).join(runs, runs.c.run_id == log.c.run_id)
        with self._read() as connection:
            found = {
                (row[0], row[1]): VersionView(
                    flow=row[0], bundle=row[1], first_at=row[2], last_at=row[3], runs=row[4], open_runs=0
                )
                for row in connection.execute(stayed)
            }
            moves = connection.execute(moved.where(*meant, is_move).order_by(log.c.run_id, log.c.seq)).all()
            # In this order it walks the few runs that are open, and not all of the flow's.
            opened = connection.execute(select(*key).where(_OPEN).order_by(runs.c.started_at, runs.c.run_id)).all()
        for visit, at in _visits(moves).items():
            _visit(found, visit[:2], at)
        for on, count in Counter((row[0], row[1]) for row in opened).items():
            if on in found:
                found[on] = replace(found[on], open_runs=count)
        return sorted(found.values(), key=lambda each: (-each.last_at, each.flow, each.bundle))


def _visits(rows: Sequence[Any]) -> dict[tuple[str, str, str], int]:
    """When moved runs were put on each of their versions: (flow, bundle, run) -> the last time."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        event = decode(stored(row[3:]))
        if isinstance(event, RunMoved):
            found.setdefault((row[0], event.before, row[1]), row[2])
            found[row[0], event.bundle, row[1]] = event.at
    return found


def _visit(found: dict[tuple[str, str], VersionView], key: tuple[str, str], at: int) -> None:
    known = found.get(key) or VersionView(flow=key[0], bundle=key[1], first_at=at, last_at=at, runs=0, open_runs=0)
    found[key] = replace(known, first_at=min(known.first_at, at), last_at=max(known.last_at, at), runs=known.runs + 1)


def _as_view(table: Table) -> Select[Any]:
    return select(table.c.run_id.label("run"), *(column for column in table.c if column.name != "run_id"))


def log_end(connection: Connection, run: str) -> LogEnd:
    """Where a run's log ends; `_site` too. Raises NotFound."""
    if run == SITE:
        row = connection.execute(select(meta.c.site_seq, meta.c.site_head)).one()
        return LogEnd(seq=row.site_seq, hash=row.site_head)
    found = connection.execute(select(runs.c.seq, runs.c.head).where(runs.c.run_id == run)).first()
    if found is None:
        raise NotFound(f"there is no run {run}")
    return LogEnd(seq=found.seq, hash=found.head)


def _told(connection: Connection, views: list[RunView]) -> list[RunView]:
    """What runs in a line wait for as it is now: the log says who kept the record when each began to wait."""
    waiting = [view.run for view in views if view.waiting_for.startswith(WAITS)]
    if not waiting:
        return views
    records = {
        row.run_id: row.record
        for row in connection.execute(select(waits).where(waits.c.run_id.in_(waiting)).order_by(waits.c.record.desc()))
    }
    uses = read_uses(connection, dict.fromkeys(records.values()))
    kept = {run: why for run, record in records.items() if (why := uses[record].keeper(run)) is not None}
    named = {why.by_run for why in kept.values()}
    asked = select(runs.c.run_id, runs.c.flow, runs.c.needs).where(runs.c.run_id.in_(named))
    others = {row.run_id: (row.flow, row.needs) for row in connection.execute(asked)}
    told = {
        run: waits_for(Held(why=why.why, name=why.record, by=why.by_run), *others.get(why.by_run, ("", "")))
        for run, why in kept.items()
    }
    return [replace(view, waiting_for=told.get(view.run, view.waiting_for)) for view in views]


def _is_step(column: ColumnElement[str], wanted: RunFilter) -> ColumnElement[bool]:
    """The step itself, or that step of an item or of a called flow."""
    return or_(column == wanted.at_step, column.endswith(f"/{wanted.at_step}", autoescape=True))


def _narrowed(connection: Connection, wanted: RunFilter) -> Select[Any]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.flow:
        conditions.append(runs.c.flow == wanted.flow)
    if wanted.record:
        conditions += [runs.c.record == wanted.record, runs.c.record != ""]
    if wanted.since is not None:
        conditions.append(runs.c.started_at >= wanted.since)
    if wanted.changed_since is not None:
        conditions.append(runs.c.updated_at >= wanted.changed_since)
    if wanted.open_only:
        conditions.append(_OPEN)
    if wanted.at_step:
        asked = exists().where(
            handoffs.c.run_id == runs.c.run_id, handoffs.c.status != "resolved",
            or_(handoffs.c.kind == "set_aside", _is_step(handoffs.c.step, wanted)),
        )  # fmt: skip
        conditions.append(or_(_is_step(runs.c.at_step, wanted), asked))
    if wanted.before:
        at = connection.execute(select(runs.c.started_at).where(runs.c.run_id == wanted.before)).scalar()
        if at is None:
            raise NotFound(f"there is no run {wanted.before} to go on from")
        older = or_(runs.c.started_at < at, and_(runs.c.started_at == at, runs.c.run_id < wanted.before))
        conditions += [runs.c.started_at <= at, older]
    return _RUN.where(*conditions).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
