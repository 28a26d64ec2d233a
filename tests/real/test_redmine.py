"""redmine.yaml against Debian's Redmine, asked by REST beside us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.bench import FAULTS, HAPPENS, Bench, bench, honest, shipped_kind
from tests.real.proved import prove
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.redmine import PROJECT, Redmine, running_redmine

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def redmine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redmine]:
    with running_redmine(tmp_path_factory.mktemp("redmine")) as server:
        yield server


def line(redmine: Redmine, origin: str = "") -> dict[str, Any]:
    return {
        "origin": origin or f"http://127.0.0.1:{redmine.port}",
        "key": {"secret": "REDMINE_KEY"},
        "reference_field": redmine.reference_field,
    }


@pytest.fixture
async def proxy(redmine: Redmine) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(redmine.port) as made:
        yield made


@pytest.fixture
async def one(redmine: Redmine, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(
        shipped_kind("redmine"), tmp_path, line(redmine, proxy.origin), {"REDMINE_KEY": redmine.key}
    ) as made:
        yield made


def new(subject: str) -> dict[str, Any]:
    return {"project": PROJECT, "subject": subject, "description": "One\nline & <more>", "due_date": "2027-01-31"}


async def test_every_action_does_there_what_it_says(redmine: Redmine, one: Bench) -> None:
    assert (await one.done("create_issue", new("Onboard Kato"), "am_1", "lookup")).count == 0
    made = await one.done("create_issue", new("Onboard Kato"), "am_1")
    (issue,) = redmine.issues("Onboard Kato")
    assert str(issue["id"]) == made.external_id == made.output["id"]
    assert (issue["description"], issue["due_date"]) == ("One\r\nline & <more>", "2027-01-31")  # its own line breaks
    assert issue["custom_fields"][0]["value"] == "am_1"
    asked = await one.done("create_issue", new("Onboard Kato"), "am_1", "lookup")
    assert (asked.count, asked.external_id, dict(asked.output)) == (1, made.external_id, dict(made.output))
    assert (await one.done("create_issue", new("Onboard Kato"), "am_", "lookup")).count == 0, (
        "a part of our key is not it"
    )
    read = await one.done("get_issue", {"id": made.external_id}, purpose="read")
    assert dict(read.output) == {"id": made.external_id, "subject": "Onboard Kato", "status": "New", "found": True}

    await one.done("update_issue", {"id": made.external_id, "subject": "Onboard Ito", "status": 5})
    await one.done("comment", {"id": made.external_id, "notes": "Stopped: the card was declined"})
    told = redmine.call("GET", f"/issues/{made.external_id}.json?include=journals")[1]["issue"]
    assert (told["subject"], told["status"]["name"], told["due_date"]) == ("Onboard Ito", "Closed", "2027-01-31")
    assert [note["notes"] for note in told["journals"] if note["notes"]] == ["Stopped: the card was declined"]
    closed = await one.done("create_issue", new("Onboard Kato"), "am_1", "lookup")
    assert closed.count == 1, "closed issues count"
    await one.undone("create_issue", new("Onboard Kato"), made)
    assert redmine.call("GET", f"/issues/{made.external_id}.json")[0] == 404
    assert (await one.done("get_issue", {"id": made.external_id}, purpose="read")).output == {"found": False}
    assert one.applied == set(one.connector.actions), "as the file says of its proof"


async def test_what_it_refuses_is_said_in_its_words(redmine: Redmine, one: Bench, tmp_path: Path) -> None:
    empty = await one.call("create_issue", {"project": PROJECT, "subject": " "})
    assert (empty.result, empty.reason, empty.summary) == ("refused", "invalid", "Subject cannot be blank")
    nowhere = await one.call("create_issue", {"project": "nowhere", "subject": "x"})
    assert (nowhere.result, nowhere.reason) == ("refused", "invalid")
    assert nowhere.summary.startswith("Project cannot be blank; ")
    for action, given in (
        ("comment", {"id": "4711", "notes": "x"}),
        ("delete_issue", {"id": "4711"}),
    ):
        found = await one.call(action, given)
        assert (found.result, found.reason) == ("refused", "not_found"), (action, found)
    async with bench(shipped_kind("redmine"), tmp_path, line(redmine), {"REDMINE_KEY": "wr0ng-k3y-s3cret"}) as stranger:
        found = await stranger.call("create_issue", new("Nobody"))
    assert (found.result, found.reason) == ("refused", "forbidden")
    assert redmine.issues("Nobody") == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_said_of_a_call_that_went_wrong_is_so(
    redmine: Redmine, one: Bench, proxy: FaultProxy, fault: Fault
) -> None:
    subject, effects = f"A call that is {fault}", int(fault in HAPPENS)
    await honest(proxy, one, "create_issue", new(subject), fault=fault, match="POST /issues.json")
    assert len(redmine.issues(subject)) == effects
    asked = await one.done("create_issue", new(subject), f"am_{fault}", "lookup")
    assert asked.count == effects, "what the look-up says is so"
    if not effects:
        await one.done("create_issue", new(subject), f"am_{fault}")
    (issue,) = redmine.issues(subject)
    path = f"/issues/{issue['id']}.json"
    await honest(proxy, one, "comment", {"id": str(issue["id"]), "notes": "once"}, fault=fault, match="PUT /issues/")
    notes = redmine.call("GET", f"{path}?include=journals")[1]["issue"]["journals"]
    assert [note["notes"] for note in notes] == ["once"] * effects
    await honest(proxy, one, "get_issue", {"id": str(issue["id"])}, fault=fault, match="GET /issues/")
    await honest(proxy, one, "delete_issue", {"id": str(issue["id"])}, fault=fault, match="DELETE /issues/")
    assert redmine.call("GET", path)[0] == (404 if effects else 200)


def test_the_check_of_a_user_holds(redmine: Redmine, tmp_path: Path) -> None:
    """`amends connectors test`: what is not tested is named, and nothing is left there but what cannot be taken back."""
    told = prove(tmp_path, "redmine", line(redmine), {"REDMINE_KEY": redmine.key}, {"project": PROJECT})
    assert told.fails == []
    assert told.holds >= {
        "create_issue: not found before", "create_issue: is done", "create_issue: found afterwards",
        "create_issue: undone by delete_issue", "comment: is done", "get_issue: is read",
    }  # fmt: skip
    assert redmine.call("GET", "/issues.json?status_id=*&subject=~amends")[1]["issues"] == []
