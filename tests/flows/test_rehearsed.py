"""Every example has a flow test that is green; and a mistake in a flow turns its test red."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from runner.language.project import flow_of
from runner.outside import ProjectOutside
from runner.rehearsal.suite import Outcome, rehearse
from tests.flows.stage import FLOWS, copy_flows, project_of
from tests.flows.test_examples import EXAMPLES


def played(folder: Path, flow: str) -> Outcome:
    project = project_of(folder)
    outside = ProjectOutside(project)
    return rehearse(project, folder / f"{flow}.test.yaml", lambda bundle: partial(outside.connector, bundle))


def told(outcome: Outcome) -> str:
    """What is wrong, for whoever reads a failed test."""
    problems = [f"{one.line} {one.what}" for one in outcome.problems]
    differences = [
        f"{verdict.case} | {line} {one.what} | {'; '.join(one.lines)}"
        for verdict in outcome.verdicts
        for line, one in verdict.differences
    ]
    return "\n".join([*problems, *differences])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)


def test_every_example_has_a_flow_test() -> None:
    assert [flow_of(path.name) for path in project_of(FLOWS).flow_tests()] == EXAMPLES


@pytest.mark.parametrize("flow", EXAMPLES)
def test_every_case_of_the_examples_is_green_and_together_they_reach_everything(flow: str) -> None:
    outcome = played(FLOWS, flow)
    assert outcome.is_green, told(outcome)
    assert outcome.missed == []


def swapped(text: str, first: str, second: str) -> str:
    """The text with two of its steps in each other's place, each with the lines below it."""
    blocks = text.split("\n\n")
    one, other = (next(n for n, block in enumerate(blocks) if f"- id: {name}\n" in block) for name in (first, second))
    blocks[one], blocks[other] = blocks[other], blocks[one]
    return "\n\n".join(blocks)


NO_UNDO = "    compensate: { none: It does no harm. }\n"


@pytest.mark.parametrize(
    ("flow", "before", "after"),
    [
        ("signup_to_paid", "mark: crm.update_contact\n      with: { id: \"${{ output.id }}\", status: needs_review }", "none: no"),
        ("signup_to_paid", "    find: { email: \"${{ inputs.email }}\" }\n", ""),
        ("signup_to_paid", "add_days(3)", "add_days(4)"),
        ("signup_to_paid", "inputs.amount.value }}", "steps.plan.price + 1 }}"),
        ("signup_to_paid", "by: team:sales_leads\n    within", "by: person:aya\n    within"),
        ("invoice_reminder", '== "open"', '!= "gone"'),
        ("refund_request", "inputs.amount > 50000", "inputs.amount > 500000"),
        ("refund_request", "    if_refused: continue  # a note that cannot be written is no reason to ask the money back\n", ""),
        ("order_intake", "inputs.amount > 50000 }}", "inputs.amount > 5000 }}"),
        ("order_intake", "      quarantine: order", "      none: It stays."),
        ("stock_order", "    compensate: cancel  # the connector names the undo itself\n", NO_UNDO),
        ("stock_order", "default(0)", "default(1)"),
        ("supplier_onboarding", "tries: 3", "tries: 4"),
        ("supplier_onboarding", "  tell: team:purchasing", "  tell: person:tom"),
        ("reminders_due", "if_one_fails: continue", "if_one_fails: stop"),
        ("goods_return", "within: 14 days", "within: 2 days"),
        ("goods_return", '!= "good"', '== "damaged"'),
        ("goods_return", "  then_run: return_failed\n  with:\n    order: ${{ inputs.order }}", "  then_run: return_failed\n  with:\n    order: none"),
        ("return_failed", "    compensate: cancel\n", NO_UNDO),
        ("mail_desk", "may_edit: [answer.text]", "if_no: continue"),
        ("internal_request", '    find: { number: "${{ inputs.request }}" }', '    # find: nothing'),
        ("internal_request", "ticket: ${{ steps.ticket.id }}", "ticket: unknown"),
        ("points_credit", "    lock: {", "    # lock: {"),
        ("points_credit", "- steps.before.points - inputs.points", "- steps.before.points"),
        ("customer_notice", "mark: crm.update_contact\n      with: { id: \"${{ inputs.customer }}\", status: needs_review }", "none: It stays."),
        ("customer_notice", "covers: [letter, details]", "covers: [letter]"),
        ("outside_agent", "compensate: cancel", "compensate: { none: It does no harm. }"),
        ("outside_agent", "calls: 8", "calls: 3"),
        ("parcel_scanned", "condition: \"${{ inputs.condition }}\"", "condition: good"),
    ],
)  # fmt: skip
def test_a_changed_flow_turns_its_test_red(folder: Path, flow: str, before: str, after: str) -> None:
    file = folder / f"{flow}.yaml"
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")
    assert not played(folder, flow).is_green


@pytest.mark.parametrize(
    ("flow", "first", "second"),
    [
        ("signup_to_paid", "contact", "plan"),
        ("signup_to_paid", "task", "contact"),
        ("signup_to_paid", "welcome", "paid"),
        ("refund_request", "note", "confirmation"),
        ("stock_order", "reservation", "order"),
        ("supplier_onboarding", "newsletter", "portal"),
        ("goods_return", "expected", "parcel"),
        ("return_failed", "note", "letter"),
    ],
)
def test_two_steps_in_each_others_place_turn_its_test_red(folder: Path, flow: str, first: str, second: str) -> None:
    file = folder / f"{flow}.yaml"
    file.write_text(swapped(file.read_text(encoding="utf-8"), first, second), encoding="utf-8")
    assert not played(folder, flow).is_green
