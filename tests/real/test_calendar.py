"""The calendar against Radicale with a proxy that loses answers, asked by plain HTTP beside us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from connectors.calendar import KIND
from tests.real.bench import FAULTS, HAPPENS, Bench, bench, honest
from tests.real.proved import prove
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.radicale import PASSWORD, USER, ask, running_radicale

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
CALENDAR = "/ops/bookings/"


@pytest.fixture(scope="module")
def radicale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_radicale(tmp_path_factory.mktemp("radicale")) as port:
        yield port


@pytest.fixture
async def proxy(radicale: int) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(radicale) as made:
        yield made


@pytest.fixture
async def one(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Bench]:
    line = {"origin": proxy.origin, "calendar": CALENDAR, "user": USER, "password": {"secret": "DAV"}}
    async with bench(KIND, tmp_path, line, {"DAV": PASSWORD}) as made:
        yield made


def text(radicale: int, uid: str) -> str:
    """The event as the server has it; empty where it has none."""
    return ask(radicale, "GET", f"{CALENDAR}{uid}.ics")[1]


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_said_of_a_call_that_went_wrong_is_so(
    radicale: int, one: Bench, proxy: FaultProxy, fault: Fault
) -> None:
    happened = fault in HAPPENS
    visit = {"summary": f"Visit {fault}", "start": "2027-01-31T10:00:00+09:00", "end": "2027-01-31T11:00:00+09:00"}
    await honest(proxy, one, "create", visit, fault=fault, match="PUT /")
    assert bool(text(radicale, f"am_{fault}")) is happened
    made = await one.done("create", visit, f"am_{fault}")
    assert made.output["uid"] == f"am_{fault}", "its key is its name: a repeat is the same event"
    listed = ask(radicale, "REPORT", CALENDAR, '<c:calendar-query xmlns:c="urn:ietf:params:xml:ns:caldav" xmlns:d="DAV:"><d:prop><d:getetag/></d:prop></c:calendar-query>')  # fmt: skip
    assert listed[1].count(f"am_{fault}.ics") == 1

    change = {"uid": f"am_{fault}", "etag": made.output["etag"], "set": {"summary": "Later"}}
    await honest(proxy, one, "update", change, fault=fault, match="PUT /")
    assert ("SUMMARY:Later" in text(radicale, f"am_{fault}")) is happened
    asked = await one.done("update", change, f"am_{fault}", "lookup")
    assert asked.count == int(happened), "what the look-up says is so"

    await honest(proxy, one, "get", {"uid": f"am_{fault}"}, fault=fault, match="GET /")
    await honest(proxy, one, "cancel", {"uid": f"am_{fault}"}, fault=fault, match="DELETE /")
    assert bool(text(radicale, f"am_{fault}")) is not happened
    await one.done("cancel", {"uid": f"am_{fault}"}, f"am_{fault}")
    assert not text(radicale, f"am_{fault}")


def test_the_check_of_a_user_holds(radicale: int, tmp_path: Path) -> None:
    line = {"origin": f"http://127.0.0.1:{radicale}", "calendar": CALENDAR, "user": USER, "password": {"secret": "DAV"}}
    times = {"start": "2027-01-01T10:00:00Z", "end": "2027-01-01T11:00:00Z", "from": "2027-01-01", "to": "2027-01-02"}
    told = prove(tmp_path, "calendar", line, {"DAV": PASSWORD}, times)
    assert told.fails == []
    assert told.holds >= {
        "create: is done",
        "create: the same key again",
        "create: undone by cancel",
        "find: is read",
        "get: is read",
    }
