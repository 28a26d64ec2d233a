"""Checking every chain, and handing a run's log to somebody who trusts neither us nor our database."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, and_, exists, func, select, tuple_

from runner.clock import iso
from runner.core.events import Checkpoint, RunMoved, RunsPruned
from runner.errors import NotFound, StoreCorrupt
from runner.store.artifacts import Artifacts
from runner.store.ended import EndedItems
from runner.store.facts import ChainFault, RunView
from runner.store.log import SITE, ChainCheck, StoredRow, decode, elsewhere, first_hash
from runner.store.notary import Noted, anchor_faults
from runner.store.signing import checkpoint_statement, is_signed
from runner.store.tables import log, meta, runs
from runner.store.views import STORED, log_end, stored

_PAGE = 400
Fault = tuple[str, str]
"""What is wrong, and the key where nothing else is."""
_SITE_HEADS = select(log.c.seq, log.c.hash).where(log.c.run_id == SITE)
HOW = (
    "hash = SHA-256 of: previous hash, digest, seq, at, type, then run, step and external_id each as length:text, one "
    "a line. digest = SHA-256(salt + data). The hash before the first entry is the SHA-256 of the run id. An entry "
    "without data was erased; its digest remains."
)


class Audit(EndedItems):
    """Views, and the means to prove them."""

    own_key: str = ""
    """The public key that this state folder signs with; empty where it has none."""

    def verify(self, run: str = "", keys: Collection[str] = ()) -> Sequence[ChainFault]:
        """The first fault of every chain that does not hold; of one run, or of all and `_site`, with every signature.
        `keys` are public keys of other machines (or of earlier ones) that write this log. Raises NotFound."""
        with self._read() as connection:
            end = log_end(connection, run or SITE)
            faults = self._check_page(connection, {run or SITE: (end.seq, end.hash)})
            if not run:
                for page in _pages(connection):
                    faults += self._check_page(connection, page)
                gone = _pruned(connection)
                faults += [*_strays(connection, gone), *_checkpoints(connection, gone)]
                faults += _unsigned(connection, {self.own_key, *keys} if self.own_key or keys else set())
        return [fault for fault in faults if fault is not None]

    def run(self, run: str) -> RunView:
        try:
            return super().run(run)
        except NotFound as lost:
            raise NotFound(f"{lost}{self._went(run)}") from None

    def _went(self, run: str) -> str:
        """What became of a run that is not there: it may have been removed after its time."""
        named = and_(log.c.type == "RunsPruned", log.c.data.contains(f'"{run}"', autoescape=True))
        gone = self._rows(select(log.c.at).where(log.c.run_id == SITE, named).limit(1)) if run else ()
        return f": it ended, and was removed after its time on {iso(gone[0].at)[:10]}" if gone else ""

    def noted(self, at: int) -> Noted:
        """Where the site's chain ends now, unsigned."""
        with self._read() as connection:
            end = log_end(connection, SITE)
            name, commit = connection.execute(select(meta.c.database_id, meta.c.commit_no)).one()
        return Noted(database=name, seq=end.seq, head=end.hash, commit=commit, at=at)

    def anchor_faults(self, noted: str, name: str, keys: Collection[str] = ()) -> Sequence[ChainFault]:
        """What the anchors in a text say against the log; `name` is what the text is called."""
        with self._read() as connection:
            database = connection.execute(select(meta.c.database_id)).scalar_one()
            heads = [(row.seq, row.hash) for row in connection.execute(_SITE_HEADS)]
        known = {self.own_key, *keys} if self.own_key or keys else set()
        return list(anchor_faults(noted, name, database, heads, known))

    def gaps(self) -> dict[str, int]:
        """How many entries were `erased`, and how many runs `pruned` after their time."""
        with self._read() as connection:
            erased = connection.execute(select(func.count()).where(log.c.data.is_(None))).scalar_one()
            return {"erased": erased, "pruned": len(_pruned(connection))}

    def _check_page(self, connection: Connection, page: Mapping[str, tuple[int, str]]) -> list[ChainFault | None]:
        checks = {run: ChainCheck(run) for run in page}
        rows = connection.execution_options(yield_per=500).execute(
            STORED.where(log.c.run_id.in_(list(page))).order_by(log.c.run_id, log.c.seq)
        )
        for run, mine in groupby(rows, key=lambda row: str(row.run_id)):
            check = checks[run]
            for found in mine:
                row = stored(found)
                check.follow(row)
                if check.fault is None:
                    check.fault = _artifact_fault(self.artifacts, run, row)
        return [checks[run].end(seq, head) for run, (seq, head) in page.items()]

    def export(self, run: str) -> dict[str, Any]:
        """An evidence pack of one run: JSON that `log.check_pack` (or anybody who reads `how`) can verify alone."""
        with self._read() as connection:
            head = connection.execute(select(runs).where(runs.c.run_id == run)).first()
            if head is None:
                raise NotFound(f"there is no run {run}")
            rows = [stored(row) for row in connection.execute(STORED.where(log.c.run_id == run).order_by(log.c.seq))]
            database = connection.execute(select(meta.c.database_id)).scalar_one()
        return {
            "format": "amends-evidence-1",
            "how": HOW,
            "database": database,
            "first_hash": first_hash(run),
            "run": dict(head._mapping),
            "log": [row._asdict() for row in rows],
            "artifacts": dict(self._named_artifacts(rows)),
            "effects": [asdict(effect) for effect in self.effects(run)],
            "handoffs": [asdict(handoff) for handoff in self.handoffs(run=run, open_only=False)],
            "bundle": dict(self._bundle_if_kept(head.bundle)),
            "versions": {name: dict(self._bundle_if_kept(name)) for name in _left_versions(rows)},
        }

    def site_rows(self, run: str) -> dict[str, Any]:
        """The site's chain from the first checkpoint that remembers a run (`rows`), and what it begins and ends with
        (`about`). What other entries say is left out."""
        names = and_(log.c.type == "Checkpoint", log.c.data.contains(f'"{run}"', autoescape=True))
        with self._read() as connection:
            end = log_end(connection, SITE)
            first = connection.execute(select(func.min(log.c.seq)).where(log.c.run_id == SITE, names)).scalar()
            asked = STORED.where(log.c.run_id == SITE, log.c.seq >= (first or end.seq + 1) - 1).order_by(log.c.seq)
            found = [stored(row) for row in connection.execute(asked)] if first else []
        before = found.pop(0).hash if found and found[0].seq < (first or 0) else first_hash(SITE)
        rows = [
            row if row.type == "Checkpoint" and f'"{run}"' in (row.data or "") else row._replace(salt=None, data=None)
            for row in found
        ]
        about = {"previous": before, "seq": end.seq, "head": end.hash}
        return {"rows": [row._asdict() for row in rows], "about": about}

    def _bundle_if_kept(self, digest: str) -> Mapping[str, str]:
        try:
            return self.bundle(digest)
        except NotFound:
            return {}

    def _named_artifacts(self, rows: Sequence[StoredRow]) -> Iterator[tuple[str, str]]:
        for row in rows:
            if digest := elsewhere(row):
                yield digest, self.artifacts.get(digest).decode()


