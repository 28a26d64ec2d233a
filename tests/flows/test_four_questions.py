"""The questions that every team has, on real servers: a task of ours, a notice to a customer, points. (An outside agent
has tests of its own.) Their flow tests tell the same stories; here the answers are lost for real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runner.app import Amends
from runner.contract import Json
from runner.core.state import State
from runner.people.operations import Order
from runner.store.facts import RunView
from tests.flows.stage import LIMIT, PATIENCE, Stage, project_of, staged
from tests.support.says import DROP_AFTER, DROP_BEFORE, refused
from tests.support.smtp_service import SmtpScript

REQUEST = {"request": "IR-7", "asked_by": "colleague@shop.test", "what": "A second screen"}
NOTICE = {
    "notice": "N-1", "customer": "c7", "email": "kato@customer.test", "subject": "New prices", "text": "A cup is 900 JPY.",
    "details": "All prices.",
}  # fmt: skip
POINTS = {"case": "PC-1", "customer": "m7", "points": 300, "reason": "The cup came broken"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path / "flows") as ready:
        ready.shop.world.put("/contacts/c7", {"name": "Kato", "email": "kato@customer.test", "status": "new"})
        ready.shop.world.put("/members/m7", {"points": 1000})
        yield ready


def answer(stage: Stage, run: str, action: str, by: str = "person:tom", **output: Json) -> RunView:
    """Answers the run's open question, and follows it until it rests."""

    async def act() -> RunView:
        amends = Amends(project_of(stage.folder))
        try:
            async with asyncio.timeout(LIMIT), amends.driver() as driver:
                await driver.act(run, Order(action=action, by=by, output=output, reason="I have looked."))
                return await driver.follow(run, lambda: None, PATIENCE)
        finally:
            amends.close()

    return asyncio.run(act())


def state_of(stage: Stage, run: str) -> State:
    amends = Amends(project_of(stage.folder))
    try:
        return amends.state(run)[1]
    finally:
        amends.close()


def requests_for(stage: Stage, path: str) -> list[str]:
    return [f"{seen.method} {' '.join(seen.query)}".strip() for seen in stage.shop.requests if seen.path == path]


# --- an internal task ------------------------------------------------------------------------------------------------


def test_a_request_is_one_ticket_whose_id_is_kept(stage: Stage) -> None:
    run = stage.run("internal_request", REQUEST)
    again = stage.run("internal_request", REQUEST)
    assert (run.status, again.run) == ("succeeded", run.run)
    assert stage.made("/tickets") == ["POST /tickets"]
    state = state_of(stage, run.run)
    assert state.outputs == {"ticket": "tickets-1"}
    assert state.effects[1].external_id == "tickets-1"
    assert "It is ticket tickets-1." in stage.mail.mails[0].text


@pytest.mark.parametrize(
    ("lost", "asked"),
    [
        (DROP_AFTER, ["GET number", "POST", "GET reference"]),
        (DROP_BEFORE, ["GET number", "POST", "GET reference", "POST"]),
    ],
    ids=["it happened", "it did not"],
)
def test_the_desk_is_asked_before_a_second_try(stage: Stage, lost: object, asked: list[str]) -> None:
    stage.shop.script("POST /tickets", lost)  # type: ignore[arg-type]
    run = stage.run("internal_request", REQUEST)
    assert (run.status, stage.made("/tickets")) == ("succeeded", ["POST /tickets"])
    assert requests_for(stage, "/tickets") == asked


def test_a_request_that_cannot_be_confirmed_leaves_no_ticket(stage: Stage) -> None:
    stage.mail.tell(SmtpScript(replies={"colleague@shop.test": "550 5.1.1 gone"}))
    run = stage.run("internal_request", REQUEST)
    assert (run.status, run.stands) == ("compensated", 0)
    assert stage.made("/tickets") == ["POST /tickets", "POST /tickets/tickets-1/close"]


# --- a customer notice -----------------------------------------------------------------------------------------------


def told(stage: Stage, given: Mapping[str, Json] = NOTICE) -> RunView:
    run = stage.run("customer_notice", given)
    assert (run.status, stage.subjects()) == ("waiting", [])
    return stage.decide(run.run, "yes", "person:tom")


def test_a_customer_is_told_and_gets_the_details(stage: Stage) -> None:
    assert told(stage).status == "succeeded"
    assert stage.subjects() == ["New prices", "Details: New prices"]


def test_a_letter_of_which_nobody_knows_stops_every_later_one(stage: Stage) -> None:
    stage.mail.tell(SmtpScript(after_dot=["ok", "ok", "drop"]))  # two who are asked to approve, then the customer
    run = told(stage)
    assert (run.status, run.at_step, stage.subjects()) == ("needs_person", "letter", ["New prices"])
    other = stage.run("customer_notice", {**NOTICE, "notice": "N-2"})
    other = stage.decide(other.run, "yes", "person:tom")
    assert (other.status, other.at_step) == ("waiting", "told")
    assert other.waiting_for.startswith(f"waits for customer/c7, which run {run.run} (customer_notice) ")
    assert stage.subjects() == ["New prices"], "no letter left, of neither run"
    answer(stage, run.run, "compensate")
    run = answer(stage, run.run, "happened")
    assert stage.shop.world.record("/contacts/c7") == {
        "id": "c7", "name": "Kato", "email": "kato@customer.test", "status": "needs_review",
    }  # fmt: skip
    assert (run.status, stage.subjects()) == ("compensating", ["New prices"])
    assert stage.decide(run.run, "yes", "person:aya").status == "compensated"
    assert stage.subjects()[:2] == ["New prices", "Correction: New prices"]


# --- points ----------------------------------------------------------------------------------------------------------


def test_points_are_added_once(stage: Stage) -> None:
    stage.shop.world.put("/members/m7", {"points": 0})
    assert stage.run("points_credit", POINTS).status == "succeeded"
    assert stage.made("/members") == ["POST /members/m7/credit"]


def test_points_of_which_nobody_knows_are_never_added_again_and_the_difference_is_seen(stage: Stage) -> None:
    stage.shop.script("POST /members/*", DROP_AFTER)
    run = stage.run("points_credit", POINTS)
    assert (run.status, run.needs, stage.made("/members")) == (
        "needs_person",
        "team:finance",
        ["POST /members/m7/credit"],
    )
    assert len(stage.subjects("aya")) == len(stage.subjects("tom")) == 1
    other = stage.run("points_credit", {**POINTS, "case": "PC-2"})
    assert (other.status, other.at_step) == ("waiting", "added")
    stage.shop.world.put("/members/m7", {"points": 1200})
    run = answer(stage, run.run, "happened", id="e1")
    question = state_of(stage, run.run).open_handoffs[0]
    assert (run.status, run.at_step) == ("needs_person", "difference")
    assert dict(question.show) == {"before": 1000, "added": 300, "expected": 1300, "there": 1200, "difference": -100}
    assert answer(stage, run.run, "go_on").status == "succeeded"
    posts = [seen for seen in stage.shop.requests if seen.method == "POST" and seen.path.startswith("/members")]
    assert len(posts) <= 2, "one of each run, and no second try"


def test_points_that_are_refused_leave_nothing(stage: Stage) -> None:
    stage.shop.script("POST /members/*", refused(422, "The account is closed."))
    run = stage.run("points_credit", POINTS)
    assert (run.status, run.summary, run.stands) == ("failed", "The account is closed.", 0)
