"""A project whose database was put back from a copy: it rests behind its pages until an admin has answered."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from runner.app import Amends, OwnDriver
from runner.clock import iso
from runner.core.events import Restored
from runner.engine.starting import Wish
from runner.people.access import new_access
from runner.people.operations import Order
from runner.reading import Reading
from runner.serving import answered
from runner.store.copying import put_back
from runner.store.lock import EngineLock
from runner.store.log import SITE
from runner.web.console import Console
from tests.cli.terminal import Running, Terminal
from tests.web.ground import ADDRESS, PORT, Browser, console_at, make_project, started, words_of


@asynccontextmanager
async def resting(folder: Path) -> AsyncIterator[Console]:
    """Its console, as `amends serve` has it: it drives once somebody has answered."""
    found = Amends.open(folder)
    lock = EngineLock(folder)
    assert lock.acquire()
    driver = OwnDriver(found.project, found.clock, lock)

    async def go_on() -> None:
        if await answered(driver.store, asyncio.Event()):
            await driver.begin()

    try:
        async with driver.running(settles=False, may_rest=True):
            going = asyncio.create_task(go_on())
            yield Console(found, driver, public_url=ADDRESS, port=PORT)
            going.cancel()
    finally:
        found.close()


async def copied(tmp_path: Path) -> tuple[Path, str]:
    """A project that was copied with an open run in it."""
    folder, copy = make_project(tmp_path / "shop"), tmp_path / "copy"
    async with console_at(folder) as console:
        run = await started(console, "asking", number="7", name="Aya")
    shutil.copytree(folder, copy)
    return copy, run


async def token_of(console: Console, person: str) -> dict[str, str]:
    secret, row = new_access("token", person, now=console.now)
    await console.driver.admit(row)
    return {"authorization": f"Bearer {secret}"}


async def asked(browser: Browser, method: str, path: str, headers: dict[str, str], body: object) -> httpx.Response:
    return await browser.client.request(method, path, headers=headers, json=body)


async def test_it_rests_behind_its_pages_until_an_admin_answers(tmp_path: Path) -> None:
    folder, run = await copied(tmp_path)
    async with resting(folder) as console:
        before = console.store.log_end(run)
        admin, viewer = Browser(console), Browser(console)
        token = await token_of(console, "person:tom")
        assert (await asked(admin, "GET", "/api/v1/restored", token, None)).json() == {
            "rests": True, "why": f"the folder is a copy of {tmp_path / 'shop' / '.amends'}",
            "since": iso(console.store.restorations()[-1].since, "UTC"),
            "may_be_moved": True, "open_runs": 1,
        }  # fmt: skip
        for path, body in (
            ("/api/v1/runs", {"flow": "asking", "inputs": {"number": "8"}}), (f"/api/v1/runs/{run}/orders", {"action": "stop"}),
            ("/api/v1/events/paid", {}), ("/hooks/any", {}),
        ):  # fmt: skip
            said = await asked(admin, "POST", path, token, body)
            assert said.status_code == 503, (path, said.text)
            assert "Traceback" not in said.text
        await viewer.sign_in("person:vera")
        assert (await viewer.get("/")).headers["location"] == "/restored"
        told = words_of(await viewer.get("/restored"))
        assert "1 run that has not ended" in told
        assert "An admin of the project answers this." in told
        assert "Go on, each open run paused" not in told
        assert "This project rests" in words_of(await viewer.get("/runs"))
        assert (await viewer.press("/me", "/restored", answer="go on")).status_code == 403
        await admin.sign_in("person:tom")
        assert (await admin.post("/restored", {"answer": "go on"})).status_code == 403, "without its token"
        assert (await admin.press("/restored", answer="moved")).status_code == 422, "nobody said that he is sure"
        assert console.store.log_end(run) == before
        assert (await admin.press("/restored", answer="go on")).headers["location"] == "/runs"
        assert console.amends.state(run)[1].is_paused
        assert (await admin.get("/restored")).headers["location"] == "/"
        assert (await asked(admin, "GET", "/api/v1/restored", token, None)).json()["rests"] is False
        answers = [row.event for row in console.store.log(SITE) if isinstance(row.event, Restored)]
        assert [(each.by, each.data.get("answer")) for each in answers][-1] == ("person:tom", "go on")
        await console.driver.act(run, Order(action="resume", by="person:tom"))
        assert not console.amends.state(run)[1].is_paused
        assert (await console.driver.start("asking", Wish(given={"number": "9"}, key="9"))).run != run


async def test_what_was_only_moved_goes_on_as_it_was(tmp_path: Path) -> None:
    folder, run = await copied(tmp_path)
    async with resting(folder) as console:
        admin, token = Browser(console), await token_of(console, "person:tom")
        looks_on = await token_of(console, "person:vera")
        assert (await asked(admin, "POST", "/api/v1/restored", looks_on, {"answer": "moved"})).status_code == 403
        said = await asked(admin, "POST", "/api/v1/restored", token, {"answer": "moved"})
        assert (said.status_code, said.json()["rests"]) == (200, False)
        assert console.store.run(run).status == "needs_person"


async def test_what_has_lost_something_was_not_only_moved(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    async with console_at(folder) as console:
        await started(console, "asking", number="7")
        console.store.backup(tmp_path / "copy.db")
    put_back(folder, tmp_path / "copy.db", url="", clock=console.amends.clock)
    async with resting(folder) as console:
        admin, token = Browser(console), await token_of(console, "person:tom")
        await admin.sign_in("person:tom")
        told = words_of(await admin.get("/restored"))
        assert "This cannot be said here" in told
        assert "It was put back from" in told
        assert (await asked(admin, "POST", "/api/v1/restored", token, {"answer": "moved"})).status_code == 409
        assert console.driver.rests


@pytest.mark.timeout(180)
def test_the_command_line_and_the_pages_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run = asyncio.run(copied(tmp_path))
    terminal = Terminal(folder, capsys)
    with Running("serve", "--port", "0", folder=folder) as served:
        assert "rests: nothing is driven" in served.first
        refused = terminal.type("run", "waiting")
        assert refused.code == 2
        assert "db go-on" in refused.err
        done = next(said for _ in range(10) if (said := terminal.type("db", "go-on")).code == 0)  # it may be busy
        assert f"amends runs resume {run}" in done.out
        said = served.end()
    assert said.code == 0
    assert "Amends drives shop" in said.out


LISTS = (
    "runs list", "handoffs list", "approvals list", "quarantine list", "events list", "schedule list", "schedule next",
    "triggers list", "triggers arrivals", "records list", "flows list", "connections list", "log verify",
)  # fmt: skip


def test_what_is_listed_says_that_nothing_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before an engine has looked at the copy, and after; not any more once somebody has answered."""
    folder, run = asyncio.run(copied(tmp_path))
    terminal, was = Terminal(folder, capsys), Terminal(tmp_path / "shop", capsys)
    for json_too in ("", " --json"):
        for words in (f"{each}{json_too}" for each in (*LISTS, f"runs show {run}", f"handoffs show {run}")):
            said = terminal.type(*words.split())
            assert "Nothing here is driven, started or sent" in said.err, words
            assert f"the folder is a copy of {tmp_path / 'shop' / '.amends'}" in said.err, words
            assert "driven, started" not in said.out, words
            assert not json_too or json.loads(said.out) is not None
        refused = terminal.type("runs", "pause", run)
        assert (refused.code, "driven, started" in refused.err) == (2, False)
        assert "the folder is a copy of" in terminal.type("doctor").out
    assert terminal.type("db", "go-on", "--moved").code == 0
    for asked in (terminal, was):
        assert "driven, started" not in asked.type("runs", "list").err