def _left_versions(rows: Sequence[StoredRow]) -> list[str]:
    """The versions of its flow that the run was on before it was moved, by digest."""
    moves = (decode(row) for row in rows if row.type == "RunMoved")
    return list(dict.fromkeys(move.before for move in moves if isinstance(move, RunMoved)))


def _pages(connection: Connection) -> Iterator[dict[str, tuple[int, str]]]:
    last = ""
    while True:
        rows = connection.execute(
            select(runs.c.run_id, runs.c.seq, runs.c.head)
            .where(runs.c.run_id > last)
            .order_by(runs.c.run_id)
            .limit(_PAGE)
        ).all()
        if not rows:
            return
        yield {row.run_id: (row.seq, row.head) for row in rows}
        last = rows[-1].run_id


def _artifact_fault(artifacts: Artifacts, run: str, row: StoredRow) -> ChainFault | None:
    digest = elsewhere(row)
    if not digest:
        return None
    try:
        artifacts.get(digest)
    except (NotFound, StoreCorrupt) as fault:
        return ChainFault(run=run, seq=row.seq, what=f"the content of entry {row.seq} cannot be read: {fault}")
    return None


def _pruned(connection: Connection) -> dict[str, tuple[int, str]]:
    """The runs that were removed after their time, and where their logs ended."""
    gone: dict[str, tuple[int, str]] = {}
    for row in connection.execute(STORED.where(log.c.run_id == SITE, log.c.type == "RunsPruned")):
        event = decode(stored(row))
        if isinstance(event, RunsPruned):
            gone |= {run: (seq, head) for run, (seq, head) in event.data["runs"].items()}
    return gone


