"""Small builders for the store's tests: runs, events and appends, with only what a test is about written out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from runner.contract import Json
from runner.core.events import CallApplied, CallIntended, CallRefused, Event, RunStarted
from runner.store.facts import Append, EffectChange, HandOffChange, LogEnd, NewRun, RunColumns
from runner.store.sql import SqlStore

T = TypeVar("T")
BUNDLE = "b" * 64


class TurnedClock:
    """A clock that stands until it is turned."""

    def __init__(self, at: int = 1_788_220_800_000) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    def turn(self, ms: int) -> None:
        self.at += ms


def act(work: Coroutine[Any, Any, T]) -> T:
    """Runs one coroutine to its end."""
    return asyncio.run(work)


def started(run: str, *, at: int = 1_000, inputs: Mapping[str, Json] | None = None) -> RunStarted:
    return RunStarted(
        at=at, run=run, flow="signup", mode="live", bundle=BUNDLE, inputs=inputs or {"email": "ada@a.test"}
    )


def new_run(
    run: str,
    *,
    key: str = "",
    at: int = 1_000,
    rerun: int = 0,
    flow: str = "signup",
    mode: str = "live",
    record: str = "",
    digest: str = "d1",
    receipt: tuple[str, str] | None = None,
    inputs: Mapping[str, Json] | None = None,
    bundle: str = BUNDLE,
) -> NewRun:
    return NewRun(
        run=run,
        flow=flow,
        mode=mode,
        run_key=key or f"key of {run}",
        rerun=rerun,
        bundle=bundle,
        title="Sign-up",
        owner="team:sales",
        record=record,
        inputs_digest=digest,
        event=started(run, at=at, inputs=inputs),
        receipt=receipt,
        starter="person:ada",
    )


def columns(status: str = "running", **more: Any) -> RunColumns:
    return RunColumns(status=status, **{"phase": "forward", **more})


def intended(
    attempt: int = 1, *, step: str = "contact", at: int = 2_000, purpose: str = "do", **more: Any
) -> CallIntended:
    words = {"action": "crm.create", "key": "k", "request_hash": "h", **more}
    return CallIntended(at=at, step=step, purpose=purpose, attempt=attempt, **words)


def applied(
    attempt: int = 1, *, step: str = "contact", at: int = 3_000, purpose: str = "do", **more: Any
) -> CallApplied:
    words = {"output": {"id": f"c-{attempt}"}, "external_id": f"c-{attempt}", **more}
    return CallApplied(at=at, step=step, purpose=purpose, attempt=attempt, **words)


def refused(attempt: int = 1, *, step: str = "contact", at: int = 3_000) -> CallRefused:
    return CallRefused(at=at, step=step, purpose="do", attempt=attempt, reason="conflict")


def append(
    store: SqlStore,
    run: str,
    end: LogEnd,
    *events: Event,
    told: RunColumns | None = None,
    fence: int | None = None,
    effects: tuple[EffectChange, ...] = (),
    handoffs: tuple[HandOffChange, ...] = (),
    **locks: Any,
) -> Append:
    return Append(
        run=run,
        seq=end.seq,
        fence=store.fence() if fence is None else fence,
        events=events,
        columns=told or columns(),
        previous_hash=end.hash,
        effects=effects,
        handoffs=handoffs,
        **locks,
    )


async def begun(store: SqlStore, run: str, *events: Event, told: RunColumns | None = None, **more: Any) -> LogEnd:
    """A run with these events after its start; where its log ends."""
    await store.start(new_run(run, **more))
    end = store.log_end(run)
    return await store.append(append(store, run, end, *events, told=told)) if events or told else end


def effect(start_no: int, disposition: str = "pending", **more: Any) -> EffectChange:
    words: dict[str, Any] = {"path": f"step{start_no}", "part": 0, "action": "crm.create", **more}
    return EffectChange(start_no=start_no, disposition=disposition, **words)  # type: ignore[arg-type]


def handoff(name: str, status: str = "open", **more: Any) -> HandOffChange:
    words: dict[str, Any] = {
        "step": "contact", "kind": "unknown", "owner": "team:sales", "opened_at": 5_000, "choices": ("happened", "did_not"),
        **more,
    }  # fmt: skip
    return HandOffChange(handoff=name, status=status, **words)  # type: ignore[arg-type]