def test_what_was_paused_is_said_to_be_before_an_engine_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run = asyncio.run(copied(tmp_path))
    terminal = Terminal(folder, capsys)
    assert f"amends runs resume {run}" in terminal.type("db", "go-on").out
    listed = json.loads(terminal.type("runs", "list", "--json").out)
    assert [(each["run"], each["status"], each["wake_at"]) for each in listed] == [(run, "paused", None)]
    assert "Status    paused: nothing new is begun until it is resumed" in terminal.type("runs", "show", run).out
    reading = Reading(folder)
    assert list(reading.store.unfinished(paused=False)) == [run], "the next engine still looks at it"
    reading.close()
    assert terminal.type("runs", "resume", run).code == 0
    assert json.loads(terminal.type("runs", "list", "--json").out)[0]["status"] == "needs_person"


def test_a_database_that_was_put_back_says_so_in_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_project(tmp_path / "shop")
    terminal = Terminal(folder, capsys)
    assert terminal.type("run", "waiting", "--detach").code == 0
    assert "driven, started" not in terminal.type("runs", "list").err
    shutil.copy(folder / ".amends" / "amends.db", tmp_path / "copy.db")
    for number in range(3):
        terminal.type("events", "send", "paid", "--data", f"n={number}", "--id", str(number))
    shutil.copy(tmp_path / "copy.db", folder / ".amends" / "amends.db")
    for name in ("amends.db-wal", "amends.db-shm"):
        (folder / ".amends" / name).unlink(missing_ok=True)
    assert "put back from a copy, so what was done since is not in its log" in terminal.type("runs", "list").err
