"""What a suite leaves behind: the stored installation, and what its receivers truly did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import State, replace
from runner.language.bundle import Bundle, restore
from runner.store.facts import RunFilter, RunView
from runner.store.sql import SqlStore

EVERY_RUN = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the receivers truly did: how often each key (or the reference or Message-ID that stands for it) had its effect.

    `arrived`: keys of which bytes arrived at all, where the receivers know. `covers`: the connections that these
    receivers are behind; of the others nothing is concluded. `is_honest`: people said what is so.
    """

    effects: Mapping[str, int] = field(default_factory=dict)
    arrived: frozenset[str] | None = None
    covers: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    is_honest: bool = True


@dataclass(frozen=True, kw_only=True)
class Installation:
    """One store as it stands: each run's log, row of the runs table, effects; what the store says of itself."""

    logs: Mapping[str, tuple[e.Event, ...]]
    views: Mapping[str, RunView] = field(default_factory=dict)
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    unwitnessed: tuple[str, ...] = ()
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    is_shared: bool = False

    @classmethod
    def read(cls, store: SqlStore, *, now: int, bundles: Mapping[str, Bundle] | None = None) -> Installation:
        """All of it. `bundles`: those that the store has no texts of; None = all are made of the stored texts."""
        views = {view.run: view for view in store.runs(RunFilter(limit=EVERY_RUN))}
        logs = {run: tuple(row.event for row in store.log(run) if row.event is not None) for run in views}
        digests = {
            event.bundle for log in logs.values() for event in log if isinstance(event, e.RunStarted | e.RunMoved)
        }
        if bundles is None:
            bundles = {digest: restore(digest, store.bundle(digest)) for digest in digests}
        return cls(
            logs=logs, views=views, bundles=bundles,
            effects={run: tuple(each.disposition for each in store.effects(run)) for run in views},
            chain=tuple(f"run {fault.run}, entry {fault.seq}: {fault.what}" for fault in store.verify()),
            unwitnessed=tuple(store.without_witness(now)), is_shared=store.is_shared,
        )  # fmt: skip

    def state(self, run: str) -> State:
        """What the run's log means; a clean-up run begins where the other ended."""
        first = self.logs[run][0]
        before = self.state(first.continues) if isinstance(first, e.RunStarted) and first.continues else State()
        return fold_all(self.logs[run], replace(before, seq=0))
