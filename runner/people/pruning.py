"""Removing ended runs after their time: by hand, and by itself while an engine runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from runner.clock import Clock
from runner.errors import AmendsError, StoreUnwritable
from runner.language.load import load_flow
from runner.language.project import Project
from runner.store.erase import unnamed
from runner.store.prune import (
    Keep,
    drop_bundles,
    drop_entries,
    due,
    files_of,
    forget_receipts,
    pieces,
    unfinished,
    unused_bundles,
)
from runner.store.sql import SqlStore

log = logging.getLogger("amends.pruning")
BY_ITSELF = "amends"
FIRST, EVERY = 60.0, 3600.0
"""Seconds after which an engine that runs removes what is due for the first time, and then each time again."""

BETWEEN = 0.05
"""Seconds between two portions, so that runs under way are not kept waiting."""
PAGES = 512
"""Free pages that are given back to the disk at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What one pass removed. `note` is one sentence where the disk could not be given back what it took."""

    runs: int = 0
    entries: int = 0
    note: str = ""


def keep_of(project: Project) -> Keep:
    """How long each flow's runs are kept, by its present file; runs of a file that cannot be read stay."""
    flows: dict[str, int] = {}
    unread: set[str] = set()
    for path in project.flow_files():
        flow, _, _ = load_flow(path.read_text(encoding="utf-8", errors="replace"), path.name, project.read_file)
        if flow is None:
            unread.add(path.stem)
        elif flow.keep is not None:
            flows[flow.id] = flow.keep.ms
    return Keep(other=project.settings.keep.ms, flows=flows, unread=frozenset(unread))


async def prune(store: SqlStore, keep: Keep, by: str, now: int, *, whole: bool = False) -> Pruned:
    """One pass: portion after portion, with pauses. `whole`: a file that cannot give its free pages back is built
    anew, which takes a while in which nothing else is written. Raises StoreUnwritable."""
    done = Pruned()
    await _remove(store, await asyncio.to_thread(unfinished, store))
    while (portion := await asyncio.to_thread(due, store, keep, now)).ends:
        gone = await store.prune(portion, by)
        if not gone:
            break
        await _remove(store, [run for run, _, _ in portion.ends])
        done = replace(done, runs=done.runs + gone, entries=done.entries + portion.entries)
        await store.tidy(pages=PAGES)
        await asyncio.sleep(BETWEEN)
    await store.write(lambda connection: forget_receipts(connection, now))
    unused = await asyncio.to_thread(unused_bundles, store, store.bundles_in_use)
    if unused:
        await store.write(
            lambda connection: None if store.has_company(connection) else drop_bundles(connection, unused)
        )
    return replace(done, note=await _give_back(store, whole=whole))


async def _give_back(store: SqlStore, *, whole: bool) -> str:
    """Gives free pages back to the disk, page by page or (`whole`) by building a file anew that cannot; or why not."""
    tidied, before = await store.tidy(pages=PAGES), 0
    if not tidied.by_pieces and tidied.free and whole:
        try:
            tidied = await store.tidy(whole=True)
        except StoreUnwritable as refused:
            return str(refused)
    while tidied.by_pieces and tidied.free and tidied.free != before:
        await asyncio.sleep(BETWEEN)
        before, tidied = tidied.free, await store.tidy(pages=PAGES)
    return "" if tidied.is_clean else "somebody reads the database, so the disk has it back once that has ended"


async def _remove(store: SqlStore, gone: Sequence[str]) -> None:
    """The files and the entries of runs that were pruned."""
    if not gone:
        return
    own, named = await asyncio.to_thread(files_of, store, gone)
    for digest in own:
        store.artifacts.drop(digest)
    for wanted in await asyncio.to_thread(lambda: list(pieces(store, gone))):
        await store.write(partial(drop_entries, wanted=wanted))
        if store.is_short:
            await store.tidy(pages=PAGES)
    for digest in await asyncio.to_thread(unnamed, store, sorted(named)):
        store.artifacts.drop(digest)


async def prune_by_itself(store: SqlStore, project: Callable[[], Project], clock: Clock) -> None:
    """Until it is cancelled: what is due goes, soon after the start and then each hour; what hinders it is logged."""
    pause = FIRST
    while True:
        await asyncio.sleep(pause)
        pause = FIRST if store.is_short else EVERY
        store.keep_reserve()
        try:
            if not await store.take_on("pruning"):
                continue
            await prune(store, await asyncio.to_thread(lambda: keep_of(project())), BY_ITSELF, clock.now())
        except (AmendsError, OSError) as error:
            log.error("ended runs could not be removed after their time: %s", error)
