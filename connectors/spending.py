"""What a connection to a service that is paid by the token may spend: read from its settings, counted for each day.

What a request may cost at most is known before it leaves: its tokens are no more than its bytes, and its answer has a
limit. That much is set aside first, and what was really used is booked when the answer is here; what was set aside for
an answer that never came stays spent, since it may have been charged. Costs are millionths of the money of the prices.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass

from runner.clock import DAY, SECOND, MachineClock
from runner.contract import Json, Tools
from runner.errors import AmendsError, SettingsError
from runner.language.nearest import did_you_mean

_COUNTS: Mapping[str, int] = {"answer": 4_000, "call": 100_000, "asks": 3, "day": 0}
_MILLION = 1_000_000
MOST_ASKS = 10
PATIENCE = 2 * SECOND


class OverLimit(AmendsError):
    """It would cost more than is allowed; nothing was sent."""


class NotCounted(AmendsError):
    """What was spent so far cannot be read or written; nothing was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """Tokens, and what they cost in millionths."""

    tokens: int = 0
    cost: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """`answer`: tokens of one answer. `asks`: how often one call may ask. `call`, `call_cost`: of one call of an
    action, `day`, `day_cost`: of the connection in a day (UTC); 0 = no limit. `price` is (before, after) for a million
    tokens."""

    answer: int
    asks: int
    call: int
    day: int
    call_cost: int = 0
    day_cost: int = 0
    price: tuple[float, float] | None = None

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Json]) -> Limits:
        """Raises SettingsError."""
        told, price = settings.get("limits") or {}, settings.get("price")
        costs = ("call_cost", "day_cost")
        for word, value in _map(name, "limits", told, (*_COUNTS, *costs)).items():
            if word in _COUNTS and (not isinstance(value, int) or value < 1):
                raise SettingsError(f"{name}: limits: {word} must be a whole number from 1, not {value}")
            if word == "asks" and value > MOST_ASKS:
                raise SettingsError(f"{name}: limits: asks must be {MOST_ASKS} at most, not {value}")
            if word in costs and price is None:
                example = "price: { input: 3, output: 15 } for a million tokens"
                raise SettingsError(f"{name}: limits: {word} needs prices; write {example}")
        counts = {word: int(told.get(word, usual)) for word, usual in _COUNTS.items()}
        if counts["answer"] >= counts["call"]:
            what = f"answer ({counts['answer']:,}) must be less than call ({counts['call']:,})"
            raise SettingsError(f"{name}: limits: {what}, which counts the request too")
        prices = _map(name, "price", price, ("input", "output")) if price is not None else {}
        if price is not None and set(prices) != {"input", "output"}:
            raise SettingsError(f"{name}: price needs input and output, each for a million tokens")
        return cls(
            **counts,
            call_cost=round(told.get("call_cost", 0) * _MILLION),
            day_cost=round(told.get("day_cost", 0) * _MILLION),
            price=(prices["input"], prices["output"]) if prices else None,
        )

    def amount(self, before: int, after: int) -> Amount:
        """What so many tokens cost, rounded up."""
        each = self.price or (0, 0)
        return Amount(tokens=before + after, cost=math.ceil(before * each[0] + after * each[1]))

    def check_call(self, used: Amount, worst: Amount, left: int | None = None) -> None:
        """Raises OverLimit where the next request may take a call beyond its limits, or beyond what is `left`."""
        if left is not None and used.cost + worst.cost > left:
            what = f"may cost {money(used.cost + worst.cost)}, and {money(left)} is left for it"
            raise OverLimit(f"it {what} (limits: cost); nothing was sent")
        if used.tokens + worst.tokens > self.call:
            what = f"may take {used.tokens + worst.tokens:,} tokens with its answer, and a call may take {self.call:,}"
            raise OverLimit(f"it {what} (limits: call); nothing was sent")
        if self.call_cost and used.cost + worst.cost > self.call_cost:
            what = f"may cost {money(used.cost + worst.cost)}, and a call may cost {money(self.call_cost)}"
            raise OverLimit(f"it {what} (limits: call_cost); nothing was sent")


def _map(name: str, word: str, told: Json, known: tuple[str, ...]) -> Mapping[str, Json]:
    if not isinstance(told, Mapping):
        raise SettingsError(f"{name}: {word} must be a map of {', '.join(known)}")
    for key, value in told.items():
        if key not in known:
            raise SettingsError(f'{name}: {word} has no "{key}"; {did_you_mean(str(key), known, "there are")}')
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise SettingsError(f'{name}: {word}: {key} must be a number, not "{value}"')
    return told


def money(cost: int) -> str:
    """An amount as people write it: 0.05."""
    return f"{cost / _MILLION:.6f}".rstrip("0").rstrip(".")


class Purse:
    """What the connection spent today, counted over all processes of the project."""

    def __init__(self, name: str, limits: Limits, tools: Tools) -> None:
        self._name = f"{name}.spent"
        self._limits = limits
        self._tools = tools

    async def set_aside(self, worst: Amount) -> int:
        """Sets so much aside; returns the day it is for. Raises OverLimit, NotCounted."""
        today = MachineClock().now() // DAY
        limits = self._limits
        if limits.day or limits.day_cost:
            await self._add(today, worst, check=True)
        return today

    async def book(self, day: int, set_aside: Amount, used: Amount) -> None:
        """What was really used in place of what was set aside. Raises NotCounted."""
        if self._limits.day or self._limits.day_cost:
            less = Amount(tokens=used.tokens - set_aside.tokens, cost=used.cost - set_aside.cost)
            await self._add(day, less, check=False)

    async def _add(self, day: int, more: Amount, *, check: bool) -> None:
        vault, limits = self._tools.vault, self._limits
        try:
            async with asyncio.timeout(PATIENCE / 1000), vault.alone(self._name):
                kept = vault.read(self._name)
                if kept.get("day") != day:
                    if not check:  # the day is over, and so is its count
                        return
                    kept = {}
                tokens, cost = int(kept.get("tokens", 0)) + more.tokens, int(kept.get("cost", 0)) + more.cost
                if check and limits.day and tokens > limits.day:
                    what = f"{limits.day:,} tokens a day (limits: day), and today's may become {tokens:,} with this one"
                    raise OverLimit(f"it may spend {what}; nothing was sent")
                if check and limits.day_cost and cost > limits.day_cost:
                    what = f"{money(limits.day_cost)} a day (limits: day_cost), and today's may become {money(cost)}"
                    raise OverLimit(f"it may spend {what} with this one; nothing was sent")
                vault.write(self._name, {"day": day, "tokens": tokens, "cost": cost})
        except OverLimit:
            raise
        except (AmendsError, OSError, TimeoutError) as error:
            what = str(error) if isinstance(error, AmendsError) else "its file under .amends/tokens cannot be used"
            raise NotCounted(f"what was spent today cannot be counted: {what}") from None
