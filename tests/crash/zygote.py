"""A process that has imported everything and forks one child for each case; commands and answers are JSON lines.

What costs each child the same (plans of statements, late imports, the project's connections) it has done once before: see
`warm`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner import app
from runner.clock import MachineClock
from runner.contract import Connector
from runner.core import events as e
from runner.core import recall
from runner.core.state import Call, CallName, HandOff, State
from runner.engine import carrier
from runner.engine.past import StoredItems, read_state
from runner.engine.perform import not_begun
from runner.engine.restored import Forgotten
from runner.engine.starting import Wish
from runner.language.bundle import Bundle
from runner.language.project import Project
from runner.outside import ProjectOutside
from runner.people.operations import Order
from runner.store import sql
from runner.store.ended import EndedItems
from runner.store.facts import RunFilter
from runner.store.lock import EngineLock
from tests.crash.killer import Killer, KillingConnector, KillingStore
from tests.crash.project import FLOWS
from tests.trust import shim

PATIENCE = 20.0


def install(killer: Killer) -> None:
    """Puts the points around this process's store and connectors."""
    open_store, connector = sql.open_store, ProjectOutside.connector

    def opened(*args: Any, **kwargs: Any) -> Any:
        return KillingStore(open_store(*args, **kwargs), killer)

    def connected(self: Any, bundle: Bundle, connection: str) -> Connector:
        return KillingConnector(connector(self, bundle, connection), killer)

    setattr(app, "open_store", opened)  # noqa: B010 - the name that the app looks up
    ProjectOutside.connector = connected  # type: ignore[method-assign]


async def drive(command: dict[str, Any], project: Project, bundles: Mapping[str, Bundle]) -> None:
    """Starts the runs of a case (or joins them), answers what a person is asked by what the receivers' ledgers say, to
    the end of all.
    """
    folder = project.folder
    driver = app.OwnDriver(project, MachineClock(), EngineLock(folder))
    async with driver.running():
        for number, flow in enumerate(command["flows"]):
            key = f"{command['case']}-{number}"
            wish = Wish(given={"name": command["case"]}, key=key, starter="person:me")
            started = await driver.start_bundle(bundles[flow], wish)
            await driver.engine.rest(started.run)
        end = time.monotonic() + command.get("patience", PATIENCE)
        while time.monotonic() < end:
            opened = driver.store.runs(RunFilter(open_only=True))
            if not opened:
                return
            for view in opened:
                await _go_on(driver, view.run)
        raise TimeoutError(f"they did not end: {driver.store.runs(RunFilter(open_only=True))}")


async def _go_on(driver: app.OwnDriver, run: str) -> None:
    """Follows a run until it rests; a question is answered, and nothing else is done about it."""
    view = await driver.follow(run, lambda: None, patience=5_000)
    state, _ = read_state(driver.store, run)
    if state.is_paused:
        await driver.act(run, Order(action="resume", by="person:me"))
    elif view.ended_at is None and state.open_handoffs:
        await driver.act(run, answer(driver.store, state, state.open_handoffs[0]))
    await asyncio.sleep(0.005)


def answer(store: Any, state: State, question: HandOff) -> Order:
    """What an honest person answers: they look at the receiver."""
    if question.kind == "set_aside":
        return Order(action="retry", by="person:me", handoff=question.id)
    if question.purpose not in ("do", "undo"):
        return Order(action="done", by="person:me", handoff=question.id, reason="Seen to.")
    call = state.calls[question.step, question.purpose, question.part]
    found = happened(Path(store.name).parent.parent, store, state, call.key)
    if found is None:
        return Order(action="did_not", by="person:me", handoff=question.id)
    return Order(action="happened", by="person:me", handoff=question.id, output={"id": found}, external_id=found)


def happened(folder: Path, store: Any, state: State, key: str) -> str | None:
    """The outside id of the effect of this call, by the true ledgers."""
    told = json.loads((folder / "receivers.json").read_text())
    for line in Path(told["mails"]).read_text().splitlines() if Path(told["mails"]).exists() else []:
        sent = json.loads(line)["message_id"]
        for row in store.log(state.run):
            intent = row.event
            if isinstance(intent, e.CallIntended) and intent.key == key and intent.request.get("message_id") == sent:
                return str(sent)
    for effect in ledger(told["port"])["effects"]:
        if key in (effect["key"], effect["reference"]):
            return str(effect["id"])
    return None


def ledger(port: int) -> dict[str, Any]:
    """The HTTP receiver's ledger."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/_ledger")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found


def case(command: dict[str, Any], project: Project, bundles: Mapping[str, Bundle]) -> None:
    """One child: with a point to die at, or a call to the system (`shim`), or to the end; `fault` plants a mistake."""
    trace = Path(command["trace"]) if command.get("trace") else None
    FAULTS[command.get("fault", "")]()
    killer = Killer(target=command.get("target", ""), nth=command.get("nth", 1), trace=trace)
    killer.copy = (command["copy"], project.folder / "copy.db") if "copy" in command else None
    install(killer)
    if "shim" in command:
        shim.arm(project.folder / ".amends", **command["shim"])
    asyncio.run(drive(command, project, bundles))
    if "shim" in command:
        (project.folder / "passed").write_text(str(shim.passed()))


def warm(command: dict[str, Any], project: Project, bundles: Mapping[str, Bundle]) -> None:
    """Plays a case here, without points to die at; children begin with what that has loaded, but with no thread of it."""
    asyncio.run(drive(command, project, bundles))
    left = threading.enumerate()[1:]
    if left:
        raise RuntimeError(f"a fork would tear these threads: {left}")


def _send_again() -> None:
    """Whatever the dead engine had sent is taken not to have left."""

    def nothing_left(name: CallName, call: Call, at: int, *, is_own: bool) -> e.OutcomeEvent:
        return not_begun(name, call, at)

    setattr(carrier, "taken_over", nothing_left)  # noqa: B010


def _forget_events() -> None:
    """Events that were kept when the engine died are never fed."""
    setattr(EndedItems, "open_events", lambda store: ())  # noqa: B010


def _forget_items() -> None:
    """Of the ended items only the newest are made good."""
    newest = StoredItems.newest

    def few(self: StoredItems, scope: str, before: int | None, limit: int) -> Sequence[tuple[int, str]]:
        return newest(self, scope, before, limit) if before is None else ()

    setattr(StoredItems, "newest", few)  # noqa: B010


def _a_lie() -> None:
    """Whoever is asked says that nothing has happened."""
    setattr(sys.modules[__name__], "happened", lambda folder, store, state, key: None)  # noqa: B010


def _remember_nothing() -> None:
    """What is not in the log of a database that was put back was not done."""
    setattr(Forgotten, "outcome", lambda self, state, intent, action: None)  # noqa: B010


FAULTS = {
    "": lambda: None, "send_again": _send_again, "forget_events": _forget_events, "forget_items": _forget_items,
    "a_lie": _a_lie, "remember_nothing": _remember_nothing,
}  # fmt: skip


def main() -> None:
    """Reads commands until the end of input; or plays the one that is named, here. The flows are read once."""
    project = Project.open(sys.argv[1])
    bundles = {flow: project.bundle(flow) for flow in FLOWS}
    recall.PAGE = 3
    if len(sys.argv) > 2:
        case(json.loads(sys.argv[2]), project, bundles)
        return
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("is_warming"):
            warm(command, project, bundles)
            print(json.dumps({"status": 0}), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                case(command, project, bundles)
                code = 0
            except BaseException:  # noqa: BLE001 - the child tells, whatever it was
                Path(project.folder, "child.err").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
