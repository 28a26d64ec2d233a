"""Cleaning up after a stopped run: one linked run that goes on where the stopped one left off."""

from __future__ import annotations

from runner.clock import iso
from runner.contract import digest
from runner.core import events as e
from runner.core.state import State
from runner.engine.starting import new_run_id
from runner.errors import AlreadySo, NotPossible
from runner.people.operations import Order
from runner.store.facts import NewRun, Started, Store
from runner.tongue import _


async def start_clean_up(store: Store, state: State, order: Order, *, now: int) -> Started:
    """The one linked run that goes on where a stopped run left off; that run's status stays.

    `order` is `compensate` or `take_over`. Raises AlreadySo or NotPossible where there was a wish before.
    """
    run = new_run_id(now)
    key = f"clean-up/{state.run}"
    started = e.RunStarted(
        at=now, run=run, flow=state.flow, mode=state.mode, bundle=state.bundle, owner=state.owner, record=state.record,
        run_key=key, starter=order.by, continues=state.run, trigger={"id": key, "at": iso(now), "by": order.by},
        clean_up=order.action,
    )  # fmt: skip
    begun = await store.start(
        NewRun(
            run=run, flow=state.flow, mode=state.mode, run_key=key, rerun=0, bundle=state.bundle,
            title=f"Clean-up after {state.run}", owner=state.owner, record=state.record, inputs_digest=digest(key),
            event=started, starter=order.by, continues=state.run,
        )
    )  # fmt: skip
    if not begun.joined:
        return begun
    first, name = store.log(begun.run, limit=1)[0].event, order.action.replace("_", "-")
    kind = AlreadySo if isinstance(first, e.RunStarted) and first.clean_up == order.action else NotPossible
    raise kind(_(
        "run {other} ({status}) cleans up after run {run} already; to {action} what is left, "
        "`amends runs {action} {other}`",
        other=begun.run, status=_(begun.status), run=state.run, action=name,
    ))  # fmt: skip
