"""Checkpoints: entries of the site's chain that tie the chains of runs together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runner.clock import MINUTE, Clock
from runner.core.events import Checkpoint
from runner.store.batch import Batch
from runner.store.log import encode
from runner.store.signing import Signer, checkpoint_statement

CHECKPOINT_COMMITS = 1_000
CHECKPOINT_RUNS = 400
CHECKPOINT_AFTER = 10 * MINUTE


class Untied:
    """Chains that no checkpoint has yet. Belongs to the writer's thread."""

    def __init__(self, clock: Clock, signer: Signer) -> None:
        self._clock = clock
        self._signer = signer
        self._changed: dict[str, tuple[int, str]] = {}
        self._changed_since: int | None = None

    def learn(self, changed: Iterable[tuple[str, int, str]]) -> None:
        """Chains that another writer has left so: (run, seq, hash)."""
        for run, seq, head in changed:
            self._changed.setdefault(run, (seq, head))
        if self._changed and self._changed_since is None:
            self._changed_since = self._clock.monotonic()

    def note(self, batch: Batch) -> None:
        """What a batch that was committed has changed."""
        if batch.site.checkpointed > batch.site.commit_no:
            self._changed, self._changed_since = {}, None
        self._changed |= {run: (head.seq, head.hash) for run, head in batch.heads.items()}
        if self._changed and self._changed_since is None:
            self._changed_since = self._clock.monotonic()

    def tie(self, batch: Batch, at_once: bool = False) -> None:
        """Ties the chains that changed until the last commit into the site's chain, when it is time."""
        if self._changed_since is None or (batch.is_empty and not batch.written and not at_once):
            return
        commits = batch.site.commit_no - batch.site.checkpointed
        age = self._clock.monotonic() - self._changed_since
        full = len(self._changed) >= CHECKPOINT_RUNS or commits >= CHECKPOINT_COMMITS or age >= CHECKPOINT_AFTER
        if not (full or at_once):
            return
        runs = list(self._changed.items())
        batch.read_site()
        for first in range(0, len(runs), CHECKPOINT_RUNS):
            heads = {run: [seq, head] for run, (seq, head) in runs[first : first + CHECKPOINT_RUNS]}
            site, signer = batch.site, self._signer
            said = checkpoint_statement(site.site_seq + 1, site.site_head, site.commit_no, heads)
            data = {"commit": site.commit_no, "heads": heads, "key": signer.public, "signature": signer.sign(said)}
            batch.add_site(encode(Checkpoint(at=batch.now, data=data)))
        batch.site = replace(batch.site, checkpointed=batch.site.commit_no + 1)
