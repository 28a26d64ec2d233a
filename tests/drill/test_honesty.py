"""The demo's table is honest: the real engine, with the same faults injected for real, leaves what each row says."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runner.app import Amends, OwnDriver
from runner.clock import MachineClock
from runner.contract import Json
from runner.demo import Servers, make_project, start_servers
from runner.demo.faults import Fault
from runner.demo.stories import FLOW
from runner.drill.rows import Row, left_by
from runner.drill.world import Landed
from runner.drilling import driller_of
from runner.engine.starting import Wish
from runner.people.operations import Order
from tests.drill.lines import Line, Mode, running_lines
from tests.flows.stage import project_of

CPU = 40.0
"""Seconds of computing that all rows may take."""
PATIENCE = 15.0
PLACES = {
    "plan": ("billing", 0),
    "contact": ("crm", 1),
    "task": ("tasks", 0),
    "welcome": ("mail", 0),
    "paid": ("billing", 1),
}
"""Which connection of which line a step's call is; and below, its compensation."""
UNDO = {"contact": ("crm", 2), "task": ("tasks", 1), "welcome": ("mail", 1)}
REFUSALS = {
    "plan": ("GET", "/plans/*"), "contact": ("POST", "/contacts"), "task": ("POST", "/tasks"),
    "paid": ("POST", "/payments"), "undo contact": ("PATCH", "/contacts/*"), "undo task": ("POST", "/tasks/*/close"),
}  # fmt: skip
MODES: Mapping[str, Mode] = {
    "lost_happened": "drop_answer", "lost_did_not": "drop_request", "killed": "hold_answer",
    "killed_happened": "hold_answer", "killed_did_not": "hold_request", "stop_here": "hold_answer",
    "stop_compensate": "hold_answer", "refused": "refuse", "not_found": "nothing",
}  # fmt: skip
EFFECTS = {
    "contact.created": ("contact", "do", "crm.create_contact"), "contact.changed": ("contact", "undo", ""),
    "task.created": ("task", "do", "tasks.create"), "task.closed": ("task", "undo", ""),
    "payment.taken": ("paid", "do", "billing.mark_paid"),
}  # fmt: skip


class ShiftedClock(MachineClock):
    """The machine's clock, `by` ms later: nobody waits for a timer."""

    by = 0

    def now(self) -> int:
        return super().now() + self.by


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The servers, the lines to them and the project."""

    servers: Servers
    lines: Mapping[str, Line]
    folder: Path
    clock: ShiftedClock

    def amends(self) -> Amends:
        amends = Amends(project_of(self.folder))
        amends.clock = self.clock
        return amends


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("honesty")
    with start_servers(folder / "servers") as servers:
        office, mail = int(servers.backoffice_url.rpartition(":")[2]), servers.smtp_port
        made = {"crm": (office, False), "tasks": (office, False), "billing": (office, False), "mail": (mail, True)}
        with running_lines(**made) as lines:
            make_project(
                folder / "demo", backoffice_url=servers.backoffice_url, smtp_port=lines["mail"].port,
                token=servers.token,
            )  # fmt: skip
            connections = folder / "demo" / "connections.yaml"
            text = connections.read_text()
            for name in ("crm", "tasks", "billing"):
                before = f'connector: {name}, origin: "{servers.backoffice_url}"'
                assert before in text
                text = text.replace(before, f'connector: {name}, origin: "http://127.0.0.1:{lines[name].port}"')
            connections.write_text(text)
            yield Ground(servers=servers, lines=lines, folder=folder / "demo", clock=ShiftedClock())


def spoil(ground: Ground, row: Row) -> Line:
    """Breaks what the row says; answers the line where something may be held."""
    is_undo, way = row.way.startswith("undo_"), row.way.removeprefix("undo_")
    name, number = (UNDO if is_undo else PLACES)[row.step]
    for line in ground.lines.values():
        line.begin()
    if row.after == "paid":
        ground.servers.control(Fault(path="/payments", fault="refuse", say="The card was declined."))
    refusal = REFUSALS.get(f"undo {row.step}" if is_undo else row.step)
    if way == "refused" and refusal is not None:
        ground.servers.control(Fault(method=refusal[0], path=refusal[1], fault="refuse"))
    elif way == "not_sent":
        ground.lines[name].begin(left=number)
    elif way in ("lost_for_ever", "no_answer"):
        ground.lines[name].begin(lambda each: "drop_answer" if each >= number else "pass")
    elif way in MODES:
        mode = MODES[way]
        ground.lines[name].begin(lambda each: mode if each == number else "pass")
    for _ in range({"found": 1, "several": 2}.get(way, 0)):
        ground.servers.ask("POST", "/contacts", {"name": "Known", "email": inputs_of(row)["email"]})
    return ground.lines[name]


def inputs_of(row: Row) -> dict[str, Json]:
    email = f"{row.step}-{row.way}@customer.test".replace("_", "-")
    return {"name": "Aya Sato", "email": email, "plan": "pro", "amount": 12000}


def wish_of(row: Row) -> Wish:
    return Wish(given=inputs_of(row), key=f"{row.step}-{row.way}", starter="person:starter")


async def come_to_rest(driver: OwnDriver, run: str, clock: ShiftedClock) -> None:
    """Until nothing but a person would wake it; timers are not waited for."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await driver.engine.rest(run)
            view = driver.store.run(run)
            if view.ended_at is not None or view.wake_at is None:
                return
            clock.by += max(view.wake_at - clock.now(), 0) + 1
            driver.engine.wake(run)


