"""tryton.yaml against Tryton, asked by JSON-RPC beside us. Its errors come with status 200."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.bench import FAULTS, HAPPENS, Bench, bench, honest, shipped_kind
from tests.real.proved import prove
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.tryton import DATABASE, PASSWORD, USER, Tryton, running_tryton

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
SECRETS = {"TRYTON_PASSWORD": PASSWORD}


@pytest.fixture(scope="module")
def tryton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tryton]:
    with running_tryton(tmp_path_factory.mktemp("tryton")) as server:
        yield server


def line(tryton: Tryton, origin: str = "") -> dict[str, Any]:
    return {
        "origin": origin or f"http://127.0.0.1:{tryton.port}",
        "database": DATABASE,
        "user": USER,
        "password": {"secret": "TRYTON_PASSWORD"},
    }


@pytest.fixture
async def proxy(tryton: Tryton) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(tryton.port) as made:
        yield made


@pytest.fixture
async def one(tryton: Tryton, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(shipped_kind("tryton"), tmp_path, line(tryton, proxy.origin), SECRETS) as made:
        yield made


def new(email: str) -> dict[str, Any]:
    return {"name": '加藤 "K" & Co', "email": email}


async def test_every_action_does_there_what_it_says(tryton: Tryton, one: Bench, proxy: FaultProxy) -> None:
    given = new("kato@customer.test")
    assert (await one.done("create_party", given, "am_1", "lookup")).count == 0
    assert (await one.done("create_party", {"email": given["email"]}, "am_1", "find")).count == 0
    made = await one.done("create_party", given, "am_1")
    (there,) = tryton.parties(given["email"])
    assert (there["id"], there["name"]) == (made.output["id"], given["name"])
    for why, asked in (("lookup", given), ("find", {"email": given["email"]})):
        found = await one.done("create_party", asked, "am_1", "lookup" if why == "lookup" else "find")
        assert (found.count, found.external_id, dict(found.output)) == (1, made.external_id, dict(made.output))
    assert (await one.done("create_party", given, "am_", "lookup")).count == 0, "a part of our key is not it"

    party = {"id": made.output["id"]}
    await one.done("rename_party", {**party, "name": "Kato Ltd"})
    read = await one.done("get_party", party, purpose="read")
    assert (read.output["name"], read.output["email"], read.output["active"]) == ("Kato Ltd", given["email"], True)
    await one.done("archive_party", party)
    assert not tryton.parties(given["email"])[0]["active"]
    assert (await one.done("get_party", party, purpose="read")).output["active"] is False
    assert (await one.done("create_party", given, "am_1", "lookup")).count == 1, "archived parties are ours too"
    await one.undone("archive_party", party, made)
    assert tryton.parties(given["email"])[0]["active"]

    phone = {"party": made.output["id"], "type": "phone", "value": "+81 3 1234 5678"}
    contact = await one.done("add_contact", phone)
    note = await one.done("add_note", {"party": made.output["id"], "text": "Stopped: <declined>"})
    search = "model.ir.note.search_read"
    assert [row["message"] for row in tryton.call(search, [], 0, 9, None, ["message"], {})] == ["Stopped: <declined>"]
    assert (await one.done("get_party", party, purpose="read")).output["phone"] == phone["value"]
    await one.undone("add_contact", phone, contact)
    await one.undone("add_note", {"party": made.output["id"], "text": ""}, note)
    assert tryton.call(search, [], 0, 9, None, ["message"], {}) == []
    await one.undone("create_party", given, made)
    assert tryton.parties(given["email"]) == []
    assert (await one.done("get_party", party, purpose="read")).output == {"found": False}
    assert proxy.count("common.db.login") == 1, "one session serves them all"
    assert one.applied == set(one.connector.actions), "as the file says of its proof"


async def test_a_session_that_is_over_costs_one_more_log_in_and_no_effect(
    tryton: Tryton, one: Bench, proxy: FaultProxy
) -> None:
    await one.done("get_party", {"id": 1}, purpose="read")
    tryton.end_sessions()
    proxy.clear()
    reads = [one.done("get_party", {"id": 1}, purpose="read") for _ in range(4)]
    await asyncio.gather(one.done("create_party", new("kato@over.test")), *reads)
    assert len(tryton.parties("kato@over.test")) == 1
    assert proxy.count("common.db.login") == 1


async def test_what_it_refuses_with_status_200_is_refused(tryton: Tryton, one: Bench, tmp_path: Path) -> None:
    for action, given in (
        ("rename_party", {"id": 4711, "name": "x"}),
        ("archive_party", {"id": 4711}),
        ("add_note", {"party": 4711, "text": "x"}),
    ):
        found = await one.call(action, given)
        assert (found.result, found.reason) == ("refused", "invalid"), (action, found)
        assert '"' in found.summary, "it is told in Tryton's own words"
    nowhere = await one.call("create_party", new("a@nowhere.test"))
    assert nowhere.result == "applied"
    async with bench(
        shipped_kind("tryton"), tmp_path / "a", line(tryton), {"TRYTON_PASSWORD": "wr0ng-passw0rd"}
    ) as bad:
        found = await bad.call("create_party", new("b@nowhere.test"))
    assert (found.result, found.reason) == ("not_sent", "forbidden")
    other = {**line(tryton), "database": "nothing"}
    async with bench(shipped_kind("tryton"), tmp_path / "b", other, SECRETS) as bad:
        assert (await bad.call("create_party", new("b@nowhere.test"))).result == "not_sent"
    assert tryton.parties("b@nowhere.test") == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_said_of_a_call_that_went_wrong_is_so(
    tryton: Tryton, one: Bench, proxy: FaultProxy, fault: Fault
) -> None:
    given, effects = new(f"{fault}@fault.test"), int(fault in HAPPENS)
    await one.done("get_party", {"id": 1}, purpose="read")  # the log-in is not what is tried here
    await honest(proxy, one, "create_party", given, fault=fault, match="party.create")
    assert len(tryton.parties(given["email"])) == effects
    assert (await one.done("create_party", given, f"am_{fault}", "lookup")).count == effects
    if not effects:
        await one.done("create_party", given, f"am_{fault}")
    (party,) = tryton.parties(given["email"])
    await honest(proxy, one, "archive_party", {"id": party["id"]}, fault=fault, match="party.write")
    assert bool(tryton.parties(given["email"])[0]["active"]) is not bool(effects)
    await honest(proxy, one, "get_party", {"id": party["id"]}, fault=fault, match="search_read")


@pytest.mark.parametrize("fault", ["refused", "unavailable", "lost"])
async def test_a_log_in_that_goes_wrong_sends_nothing(
    tryton: Tryton, one: Bench, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.plan("common.db.login", fault)
    found = await one.call("create_party", new(f"{fault}@login.test"))
    assert found.result == "not_sent", found
    assert tryton.parties(f"{fault}@login.test") == []
    assert (await one.call("create_party", new(f"{fault}@login.test"))).result == "applied", (
        "the next one logs in again"
    )


def test_the_check_of_a_user_holds(tryton: Tryton, tmp_path: Path) -> None:
    told = prove(tmp_path, "tryton", line(tryton), SECRETS, {"type": "phone"})
    # an id of -1 meets an assertion in Tryton, which tells nothing of what it did: unknown, and not refused
    assert [one for one in told.fails if ": wrong input refused: " not in one] == []
    assert not any("create_" in one or "add_" in one for one in told.fails)
    assert told.holds >= {
        "create_party: not found before", "create_party: is done", "create_party: found afterwards", "create_party: found by email",
        "create_party: undone by delete_party", "add_contact: undone by delete_contact", "get_party: is read",
    }  # fmt: skip
