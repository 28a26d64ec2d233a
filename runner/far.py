"""The driver of a command while another process holds the engine: that one is asked over its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from runner.contract import Json
from runner.engine.handover import ask
from runner.engine.starting import Wish
from runner.errors import EngineBusy
from runner.people.anchoring import Anchored
from runner.people.approvals import Decision
from runner.people.erasing import Erasing
from runner.people.holds import Hold
from runner.people.operations import Order
from runner.people.pruning import Pruned
from runner.reading import Reading
from runner.store.access import Access
from runner.store.arrivals import Arrived
from runner.store.facts import RunView, Started
from runner.store.lock import EngineLock

PATIENCE = 600_000
"""ms that `follow` waits for a timer before it lets go."""
HELLO = 2.0
"""Seconds that process may take to say that it is there."""


class FarDriver:
    """Another process holds the engine; this one asks it."""

    def __init__(self, socket: str, project: Reading) -> None:
        self._socket = socket
        self._project = project

    async def answers(self) -> bool:
        """Whether it can be reached."""
        try:
            async with asyncio.timeout(HELLO):
                await ask(self._socket, {"order": "hello"})
        except (EngineBusy, TimeoutError):
            return False
        return True

    async def start(self, flow: str, wish: Wish) -> Started:
        """Has a run started."""
        answer: Any = await ask(self._socket, {"order": "start", "flow": flow, "wish": asdict(wish)})
        return Started(**answer)

    async def pin(self, flow: str) -> str:
        """Has a flow kept as it is now."""
        return str((await ask(self._socket, {"order": "pin", "flow": flow}))["digest"])

    async def start_pinned(self, digest: str, wish: Wish) -> Started:
        """Has a run of a pinned flow started."""
        answer: Any = await ask(self._socket, {"order": "start_pinned", "digest": digest, "wish": asdict(wish)})
        return Started(**answer)

    async def act(self, run: str, order: Order) -> RunView:
        """Has an order carried out."""
        answer = await ask(self._socket, {"order": "act", "run": run, "what": asdict(order)})
        return self._project.store.run(answer["run"])

    async def decide(self, run: str, decision: Decision) -> RunView:
        """Has a decision recorded."""
        answer = await ask(self._socket, {"order": "decide", "run": run, "what": asdict(decision)})
        return self._project.store.run(str(answer["run"]))

    async def answer_quarantine(self, run: str, record: str, *, by: str, reason: str, discard: bool) -> None:
        """Has a record released or discarded."""
        what = {"run": run, "record": record, "by": by, "reason": reason, "discard": discard}
        await ask(self._socket, {"order": "quarantine", "what": what})

    async def take_again(self, arrival: str, flow: str, by: str, reason: str) -> Arrived:
        """Has it taken again."""
        what = {"arrival": arrival, "flow": flow, "by": by, "reason": reason}
        answer: Any = await ask(self._socket, {"order": "take_again", "what": what})
        return Arrived(**answer)

    async def erase(self, wish: Erasing) -> Mapping[str, Json]:
        """Has it erased."""
        return await ask(self._socket, {"order": "erase", "wish": asdict(wish)})

    async def anchor(self) -> Anchored:
        """Has an anchor made."""
        answer: Any = await ask(self._socket, {"order": "anchor"})
        return Anchored(line=answer["line"], kept=tuple(answer["kept"]), wrong=tuple(answer["wrong"]))

    async def prune(self, by: str) -> Pruned:
        """Has them removed."""
        answer: Any = await ask(self._socket, {"order": "prune", "by": by})
        return Pruned(**answer)

    async def follow(self, run: str, on_turn: Callable[[], None], patience: int = PATIENCE) -> RunView:
        """Follows a run that the other process drives."""
        request = {"order": "follow", "run": run, "patience": patience}
        answer = await ask(self._socket, request, lambda _: on_turn())
        return self._project.store.run(answer["run"])

    async def hold(self, hold: Hold) -> None:
        """Has a connection, a flow or a record held, or released."""
        await ask(self._socket, {"order": "hold", "hold": asdict(hold)})

    async def admit(self, row: Access) -> None:
        """Has it kept."""
        await ask(self._socket, {"order": "admit", "row": asdict(row)})

    async def send_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        """Has it kept, and fed."""
        said: Json = {"event_id": event_id, "event": event, "data": data, "source": source}
        return bool((await ask(self._socket, {"order": "send_event", "event": said}))["is_new"])


async def engine_says(project: Reading, request: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The answer of the process that holds a project's engine; None where there is none, or it does not answer."""
    holder = EngineLock(project.folder).holder()
    if holder is None or not holder.socket or not await FarDriver(holder.socket, project).answers():
        return None
    return await ask(holder.socket, request)
