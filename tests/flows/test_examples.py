"""Every example runs against real servers: when all is well, and when something fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.app import Amends
from runner.core.state import State
from runner.errors import NotPossible
from runner.store.facts import RunView
from tests.flows.stage import FLOWS, Stage, copy_flows, project_of, staged
from tests.support.replay import CHAT, completion, rate_limited
from tests.support.says import DROP_AFTER, Say, late, refused
from tests.support.smtp_service import SmtpScript

SETTINGS = {"amends.yaml", "people.yaml", "connections.yaml"}
EXAMPLES = sorted(path.stem for path in FLOWS.glob("*.yaml") if path.name not in SETTINGS and "." not in path.stem)

INVOICE = {"customer": "Kato & Co", "email": "kato@customer.test", "amount": 5500, "status": "open"}
PAYMENT = {"order": "order-7", "amount": 80000, "status": "paid"}
REFUND = {
    "request": "RQ-1",
    "payment": "pay-1",
    "email": "mori@customer.test",
    "amount": 3000,
    "reason": "broken\non arrival",
}
INTAKE = {
    "number": "00123", "sku": "cup", "quantity": 3, "amount": 60_000, "name": "Kato", "email": "kato@customer.test",
}  # fmt: skip
ORDER = {"number": "00123", "sku": "cup", "quantity": 3}
SUPPLIER = {"name": " Ito Tea ", "tax_number": "0012", "email": "ito@tea.test", "newsletter": True}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path / "flows") as ready:
        yield ready


def state_of(stage: Stage, run: str) -> State:
    amends = Amends(project_of(stage.folder))
    try:
        return amends.state(run)[1]
    finally:
        amends.close()


def test_every_example_is_tried_here() -> None:
    assert [*EXAMPLES] == [
        "customer_notice",
        "goods_return",
        "internal_request",
        "invoice_reminder",
        "mail_desk",
        "order_intake",
        "outside_agent",
        "parcel_scanned",
        "points_credit",
        "refund_request",
        "reminders_due",
        "return_failed",
        "signup_to_paid",
        "stock_order",
        "supplier_onboarding",
    ]


@pytest.mark.parametrize("flow", EXAMPLES)
def test_the_check_has_nothing_to_say(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BACKOFFICE_TOKEN", "SHOP_TOKEN", "AI_KEY", "DESK_BOX"):
        monkeypatch.setenv(name, "set for this test")
    project = project_of(FLOWS)
    assert project.problems() == ()
    assert {problem.code for problem in project.check(flow)[0].problems} <= {"FL210"}  # none of them is drilled here


@pytest.mark.parametrize(
    ("flow", "line", "code"),
    [
        ("signup_to_paid", "    accept_order: The welcome may go out first, a correction is ready.\n", "FL204"),
        ("signup_to_paid", "      approve_by: team:sales_leads\n", "FL203"),
        ("signup_to_paid", "run_key: ${{ trigger.id }}  # by hand: --key; the same key twice is one run\n", "FL209"),
        ("refund_request", "    accept_order: The customer is told after the money has left, never before.\n", "FL204"),
        ("stock_order", "    compensate: cancel  # the connector names the undo itself\n", "FL202"),
        ("invoice_reminder", '    when: ${{ outcome.reminder == "done" }}\n', None),
        ("supplier_onboarding", '    with: { email: "${{ inputs.email }}" }\n', "FL208"),
        ("reminders_due", '        with: { invoice: "${{ item.id }}", level: "${{ inputs.level }}" }\n', "FL208"),
        ("goods_return", "    unattended: The parcel is here and in order, or finance has looked.\n", "FL203"),
        ("return_failed", "run_key: ${{ trigger.id }}\n", "FL209"),
    ],
)
def test_the_words_of_the_examples_are_there_for_a_reason(
    tmp_path: Path, flow: str, line: str, code: str | None
) -> None:
    folder = copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    file = folder / f"{flow}.yaml"
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, ""), encoding="utf-8")
    found = {problem.code for problem in project_of(folder).check(flow)[0].problems}
    assert found - {"FL210"} == ({code} if code else set())


# --- signup_to_paid ------------------------------------------------------------------------------------------------

SIGNUP = {"name": "Kato", "email": "kato@customer.test", "plan": "basic", "amount": "12000 JPY"}


def signed_up(stage: Stage) -> RunView:
    """The run of a signup, where it asks."""
    stage.shop.world.put("/plans/basic", {"code": "basic", "label": "Basic", "price": 12000})
    made = {"name": "Kato", "email": "kato@customer.test", "title": "Onboard", "status": "open"}
    for path in ("contacts", "tasks", "payments"):
        stage.shop.script(f"POST /{path}", Say(status=201, json={**made, "id": f"{path}-1"}))
    stage.shop.script("POST /tasks/*", Say(json={"id": "tasks-1", "status": "closed"}))
    return stage.run("signup_to_paid", SIGNUP, "signup-1")


def test_a_signup_waits_for_a_yes_and_then_is_welcomed_and_paid(stage: Stage) -> None:
    run = signed_up(stage)
    assert (run.status, run.waiting_for, stage.subjects()) == ("waiting", "an approval by team:sales_leads", [])
    assert len(stage.subjects("aya")) == len(stage.subjects("tom")) == 1
    assert stage.made("/") == ["POST /contacts", "POST /tasks"]
    with pytest.raises(NotPossible, match="you cannot decide this: it is asked of team:sales_leads"):
        stage.decide(run.run, "yes", "person:me")
    assert stage.decide(run.run, "yes", "person:tom").status == "succeeded"
    assert (stage.subjects(), stage.made("/payments")) == (["Welcome to the Basic plan"], ["POST /payments"])


def test_a_signup_that_is_not_wanted_is_made_good(stage: Stage) -> None:
    run = signed_up(stage)
    assert stage.decide(run.run, "no", "person:aya").status == "compensated"
    assert (stage.subjects(), stage.made("/payments")) == ([], [])
    assert stage.made("/tasks") == ["POST /tasks", "POST /tasks/tasks-1/close"]


def test_the_correction_of_a_signup_is_asked_about_too(stage: Stage) -> None:
    stage.shop.script("POST /payments", refused(422, "the bank says no"))
    run = signed_up(stage)
    run = stage.decide(run.run, "yes", "person:tom")
    assert (run.status, len(stage.subjects())) == ("compensating", 1)
    assert stage.decide(run.run, "yes", "person:aya").status == "compensated"
    assert stage.subjects()[1:] == ["A correction to our welcome"]


# --- invoice_reminder ----------------------------------------------------------------------------------------------


def test_an_open_invoice_is_reminded_once_and_noted(stage: Stage) -> None:
    stage.shop.world.put("/invoices/INV-1", INVOICE)
    first = stage.run("invoice_reminder", {"invoice": "INV-1"})
    again = stage.run("invoice_reminder", {"invoice": "INV-1"})
    assert (first.status, first.run) == ("succeeded", again.run)
    assert stage.subjects() == ["Your invoice INV-1 is open"]
    assert "Perhaps it was overlooked" in stage.mail.mails[0].text
    assert state_of(stage, first.run).outputs == {"reminded": True}
    last = stage.run("invoice_reminder", {"invoice": "INV-1", "level": "last"})
    assert last.run != first.run
    assert "seven days" in stage.mail.mails[1].text


def test_a_paid_invoice_is_never_reminded(stage: Stage) -> None:
    stage.shop.world.put("/invoices/INV-1", {**INVOICE, "status": "paid"})
    run = stage.run("invoice_reminder", {"invoice": "INV-1"})
    assert (run.status, stage.subjects()) == ("succeeded", [])
    assert state_of(stage, run.run).outputs == {"reminded": False}


def test_an_unknown_invoice_goes_to_a_person(stage: Stage) -> None:
    run = stage.run("invoice_reminder", {"invoice": "INV-9"})
    assert (run.status, stage.subjects()) == ("needs_person", [])


# --- refund_request ------------------------------------------------------------------------------------------------


def test_a_small_refund_goes_by_itself(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    stage.shop.world.put("/orders/order-7", {})
    run = stage.run("refund_request", REFUND)
    assert run.status == "succeeded"
    assert stage.made("/refunds") == ["POST /refunds"]
    note = stage.shop.world.record("/orders/order-7")
    assert note is not None
    assert note["note"] == "Refund refunds-1 of 3,000 JPY, broken on arrival"
    assert stage.subjects() == ["Your refund of 3,000 JPY"]


def test_a_refund_whose_answer_is_lost_is_paid_once(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    stage.shop.world.put("/orders/order-7", {})
    stage.shop.script("POST /refunds", DROP_AFTER)
    assert stage.run("refund_request", REFUND).status == "succeeded"
    assert stage.made("/refunds") == ["POST /refunds"]


def test_a_large_refund_waits_for_finance(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    run = stage.run("refund_request", {**REFUND, "amount": 60000})
    assert (run.status, stage.made("/refunds")) == ("needs_person", [])


def test_a_note_that_is_refused_does_not_ask_the_money_back(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    run = stage.run("refund_request", REFUND)  # there is no order to note it on
    assert run.status == "succeeded"
    assert state_of(stage, run.run).outputs == {"refund": "refunds-1", "noted": False}


def test_a_customer_who_cannot_be_told_leaves_the_refund_to_a_person(stage: Stage) -> None:
    stage.shop.world.put("/payments/pay-1", PAYMENT)
    stage.shop.world.put("/orders/order-7", {})
    stage.mail.tell(SmtpScript(replies={"mori@customer.test": "550 5.1.1 gone"}))
    run = stage.run("refund_request", REFUND)
    assert run.status == "needs_person"
    assert stage.made("/refunds") == ["POST /refunds"]
    note = stage.shop.world.record("/orders/order-7")
    assert note is not None
    assert note["note"].startswith("The refund is in doubt, ")


# --- mail_desk: replayed, not a model -----------------------------------------------------------------------------

MAIL = {"sender": "kato@customer.test", "subject": "Broken", "text": "Two cups of order 00123 came broken. Kato"}
DETAILS = {"summary": "Two cups came broken", "order": "00123", "wanted_by": None}
DRAFT = "Dear Kato, we are sorry."


def mailed(stage: Stage, choice: str, *more: Say, key: str = "mail-1") -> RunView:
    """A mail came in, and the model says it is of this kind."""
    answers = (completion(json.dumps({"choice": choice})), completion(json.dumps(DETAILS)), completion(DRAFT))
    stage.model.script(f"POST {CHAT}", *more, *answers)
    stage.shop.script("POST /tasks", Say(status=201, json={"id": "tasks-1", "title": "To do", "status": "open"}))
    return stage.run("mail_desk", MAIL, key)


def test_a_mail_is_sorted_and_its_answer_leaves_when_somebody_has_read_it(stage: Stage) -> None:
    run = mailed(stage, "complaint")
    assert (run.status, run.waiting_for, stage.subjects()) == ("waiting", "an approval by team:sales_leads", [])
    assert stage.shop.world.effects[0].body["title"] == "complaint, Two cups came broken"
    assert stage.decide(run.run, "yes", "person:tom").status == "succeeded"
    [letter] = [mail for mail in stage.mail.mails if mail.to == ("kato@customer.test",)]
    assert letter.body().strip() == DRAFT
    assert state_of(stage, run.run).outputs == {"kind": "complaint", "to_do": "tasks-1", "answered": True}
    assert mailed(stage, "order").run == run.run
    assert stage.model.request_count == 3, "the same mail again asks nothing, and pays for nothing"


def test_what_a_model_wrote_does_not_leave_against_a_no(stage: Stage) -> None:
    run = mailed(stage, "order")
    assert stage.decide(run.run, "no", "person:aya").status == "succeeded"
    assert (stage.subjects(), stage.made("/tasks")) == ([], ["POST /tasks"])


def test_an_advertisement_makes_a_to_do_and_is_not_answered(stage: Stage) -> None:
    run = mailed(stage, "other")
    assert (run.status, stage.model.request_count, stage.subjects()) == ("succeeded", 2, [])
    assert state_of(stage, run.run).outputs["answered"] is False


def test_a_model_that_is_busy_and_babbles_is_asked_again_and_one_that_goes_on_ends_the_run(stage: Stage) -> None:
    run = mailed(stage, "other", rate_limited("openai", "0"), completion("It is a complaint, I think!"))
    assert (run.status, stage.model.request_count) == ("succeeded", 4)
    stage.model.script(f"POST {CHAT}", always=completion('{"choice": "spam"}'))
    run = stage.run("mail_desk", MAIL, "mail-2")
    assert (run.status, stage.model.request_count, stage.made("/tasks")) == ("failed", 7, ["POST /tasks"])
    assert run.summary.startswith("name-of-the-model was asked 3 times, and its answer does not fit: choice: must be")


def test_without_the_approval_what_a_model_took_out_of_a_mail_cannot_leave(stage: Stage) -> None:
    stage.change("mail_desk.yaml", "covers: [answer]", "covers: [other]")
    stage.change("mail_desk.yaml", "text: ${{ steps.draft.text }}", "text: About ${{ steps.details.fields.summary }}")
    problems = project_of(stage.folder).check("mail_desk")[0].problems
    [unread] = [problem for problem in problems if problem.code == "FL207"]
    assert unread.what == '"answer" cannot be undone, and nobody has read what "details" answered'


# --- order_intake --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("amount", "called"), [(60_000, True), (4_000, False)], ids=["larger", "small"])
def test_the_amount_decides_and_stock_and_customer_go_at_once(stage: Stage, amount: int, called: bool) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    run = stage.run("order_intake", {**INTAKE, "amount": amount})
    state = state_of(stage, run.run)
    assert run.status == "succeeded"
    assert stage.subjects() == (["Please call Kato about order 00123"] if called else [])
    assert sorted(stage.made("/")) == ["POST /accounts", "POST /orders", "POST /reservations", "POST /subscriptions"]
    assert state.outputs == {"order": "orders-1", "account": "accounts-1", "called": called}
    assert state.steps["counted"].outcome == ("skipped" if called else "done")


def test_a_large_order_waits_for_finance_before_anything_else(stage: Stage) -> None:
    run = stage.run("order_intake", {**INTAKE, "amount": 600_000})
    assert (run.status, run.needs, stage.made("/")) == ("needs_person", "team:finance", [])


def test_an_order_that_is_refused_is_taken_back_in_both_branches(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.script("POST /orders", refused(422, "orders are closed"))
    run = stage.run("order_intake", INTAKE)
    assert run.status == "compensated"
    assert sorted(stage.made("/")[3:]) == ["PATCH /accounts/accounts-1", "POST /reservations/reservations-1/free"]
    account = stage.shop.world.record("/accounts/accounts-1")
    assert account is not None
    assert account["flag"] == "orders are closed"
    assert stage.subjects()[1:] == ["Order 00123 fell through"]


def test_stock_that_is_refused_waits_for_the_account_that_is_being_made(stage: Stage) -> None:
    """Its answer comes after forward was closed: the account is flagged all the same, and nothing more is begun."""
    stage.shop.script("POST /reservations", refused(409, "there are too few"))
    stage.shop.script("POST /accounts", late(400))
    run = stage.run("order_intake", {**INTAKE, "amount": 4_000})
    assert (run.status, run.summary) == ("compensated", "there are too few")
    assert stage.made("/") == ["POST /accounts", "PATCH /accounts/accounts-1"]


def test_two_lost_answers_at_once_are_both_settled(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.script("POST /reservations", DROP_AFTER)
    stage.shop.script("POST /accounts", DROP_AFTER)
    assert stage.run("order_intake", INTAKE).status == "succeeded"
    assert (stage.made("/reservations"), stage.made("/accounts")) == (["POST /reservations"], ["POST /accounts"])


def test_a_customer_we_know_is_never_flagged(stage: Stage) -> None:
    stage.shop.world.put("/accounts/a-1", {"email": "kato@customer.test"})
    stage.shop.script("POST /orders", refused(422))
    assert stage.run("order_intake", INTAKE).status == "compensated"
    assert sorted(stage.made("/")) == ["POST /reservations", "POST /reservations/reservations-1/free"]


# --- stock_order ---------------------------------------------------------------------------------------------------


def test_an_order_is_reserved_written_and_shipped(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    run = stage.run("stock_order", ORDER)
    assert run.status == "succeeded"
    assert [each.path for each in stage.shop.world.effects] == ["/reservations", "/orders", "/shipments"]
    assert stage.shop.world.effects[1].body["number"] == "00123"


def test_a_refused_shipment_frees_the_stock_and_sets_the_order_aside(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.script("POST /shipments", refused(409, "the warehouse is closed"))
    run = stage.run("stock_order", ORDER)
    assert run.status == "compensated"
    assert stage.made("/reservations") == ["POST /reservations", "POST /reservations/reservations-1/free"]
    assert stage.made("/shipments") == []
    amends = Amends(project_of(stage.folder))
    aside = amends.store.quarantined()
    amends.close()
    assert [(each.record, each.run) for each in aside] == [("order/orders-1", run.run)]


def test_a_shipment_whose_answer_is_lost_is_never_sent_again(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.script("POST /shipments", DROP_AFTER)
    assert stage.run("stock_order", ORDER).status == "needs_person"
    assert stage.made("/shipments") == ["POST /shipments"]


def test_an_order_that_is_there_already_is_used_and_not_set_aside(stage: Stage) -> None:
    stage.shop.world.put("/items/cup", {"label": "Cup", "left": 10})
    stage.shop.world.put("/orders/by-hand", {"number": "00123"})
    stage.shop.script("POST /shipments", refused(409))
    assert stage.run("stock_order", ORDER).status == "compensated"
    assert stage.made("/orders") == []
    amends = Amends(project_of(stage.folder))
    aside = amends.store.quarantined()
    amends.close()
    assert list(aside) == []


@pytest.mark.parametrize("left", [2, None])
def test_too_little_stock_goes_to_a_person(stage: Stage, left: int | None) -> None:
    if left is not None:
        stage.shop.world.put("/items/cup", {"label": "Cup", "left": left})
    assert stage.run("stock_order", ORDER).status == "needs_person"
    assert stage.shop.world.effects == []


# --- supplier_onboarding -------------------------------------------------------------------------------------------


def test_the_draft_sends_nothing(stage: Stage) -> None:
    assert stage.run("supplier_onboarding", SUPPLIER).status == "drafted"
    assert stage.shop.world.effects == []


def test_a_supplier_is_set_up_when_the_flow_is_live(stage: Stage) -> None:
    stage.change("supplier_onboarding.yaml", "mode: draft", "mode: live")
    run = stage.run("supplier_onboarding", SUPPLIER)
    assert run.status == "succeeded"
    assert [each.path for each in stage.shop.world.effects] == ["/suppliers", "/subscriptions", "/portal_accounts"]


def test_a_refused_newsletter_is_no_failure_and_a_refused_portal_is_one(stage: Stage) -> None:
    stage.change("supplier_onboarding.yaml", "mode: draft", "mode: live")
    stage.shop.script("POST /subscriptions", refused(422))
    stage.shop.script("POST /portal_accounts", refused(422, "this address is blocked"))
    run = stage.run("supplier_onboarding", SUPPLIER)
    assert run.status == "compensated"
    assert stage.made("/") == ["POST /suppliers", "POST /suppliers/suppliers-1/blocked"]


def test_a_supplier_we_know_is_found_and_never_blocked(stage: Stage) -> None:
    stage.change("supplier_onboarding.yaml", "mode: draft", "mode: live")
    stage.shop.world.put("/suppliers/s-1", {"name": "Ito Tea", "tax_number": "0012"})
    stage.shop.script("POST /portal_accounts", refused(422))
    run = stage.run("supplier_onboarding", {**SUPPLIER, "newsletter": False})
    assert (run.status, stage.made("/")) == ("compensated", [])


# --- reminders_due -------------------------------------------------------------------------------------------------


def open_invoices(stage: Stage, *numbers: str) -> None:
    for number in numbers:
        stage.shop.world.put(f"/invoices/{number}", {**INVOICE, "email": f"{number.lower()}@customer.test"})


def test_every_open_invoice_is_reminded_once(stage: Stage) -> None:
    open_invoices(stage, "INV-1", "INV-2", "INV-3")
    stage.shop.world.put("/invoices/INV-4", {**INVOICE, "status": "paid"})
    run = stage.run("reminders_due", {"day": "2026-09-01"})
    again = stage.run("reminders_due", {"day": "2026-09-01"})
    assert (run.status, again.run) == ("succeeded", run.run)
    assert sorted(stage.subjects()) == [f"Your invoice INV-{number} is open" for number in (1, 2, 3)]
    assert state_of(stage, run.run).outputs == {"looked_at": 3, "not_reminded": []}


def test_an_invoice_whose_letter_is_refused_is_set_aside_and_the_others_go_on(stage: Stage) -> None:
    open_invoices(stage, "INV-1", "INV-2", "INV-3")
    stage.mail.tell(SmtpScript(replies={"inv-2@customer.test": "550 5.1.1 gone"}))
    run = stage.run("reminders_due", {"day": "2026-09-01"})
    assert run.status == "needs_person"
    assert sorted(stage.subjects()) == ["Your invoice INV-1 is open", "Your invoice INV-3 is open"]


# --- goods_return --------------------------------------------------------------------------------------------------

RETURN = {"order": "order-7", "payment": "pay-1", "amount": 3000, "email": "mori@customer.test"}


def test_a_parcel_that_arrives_is_paid_back(stage: Stage) -> None:
    stage.shop.world.put("/orders/order-7", {})
    run = stage.run("goods_return", RETURN)
    assert (run.status, stage.made("/refunds")) == ("waiting", [])
    assert stage.run("parcel_scanned", {"order": "order-8", "condition": "good"}, "scan-1").status == "succeeded"
    assert stage.run("goods_return", RETURN).status == "waiting"
    assert stage.run("parcel_scanned", {"order": "order-7", "condition": "good"}, "scan-2").status == "succeeded"
    assert stage.run("goods_return", RETURN).status == "succeeded"
    assert stage.made("/refunds") == ["POST /refunds"]


def test_a_damaged_parcel_goes_to_a_person(stage: Stage) -> None:
    stage.shop.world.put("/orders/order-7", {})
    stage.run("goods_return", RETURN)
    stage.run("parcel_scanned", {"order": "order-7", "condition": "damaged"}, "scan-1")
    run = stage.run("goods_return", RETURN)
    assert (run.status, stage.made("/refunds")) == ("needs_person", [])


def test_a_return_that_cannot_be_paid_back_is_followed_by_a_letter(stage: Stage) -> None:
    stage.shop.world.put("/orders/order-7", {})
    stage.shop.script("POST /refunds", refused(422, "there is no such payment"))
    stage.run("goods_return", RETURN)
    stage.run("parcel_scanned", {"order": "order-7", "condition": "good"}, "scan-1")
    assert stage.run("goods_return", RETURN).status == "compensated"
    assert stage.subjects() == ["Your return of order order-7"]
    note = stage.shop.world.record("/orders/order-7")
    assert note is not None
    assert note["note"] == "The return went wrong, there is no such payment"