def _strays(connection: Connection, gone: Mapping[str, tuple[int, str]]) -> list[ChainFault]:
    """Entries of runs that are not there."""
    known = exists().where(runs.c.run_id == log.c.run_id)
    lost = connection.execute(select(log.c.run_id).where(~known, log.c.run_id != SITE).distinct()).scalars()
    what = "there is a log of run {}, and the run is not in the list of runs"
    return [ChainFault(run=name, seq=0, what=what.format(name)) for name in lost if name not in gone]


def _unsigned(connection: Connection, keys: Collection[str]) -> Iterator[ChainFault]:
    """Checkpoints that bear no signature, or not one of ours. Those of before signatures began have none."""
    previous, began = first_hash(SITE), False
    asked = select(log.c.seq, log.c.type, log.c.hash, log.c.data).where(log.c.run_id == SITE).order_by(log.c.seq)
    for row in connection.execution_options(yield_per=500).execute(asked):
        if row.type == "Checkpoint":
            what, key = _why_unsigned(row.seq, previous, row.data, keys, began=began)
            began = began or '"signature":"' in (row.data or "")
            if what:
                yield ChainFault(run=SITE, seq=row.seq, what=f"checkpoint {row.seq} {what}", unknown_key=key)
        previous = row.hash


def _why_unsigned(seq: int, previous: str, data: str | None, keys: Collection[str], *, began: bool) -> Fault:
    """Empty where a checkpoint is as it should be."""
    try:
        said = json.loads(data or "")["data"]
        key, signature = said.get("key", ""), said.get("signature", "")
        statement = checkpoint_statement(seq, previous, said["commit"], said["heads"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return "cannot be read", ""
    if not signature:
        return "bears no signature, though earlier ones do" if began else "", ""
    if not is_signed(statement, key, signature):
        return "was not signed as it stands there", ""
    if keys and key not in keys:
        return (
            f"is signed with the key {key}, which is not this installation's; if another machine writes this log, or "
            "this state folder replaced one, name it in amends.yaml under `anchors: keys`"
        ), key
    return "", ""


def _checkpoints(connection: Connection, gone: Mapping[str, tuple[int, str]]) -> Iterator[ChainFault]:
    """Compares the heads that checkpoints remember: finds a whole run or the end of one gone.

    A run that was pruned ended where the last checkpoint remembers it, or after that.
    """
    told: set[str] = set()
    rows = connection.execute(STORED.where(log.c.run_id == SITE, log.c.type == "Checkpoint").order_by(log.c.seq)).all()
    for row in rows:
        event = decode(stored(row))
        if not isinstance(event, Checkpoint):
            continue
        heads: dict[str, list[Any]] = event.data["heads"]
        pairs = [(run, seq) for run, (seq, _) in heads.items()]
        asked = select(log.c.run_id, log.c.hash).where(tuple_(log.c.run_id, log.c.seq).in_(pairs))
        there = {found.run_id: found.hash for found in connection.execute(asked)}
        for run, (seq, head) in heads.items():
            is_pruned = run in gone and (seq < gone[run][0] or (seq, head) == gone[run])
            if there.get(run) != head and not is_pruned and run not in told:
                told.add(run)
                what = f"entry {seq} is missing or not the one that checkpoint {row.seq} remembers"
                yield ChainFault(run=run, seq=seq, what=what)
