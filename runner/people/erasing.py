"""Erasing what is known about a record, run by run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.contract import Json
from runner.errors import NotPossible
from runner.store.erase import Finding, drop_records, find, unnamed
from runner.store.log import SITE
from runner.store.sql import SqlStore

EMPTIED = 50
"""How often it is tried to empty the write-ahead file, a tenth of a second apart: a reader can hold it up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasing:
    """What a person asks to be erased. `also_open`: runs that have not ended too, which then cannot go on by
    themselves. `with_records`: what our own tables hold about it too."""

    record: str
    by: str
    reason: str = ""
    also_open: bool = False
    with_records: bool = False


def what_is_held(finding: Finding) -> dict[str, Any]:
    """A finding as JSON: how many entries of which runs hold personal data, and what else does."""
    return {
        "record": finding.record,
        "runs": [
            {"run": held.run, "status": held.status, "entries": len(held.seqs), "open": not held.has_ended}
            for held in finding.held
            if held.run != SITE
        ],
        "site_entries": sum(len(held.seqs) for held in finding.held if held.run == SITE),
        "records": [f"{collection}/{name}" for collection, name in finding.records],
    }


async def erase(store: SqlStore, wish: Erasing, now: int, wake: Callable[[str], None]) -> Mapping[str, Json]:
    """Erases it; answers what was held, and whether the write-ahead file is `clean`. Raises NotPossible."""
    finding = await asyncio.to_thread(find, store, wish.record)
    _refuse_open(finding, wish)
    for held in finding.held:
        events = held.events(at=now, by=wish.by, reason=wish.reason)
        await store.erase(held.run, *events, personal=held.personal, token=finding.token)
        if not held.has_ended:
            wake(held.run)
    if wish.with_records:
        await store.write(lambda connection: drop_records(connection, finding.records))
    for digest in await asyncio.to_thread(unnamed, store, finding.files):
        store.artifacts.drop(digest)
    is_clean = False
    for _ in range(EMPTIED):
        if is_clean := (await store.tidy()).is_clean:
            break
        await asyncio.sleep(0.1)
    return {**what_is_held(finding), "clean": is_clean}


def _refuse_open(finding: Finding, wish: Erasing) -> None:
    going = [held for held in finding.held if not held.has_ended]
    if going and not wish.also_open:
        runs = ", ".join(f"{held.run} ({held.status})" for held in going[:3]) + (", …" if len(going) > 3 else "")
        raise NotPossible(
            f"nothing was erased: {runs} on {finding.record} has not ended; stop it first (amends runs stop "
            f"{going[0].run}), or say --also-open: then it cannot go on by itself, and its owner is handed what stands"
        )
