"""Records that were set aside: a person lets them count again, or discards them."""

from __future__ import annotations

from runner.core.events import QuarantineDiscarded, QuarantineReleased
from runner.errors import NotFound
from runner.store.facts import Store


async def answer_quarantine(
    store: Store, run: str, record: str, *, by: str, reason: str, discard: bool, now: int
) -> None:
    """Releases a record that a run set aside, or discards it. Raises NotFound where it is not set aside (any more)."""
    if not any((each.run, each.record) == (run, record) for each in store.quarantined()):
        raise NotFound(f"{record} of run {run} is not set aside (any more)")
    kind = QuarantineDiscarded if discard else QuarantineReleased
    await store.report(run, kind(at=now, record=record, by=by, reason=reason))
