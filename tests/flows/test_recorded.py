"""Real runs become cases of flow tests: they go as the run went, they are green, and nobody can be known from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import cli
from tests.flows.stage import Stage, staged
from tests.flows.test_examples import INTAKE, INVOICE, ORDER, PAYMENT, REFUND, signed_up
from tests.flows.test_outside_agent import LOOK, MAIL, MARK
from tests.flows.test_outside_agent import played as stage_agent
from tests.support.replay import completion, wanting
from tests.support.says import DROP_AFTER, refused
from tests.support.smtp_service import SmtpScript

SIGNUP = """\
# yaml-language-server: $schema=schemas/flow_test.schema.json
test: signup_to_paid

cases:
  - case: As it went
    now: "A DAY"
    inputs:
      amount: { currency: JPY, value: 12000 }
      email: person1@example.test
      name: Person 1
      plan: basic
    services:
      plan: { gives: { label: Basic } }
      contact: { gives: { email: person1@example.test, id: contacts-1, name: Person 1 } }
      task: { gives: { id: tasks-1 } }
      paid: { refused: invalid, say: the bank of Person 1 (person1@example.test) says no }
    people: { go: { say: yes, by: person:tom }, undo welcome: { say: yes, by: person:aya } }
    expect:
      end: compensated
      calls:
        - contact: { name: Person 1, email: person1@example.test, note: none }
        - task: { title: Onboard Person 1 on Basic, due: "A DAY" }
        - welcome: { subject: Welcome to the Basic plan, to: person1@example.test }
        - paid: { customer: contacts-1, amount: 12000 }
      compensations:
        - task: { id: tasks-1, comment: "Stopped, the bank of Person 1 (person1@example.test) says no" }
        - contact: { id: contacts-1, status: needs_review }
        - welcome: { subject: A correction to our welcome, to: person1@example.test }
      asked: [go, undo welcome]
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path / "flows") as ready:
        for test in ready.folder.glob("*.test.yaml"):
            test.unlink()
        yield ready


def recorded(stage: Stage, run: str, flow: str, name: str = "As it went") -> str:
    """The flow's test with a case out of this run, which is played at once."""
    assert cli.run_command(["--project", str(stage.folder), "test", "--record", run, "--as", name]) == 0
    assert cli.run_command(["--project", str(stage.folder), "test", flow]) == 0
    return (stage.folder / f"{flow}.test.yaml").read_text(encoding="utf-8")


def test_a_signup_with_its_persons_replaced(stage: Stage) -> None:
    stage.shop.script("POST /payments", refused(422, "the bank of Kato (kato@customer.test) says no"))
    run = signed_up(stage)
    stage.decide(run.run, "yes", "person:tom")
    assert stage.decide(run.run, "yes", "person:aya").status == "compensated"
    text = recorded(stage, run.run, "signup_to_paid")
    assert re.sub(r'"[0-9: -]{10,16}"', '"A DAY"', text) == SIGNUP


def test_a_lost_answer_a_found_record_and_a_person_who_looked(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.world.put("/orders/by-hand", {"number": "00123"})
    stage.shop.script("POST /reservations", DROP_AFTER)
    stage.shop.script("POST /shipments", DROP_AFTER)
    run = stage.run("stock_order", ORDER)
    answer = ["runs", "settle", run.run, "shipment", "--happened", "id=s_1", "--reason", "Seen at the carrier."]
    assert cli.run_command(["--project", str(stage.folder), *answer]) == 0
    text = recorded(stage, run.run, "stock_order")
    assert "order: { found: { id: by-hand, number:" in text
    assert "shipment: { say: happened, by: person:me, why: Seen at the carrier., output: { id: s_1 } }" in text
    assert "end: succeeded" in text


def test_a_list_with_an_item_that_is_set_aside(stage: Stage) -> None:
    stage.shop.world.put("/invoices/INV-1", INVOICE)
    stage.shop.world.put("/invoices/INV-2", {**INVOICE, "email": "mori@customer.test", "customer": "Mori"})
    stage.mail.tell(SmtpScript(replies={"mori@customer.test": "550 5.1.1 gone"}))
    run = stage.run("reminders_due", {"day": "2026-09-07"})
    assert run.status == "needs_person"
    text = recorded(stage, run.run, "reminders_due")
    assert "letters/reminder/reminder (INV-2): { refused: invalid" in text
    assert "customer.test" not in text
    assert "Mori" not in text


def test_two_cases_in_one_file_and_branches_at_once(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    first = stage.run("order_intake", INTAKE)
    stage.shop.script("POST /orders", refused(422, "orders are closed"))
    second = stage.run("order_intake", {**INTAKE, "number": "00124"})
    recorded(stage, first.run, "order_intake", "All is well")
    text = recorded(stage, second.run, "order_intake", "The shop says no")
    assert text.count("  - case: ") == 2
    assert "kato" not in text.lower()


def test_what_a_person_did_beside_the_flow_cannot_be_told(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    run = stage.run("refund_request", {**REFUND, "amount": 60000})
    assert cli.run_command(["--project", str(stage.folder), "runs", "stop", run.run]) == 0
    assert cli.run_command(["--project", str(stage.folder), "test", "--record", run.run]) == 2
    assert f"run {run.run} cannot become a case: it was stopped by hand" in capsys.readouterr().err
    assert not (stage.folder / "refund_request.test.yaml").exists()


def test_an_agent_turn_by_turn(stage: Stage) -> None:
    stage.shop.world.put("/contacts/c1", {"name": "Kato", "email": "kato@customer.test", "status": "new"})
    turns = (wanting("openai", LOOK), wanting("openai", MARK), wanting("openai", MAIL), completion("Done."))
    run = stage_agent(stage, *turns)
    assert stage.decide(run.run, "yes", "person:tom").status == "succeeded"
    text = recorded(stage, run.run, "outside_agent")
    assert 'model (3): { gives: { calls: [{ input: { status: in_work }, tool: mark, wrong: "" }], text: "" } }' in text
    assert "answer (6): { say: yes, by: person:tom }" in text
    assert "kato" not in text.lower()


def test_a_secret_that_somebody_typed_in_is_in_no_case(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    run = stage.run("refund_request", {**REFUND, "reason": "the token is stage-token, I think", "amount": 60000})
    text = recorded(stage, run.run, "refund_request")
    assert "stage-token" not in text
    assert "mori@" not in text