async def play(ground: Ground, driver: OwnDriver, row: Row) -> str:
    """A run with the row's fault; a button is pressed while its step is out."""
    held = spoil(ground, row)
    started = await driver.start(FLOW, wish_of(row))
    if row.way.startswith("stop"):
        assert await asyncio.to_thread(held.held.wait, PATIENCE)
        action = "stop" if row.way == "stop_here" else row.way
        await driver.act(started.run, Order(action=action, by="person:operator", reason="Stopped in the drill."))
        held.release()
    await come_to_rest(driver, started.run, ground.clock)
    return started.run


async def die(ground: Ground, row: Row) -> None:
    """What the process does that is killed."""
    amends = ground.amends()
    async with amends.driver() as driver:
        assert isinstance(driver, OwnDriver)
        started = await driver.start(FLOW, wish_of(row))
        await come_to_rest(driver, started.run, ground.clock)


def kill(ground: Ground, row: Row) -> None:
    """A process of its own drives the run, and is killed while the call is out."""
    held = spoil(ground, row)
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(die(ground, row))
        finally:
            os._exit(1)
    was_held = held.held.wait(PATIENCE)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    held.release()
    assert was_held, f"{row.step} {row.way}: nothing was held"


async def go_on(ground: Ground, row: Row) -> tuple[str, Row]:
    """The engine that comes after."""
    amends = ground.amends()
    try:
        async with amends.driver() as driver:
            assert isinstance(driver, OwnDriver)
            started = await driver.start(FLOW, wish_of(row))
            assert started.joined
            await come_to_rest(driver, started.run, ground.clock)
        return started.run, told(ground, amends, started.run, row)
    finally:
        amends.close()


def told(ground: Ground, amends: Amends, run: str, row: Row) -> Row:
    """The row as the real run has left it: by its log, and by what the servers say has truly happened."""
    bundle, state = amends.state(run)
    events = [each.event for each in amends.store.log(run) if each.event is not None]
    return left_by(bundle, events, state, landed(ground, row), bare(row))


def bare(row: Row) -> Row:
    return Row(step=row.step, way=row.way, item=row.item, after=row.after)


def landed(ground: Ground, row: Row) -> list[Landed]:
    """The true effects of this row's run, in their order: its contact's id leads to all but the mails and tasks."""
    email = str(inputs_of(row)["email"])
    found: list[tuple[int, str]] = [
        (each["at"], each["what"]) for each in ground.servers.ledger()["effects"][SEEN[0] :]
    ]
    mails = [mail for mail in ground.servers.mails() if email in mail.to]
    found += [(mail.at, "welcome" if mail.subject.startswith("Welcome") else "correction") for mail in mails]
    made = {**EFFECTS, "welcome": ("welcome", "do", "mail.send"), "correction": ("welcome", "undo", "")}
    return [
        Landed(
            at=at, step=made[what][0], purpose=made[what][1], part=0, action=made[what][2], key="", input={}, output={},
            external_id="",
        )
        for at, what in sorted(found)
    ]  # fmt: skip


SEEN = [0]
"""How many effects the back office had before the run of this row."""


def remember(ground: Ground, row: Row) -> None:
    known = {"found": 1, "several": 2}.get(row.way, 0)
    SEEN[0] = len(ground.servers.ledger()["effects"]) + known


async def play_all(ground: Ground, rows: Sequence[Row]) -> list[Row]:
    """Every row whose engine lives, one after the other."""
    amends, found = ground.amends(), []
    try:
        async with amends.driver() as driver:
            assert isinstance(driver, OwnDriver)
            for row in rows:
                remember(ground, row)
                run = await play(ground, driver, row)
                found.append(told(ground, amends, run, row))
        return found
    finally:
        amends.close()


def computed() -> float:
    return sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))  # fmt: skip


@pytest.fixture(scope="module")
def rows(ground: Ground) -> tuple[Row, ...]:
    found = driller_of(project_of(ground.folder), FLOW).drill().rows
    assert len(found) >= 60
    assert len({(row.step, row.way) for row in found}) == len(found)
    return found


@pytest.mark.timeout(240)
def test_the_real_engine_leaves_what_every_row_of_the_table_says(ground: Ground, rows: Sequence[Row]) -> None:
    began, lives = computed(), [row for row in rows if "killed" not in row.way]
    real = asyncio.run(play_all(ground, lives))
    assert [comparable(row) for row in real] == [comparable(row) for row in lives]
    hold_to(began, lives)


@pytest.mark.timeout(240)
def test_so_does_the_engine_that_comes_after_a_killed_one(ground: Ground, rows: Sequence[Row]) -> None:
    began, killed = computed(), [row for row in rows if "killed" in row.way]
    assert len(killed) >= 15
    real = []
    for row in killed:
        remember(ground, row)
        kill(ground, row)
        real.append(asyncio.run(go_on(ground, row))[1])
    assert [comparable(row) for row in real] == [comparable(row) for row in killed]
    hold_to(began, killed)


def hold_to(began: float, rows: Sequence[Row]) -> None:
    spent = computed() - began
    print(f"honesty: {len(rows)} rows as the real engine has them, {spent:.1f} s of CPU")
    assert spent < CPU / 2


@pytest.mark.parametrize("way", ["lost_for_ever", "undo_refused", "stop_here"])
def test_a_fault_that_was_not_injected_is_seen(ground: Ground, rows: Sequence[Row], way: str) -> None:
    (row,) = [row for row in rows if (row.step, row.way) == ("task", way)]
    whole = replace(row, step="contact", way="lost_happened", after="")
    (real,) = asyncio.run(play_all(ground, [whole]))
    assert comparable(replace(real, step=row.step, way=row.way, after=row.after)) != comparable(row)


def comparable(row: Row) -> Row:
    """Without what a sentence says of the outside, and without what numbers a situation."""
    return replace(row, waits="", why="", situations=())
