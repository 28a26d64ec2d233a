"""One outside call between an intent fact and an outcome fact."""

from __future__ import annotations

import asyncio
from typing import cast

from runner.contract import Connector, Outcome, Purpose, Request
from runner.core import events as e
from runner.core.state import Call, CallName

LATEST_START = 2_000
"""ms between the intent and the first byte; past it the call is not sent."""


async def perform(connector: Connector, intent: e.CallIntended, request: Request) -> Outcome:
    """Sends it once. Whatever happens here is an outcome: being cancelled and raising are `unknown`."""
    action = intent.action.partition(".")[2]
    try:
        purpose = cast("Purpose", intent.purpose)
        return await connector.send(action, request, key=intent.key, purpose=purpose, limit=intent.limit)
    except asyncio.CancelledError:
        return Outcome(result="unknown", reason="interrupted", summary="The engine was stopped before an answer came.")
    except Exception as error:  # noqa: BLE001 - whatever a connector raises, a byte may have left
        summary = f"The connector broke off: {type(error).__name__}."
        return Outcome(result="unknown", reason="unknown", summary=summary)


def outcome_event(intent: e.CallIntended, outcome: Outcome, at: int) -> e.OutcomeEvent:
    """The fact an outcome is recorded as."""
    if outcome.result == "applied":
        return e.CallApplied(
            at=at, step=intent.step, purpose=intent.purpose, part=intent.part, generation=intent.generation,
            attempt=intent.attempt, output=outcome.output, external_id=outcome.external_id, count=outcome.count,
        )  # fmt: skip
    if outcome.result == "refused":
        return e.CallRefused(
            at=at, step=intent.step, purpose=intent.purpose, part=intent.part, generation=intent.generation,
            attempt=intent.attempt, reason=outcome.reason, summary=outcome.summary, retry_after=outcome.retry_after,
            evidence=outcome.evidence,
        )  # fmt: skip
    if outcome.result == "not_sent":
        return e.CallNotSent(
            at=at, step=intent.step, purpose=intent.purpose, part=intent.part, generation=intent.generation,
            attempt=intent.attempt, reason=outcome.reason, summary=outcome.summary, retry_after=outcome.retry_after,
        )  # fmt: skip
    return e.CallUnknown(
        at=at, step=intent.step, purpose=intent.purpose, part=intent.part, generation=intent.generation,
        attempt=intent.attempt, reason=outcome.reason, summary=outcome.summary, evidence=outcome.evidence,
        retry_after=outcome.retry_after,
    )  # fmt: skip


def late_evidence(event: e.OutcomeEvent) -> e.EvidenceLate:
    """An outcome whose attempt has one already: kept beside it."""
    results = {e.CallApplied: "applied", e.CallRefused: "refused", e.CallNotSent: "not_sent", e.CallUnknown: "unknown"}
    return e.EvidenceLate(
        at=event.at, step=event.step, external_id=event.external_id, purpose=event.purpose, part=event.part,
        generation=event.generation, attempt=event.attempt, result=results[type(event)],
        summary=getattr(event, "summary", ""), output=getattr(event, "output", {}),
    )  # fmt: skip


def taken_over(call: CallName, found: Call, at: int, *, is_own: bool) -> e.OutcomeEvent:
    """The outcome of an attempt whose engine is gone: a byte may have left, nobody knows.

    An action on our own tables (`is_own`) would have been recorded in the transaction that did it, so it was not done.
    """
    if is_own:
        return not_begun(call, found, at)
    path, purpose, part = call
    return e.CallUnknown(
        at=at, step=path, purpose=purpose, part=part, generation=found.generation, attempt=found.attempt,
        reason="interrupted", take_over=True,
        summary="The engine that made this call was stopped before its answer was recorded.",
    )  # fmt: skip


def not_begun(call: CallName, found: Call, at: int) -> e.CallNotSent:
    """The outcome of an attempt that was intended and provably never begun."""
    path, purpose, part = call
    return e.CallNotSent(
        at=at, step=path, purpose=purpose, part=part, generation=found.generation, attempt=found.attempt,
        reason="interrupted", summary="The engine was stopped before it was done.",
    )  # fmt: skip
