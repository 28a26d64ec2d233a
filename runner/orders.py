"""What another process may ask of the one that holds the engine: each request by its word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Protocol

from runner.contract import Json
from runner.driver import Driver
from runner.engine.carrier import Carrier
from runner.engine.handover import Tell
from runner.engine.starting import Wish
from runner.people.approvals import Decision
from runner.people.erasing import Erasing
from runner.people.holds import Hold
from runner.people.operations import Order
from runner.store.access import Access
from runner.store.facts import RunView
from runner.triggers.webhook import Webhooks


class Engaged(Driver, Protocol):
    """The driver that has the engine."""

    engine: Carrier
    hooks: Webhooks

    async def follow_for(self, run: str, patience: int, tell: Tell) -> RunView:
        """Follows a run for another process and tells it of each turn."""

    async def go_on_restored(self, by: str, *, moved: bool) -> list[str]:
        """Lets a database go on that was put back from a copy."""


Request = Mapping[str, Json]


async def _hello(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {}


async def _start(driver: Engaged, request: Request, tell: Tell) -> Request:
    return asdict(replace(await driver.start(request["flow"], Wish(**request["wish"])), end=None))


async def _pin(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"digest": await driver.pin(request["flow"])}


async def _start_pinned(driver: Engaged, request: Request, tell: Tell) -> Request:
    return asdict(replace(await driver.start_pinned(request["digest"], Wish(**request["wish"])), end=None))


async def _act(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"run": (await driver.act(request["run"], Order(**request["what"]))).run}


async def _decide(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"run": (await driver.decide(request["run"], Decision(**request["what"]))).run}


async def _erase(driver: Engaged, request: Request, tell: Tell) -> Request:
    return await driver.erase(Erasing(**request["wish"]))


async def _prune(driver: Engaged, request: Request, tell: Tell) -> Request:
    return asdict(await driver.prune(request["by"]))


async def _anchor(driver: Engaged, request: Request, tell: Tell) -> Request:
    return asdict(await driver.anchor())


async def _follow(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"run": (await driver.follow_for(request["run"], request["patience"], tell)).run}


async def _hold(driver: Engaged, request: Request, tell: Tell) -> Request:
    await driver.hold(Hold(**request["hold"]))
    return {}


async def _limits(driver: Engaged, request: Request, tell: Tell) -> Request:
    limits = driver.engine.limits
    return {"usage": limits.usage(), "place": limits.place(request.get("run", ""))}


async def _admit(driver: Engaged, request: Request, tell: Tell) -> Request:
    await driver.admit(Access(**request["row"]))
    return {}


async def _send_event(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"is_new": await driver.send_event(**request["event"])}


async def _quarantine(driver: Engaged, request: Request, tell: Tell) -> Request:
    await driver.answer_quarantine(**request["what"])
    return {}


async def _take_again(driver: Engaged, request: Request, tell: Tell) -> Request:
    return asdict(replace(await driver.take_again(**request["what"]), started=None))


async def _go_on(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {"paused": await driver.go_on_restored(request["by"], moved=request["moved"])}


async def _turned_away(driver: Engaged, request: Request, tell: Tell) -> Request:
    return {name: asdict(each) for name, each in driver.hooks.turned_away.items()}


REQUESTS: Mapping[str, Callable[[Engaged, Request, Tell], Awaitable[Request]]] = {
    "hello": _hello, "start": _start, "pin": _pin, "start_pinned": _start_pinned, "act": _act, "decide": _decide,
    "erase": _erase, "prune": _prune, "anchor": _anchor, "follow": _follow, "hold": _hold, "limits": _limits,
    "admit": _admit, "send_event": _send_event, "quarantine": _quarantine, "take_again": _take_again,
    "turned_away": _turned_away, "go_on": _go_on,
}  # fmt: skip
"""What another process may ask for."""
WHILE_RESTING = ("hello", "admit", "go_on")
"""What is done before a person has let a database go on that was put back from a copy."""
