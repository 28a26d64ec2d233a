"""Taking a database over, or joining those that write to it: the fence, the anchor, whether it was put back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, func, select, update

from runner.clock import Clock
from runner.core.events import Restored
from runner.store.anchor import Anchor, keep_anchor, read_anchor, reserved, why_elsewhere, why_restored
from runner.store.batch import Batch
from runner.store.database import Database
from runner.store.log import encode
from runner.store.shared import Shared
from runner.store.site import Site, read_site
from runner.store.statements import statements
from runner.store.tables import meta, runs

Changed = list[tuple[str, int, str]]
"""Chains that no checkpoint has yet: (run, seq, hash)."""


def take_over(
    connection: Connection, file: Database, place: Path, clock: Clock, shared: Shared | None, put_back: str = ""
) -> tuple[Site, Anchor, Changed]:
    """Raises the fence, reserves commit numbers, and notices a database that was put back from a copy, or is one.

    `put_back` says that it was, whatever the anchor says.
    """
    known = read_anchor(place)
    # Whoever copies the folder copies the file in it; a server's database is where it was.
    elsewhere = "" if shared is not None else why_elsewhere(known, place)
    with connection.begin():
        if shared is None:
            site, why = _alone(connection, known)
            why = put_back or why or elsewhere
        else:
            site, why = _among_others(connection, known, file, shared)
        from_here = max(site.commit_no, known.end) if known and why else site.commit_no
        anchor = reserved(site.database_id, from_here, site.fence)
        keep_anchor(place, anchor)
        if shared is None:
            connection.execute(update(meta).values(fence=site.fence, commit_no=from_here))
        else:
            shared.skip(connection, from_here)
        batch = Batch(
            connection=connection, cursor=connection.connection.cursor(), words=statements(file),
            site=replace(site, commit_no=from_here), now=clock.now(), shared=shared,
        )  # fmt: skip
        if why:
            since = connection.execute(select(func.max(runs.c.updated_at))).scalar() or 0
            told = {"why": why, "commit": site.commit_no, "since": since, "whole": why == elsewhere}
            batch.add_site(encode(Restored(at=batch.now, data=told)))
            batch.site = replace(batch.site, restored_at=batch.now)
        batch.write()
        changed = _untied(connection, site)
        if shared is not None:  # what was left is tied by this engine; it counts its own from here on
            connection.execute(update(meta).values(checkpointed=site.commit_no))
            number = shared.begin(batch.cursor) or from_here + 1
            batch.site = replace(batch.site, commit_no=number - 1, checkpointed=number - 1)
        site = batch.seal()
    return site, anchor, changed


def _alone(connection: Connection, known: Anchor | None) -> tuple[Site, str]:
    site = read_site(connection)
    why = why_restored(known, site.database_id, site.commit_no)
    return replace(site, fence=max(site.fence, known.fence if known else 0) + 1), why


def _among_others(connection: Connection, known: Anchor | None, file: Database, shared: Shared) -> tuple[Site, str]:
    """While others live the database is what it was, whatever this machine knows of it."""
    home = file.home(connection)
    site = shared.join(connection, known.fence if known else 0, home)
    if shared.others(connection):
        return site, ""
    if site.home and home and site.home != home:
        return site, f"the database was copied to another place ({home} instead of {site.home})"
    return site, "" if known is None else why_restored(known, site.database_id, site.commit_no)


def _untied(connection: Connection, site: Site) -> Changed:
    if site.commit_no - site.checkpointed <= 1:
        return []
    unseen = select(runs.c.run_id, runs.c.seq, runs.c.head).where(runs.c.commit_no > site.checkpointed)
    return [(row.run_id, row.seq, row.head) for row in connection.execute(unseen)]
