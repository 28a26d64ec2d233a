"""One connection to a real server, called as the engine calls it; nothing of its secrets may show anywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from connectors.declarative import kind_from_text, shipped
from connectors.rendering import answered
from runner.contract import Connector, ConnectorKind, Json, Outcome, Purpose
from tests.connectors.tools import Hands, forms
from tests.support.fault_proxy import Fault, FaultProxy

LIMIT = 8_000
HASTE = 1_500
"""ms that a call may take where its answer is not to come."""
FAULTS: tuple[Fault, ...] = ("refused", "unavailable", "limited", "slow", "late", "lost")
HAPPENS = ("late", "lost")
"""The faults behind which the effect is there."""


def shipped_kind(name: str) -> ConnectorKind:
    """The kind of a file that comes with Amends."""
    kind, problems = kind_from_text(shipped()[name], f"connectors/{name}.yaml")
    assert kind is not None, problems
    return kind


class Bench:
    """Calls of one connection. `secrets` are looked for in everything that is kept or said."""

    def __init__(self, connector: Connector, secrets: Mapping[str, str]) -> None:
        self.connector = connector
        self.applied: set[str] = set()
        self._secrets = secrets

    async def call(
        self, action: str, given: Mapping[str, Json], key: str = "am_key", purpose: Purpose = "do", limit: int = LIMIT
    ) -> Outcome:
        """One call; the same key and input make the same request."""
        request = self.connector.prepare(action, given, key=key, purpose=purpose)
        again = self.connector.prepare(action, given, key=key, purpose=purpose)
        assert request.hash == again.hash
        outcome = await self.connector.send(action, request, key=key, purpose=purpose, limit=limit)
        said = json.dumps(request.body) + str(outcome)
        for name, value in self._secrets.items():
            assert not any(form in said for form in forms(value)), f"{name} shows in what is kept of {action}"
        return outcome

    async def done(
        self, action: str, given: Mapping[str, Json], key: str = "am_key", purpose: Purpose = "do"
    ) -> Outcome:
        """The same, which must be applied."""
        outcome = await self.call(action, given, key, purpose)
        assert outcome.result == "applied", (action, outcome)
        self.applied |= {action} if purpose in ("do", "read", "undo") else set()
        return outcome

    async def undone(self, action: str, given: Mapping[str, Json], outcome: Outcome) -> Outcome:
        """The action's own undo, made out of what it was given and what it answered."""
        said = self.connector.actions[action]
        assert said.undo is not None
        every = {**dict.fromkeys(said.input), **given}
        values = answered(dict(said.undo.with_), {"input": every, "output": outcome.output})
        found = await self.done(said.undo.action, values, "am_undo", "undo")
        return found


@asynccontextmanager
async def bench(
    kind: ConnectorKind, folder: Path, line: Mapping[str, Any], secrets: Mapping[str, str]
) -> AsyncIterator[Bench]:
    """A connection with these settings and secrets (by their names)."""
    connector = kind.connect("ours", {"allow_private": True, **line}, Hands(folder, secrets))
    try:
        yield Bench(connector, secrets)
    finally:
        await connector.close()


async def honest(
    proxy: FaultProxy, one: Bench, action: str, given: Mapping[str, Json], *, fault: Fault, match: str
) -> Outcome:
    """Calls with one fault before the server, and holds what is said against what can be so: the effect is there exactly
    for the faults of `HAPPENS`, and nothing that is said excludes it. What the server has is for the caller to count."""
    proxy.clear()
    proxy.plan(match, fault)
    outcome = await one.call(action, given, f"am_{fault}", limit=HASTE)
    assert [did for _, did in proxy.seen if did] == [fault], "the fault was not met, or met twice"
    if one.connector.actions[action].effect == "read":
        assert outcome.result != "applied", outcome
    elif fault in HAPPENS or fault == "slow":
        assert outcome.result == "unknown", outcome
    elif fault == "limited":
        assert (outcome.result, outcome.reason, outcome.retry_after) == ("refused", "rate_limited", 1_000), outcome
    else:
        assert outcome.result in ("unknown", "not_sent"), outcome
        assert fault != "unavailable" or outcome.retry_after == 1_000, outcome
    return outcome
