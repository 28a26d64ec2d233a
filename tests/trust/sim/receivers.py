"""The services of the simulation: those of the laws, reached through connectors as the real engine reaches them.

An attempt is known by its durable intent: a call for which there is none left too early (I1).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runner.contract import Json, Outcome, Purpose, Request
from runner.core import events as e
from runner.language.bundle import Bundle
from tests.laws.world import Faults, RandomOutside, Touch

BREAKS_OFF, ANSWERS_SLOWLY = 2, 6
"""Per cent of the calls whose connector raises, and of those that take nearly all of their time."""


class Sender(Protocol):
    """The machine that a call leaves from."""

    fence: int

    def wait_for(self, ms: int) -> asyncio.Future[None]:
        """Done after so many ms of the world."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """An intent as the disk has it: of which run, how long its log is now, and since when it stands there."""

    run: str
    event: e.CallIntended
    length: int
    since: int


Durable = Callable[[str, str, int], Intent | None]
"""The newest intent with this key and purpose under this fence."""
LATEST = 2_000
"""ms after its intent in which a first byte may leave (I32)."""


class Services(RandomOutside):
    """All services of one run's bundle; counts what truly happened in `happened`."""

    def __init__(self, bundle: Bundle, rng: random.Random, faults: Faults, happened: Counter[str]) -> None:
        super().__init__(bundle, rng, faults)
        self.happened = happened
        self.is_calm = False
        self.wrong: list[str] = []

    def calm(self) -> None:
        super().calm()
        self.is_calm = True

    def ask(self, intent: e.CallIntended, request: Request, now: int, durable: int) -> tuple[Outcome | None, int]:
        """What becomes of one attempt, and after how many ms; None: the connector breaks off."""
        before, touched = len(self.ledger.landed), len(self.ledger.touches)
        answer = self.send(intent, request, now=now, durable=durable)
        outcome, after = answer.outcome, answer.after
        new = self.ledger.landed[before:]
        self._count(intent, outcome, bool(new), len(self.ledger.touches) > touched)
        if any(effect.at > now + after for effect in new):
            self.happened["the effect comes after the answer was given up"] += 1
        if self.is_calm:
            return outcome, after
        if self._happens(BREAKS_OFF):
            self.happened["the connector breaks off"] += 1
            return None, after
        if self._happens(ANSWERS_SLOWLY) and outcome.result != "not_sent":
            self.happened["the answer takes nearly all of its time"] += 1
            after = max(after, intent.limit - 1)
        return outcome, after

    def _count(self, intent: e.CallIntended, outcome: Outcome, is_new: bool, has_arrived: bool) -> None:
        match outcome.result, outcome.reason:
            case "not_sent", _:
                self.happened["nobody listens"] += 1
            case "refused", "rate_limited":
                self.happened["slow down"] += 1
            case "refused", "unavailable":
                self.happened["closed for repairs"] += 1
            case "refused", _:
                self.happened["a clear no"] += 1
            case "unknown", "already_there" | "in_progress":
                self.happened["the key was seen before"] += 1
            case "unknown", _ if intent.purpose in ("do", "undo"):
                self.happened["the answer is lost" if is_new else "the request is lost"] += 1
            case "unknown", _:
                self.happened["a question has no answer"] += 1
            case _:
                pass
        if intent.purpose == "find" and outcome.count and not outcome.external_id.endswith("-others"):
            self.happened["it is found to be there"] += 1
        elif intent.purpose == "find" and outcome.count:
            self.happened["somebody else's record is found"] += 1


class Line:
    """A connector of one connection on one machine."""

    def __init__(
        self, connection: str, services: Mapping[str, Services], mine: Services, sender: Sender, durable: Durable,
        now: Callable[[], int],
    ) -> None:  # fmt: skip
        self._connection = connection
        self._services = services
        self._mine = mine
        self._sender = sender
        self._durable = durable
        self._now = now

    def origin(self) -> str:
        """See `contract.Connector`."""
        return f"https://{self._connection}.example.test"

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: str) -> Request:
        """See `contract.Connector`. Raises RequestError."""
        try:
            request: Request = self._mine.connect(self._connection).prepare(action, input, key=key, purpose=purpose)
        except Exception:
            self._mine.happened["the request cannot be built"] += 1
            raise
        if self._mine.bundle.actions[f"{self._connection}.{action}"].own:
            return Request.of({"own": f"{self._connection}.{action}", "input": dict(input)})
        return request

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """See `contract.Connector`."""
        found = self._durable(key, purpose, self._sender.fence)
        if found is None:
            self._mine.wrong.append(f"I1: {action}/{purpose} left, and no intent of its engine is on the disk")
            return Outcome(result="unknown", reason="timeout", summary="nobody knows this call")
        services, late = self._services[found.run], self._now() - found.since
        if late > LATEST:
            services.wrong.append(f"I32: {action}/{purpose} left {late} ms behind its intent")
        outcome, after = services.ask(found.event, request, self._now(), found.length)
        await self._sender.wait_for(after)
        if outcome is None:
            raise RuntimeError("the connector broke off")
        return outcome


def arrived(services: Services) -> frozenset[str]:
    """The keys of writing calls of which bytes arrived."""
    touches: list[Touch] = services.ledger.touches
    return frozenset(touch.intent.key for touch in touches if touch.intent.purpose in ("do", "undo"))
