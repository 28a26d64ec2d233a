"""Approvals: read whole, and every rule about them with a planted mistake, word for word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.contract import Action
from runner.language.check import check_flow
from runner.language.flow import Approval, Duration
from runner.language.load import load_flow
from runner.language.people import load_people
from tests.language.ground import ACTIONS, facts

PEOPLE = """
people:
  aya: { name: Aya Sato, mail: aya@acme.example, manager: tom }
  tom: { name: Tom Ito, mail: tom@acme.example }
  ken: { name: Ken Oda }
posts: { cfo: aya }
teams:
  leads: { members: [aya, tom] }
"""
SHOP = {
    "shop.lines": Action(name="lines", effect="read", output={"rows": {"list": {"sku": "text", "qty": "number"}}}),
    "shop.pay": Action(
        name="pay", effect="keyed", key_life=10**8, input={"what": "text", "amount": "number or empty"},
        output={"id": "text"}, cannot_undo="Paid is paid.",
    ),
}  # fmt: skip
TEMPLATES = {"plain.md": "subject: Hello\n\nHello.\n", "label.md": "subject: Hello\n\n${{ steps.late.label }}\n"}
HEAD = """flow: flow
title: A small flow
owner: person:me
mode: live
run_key: ${{ inputs.no }}
inputs: { no: text, count: integer, about: text, receipt: file }
steps:
  - { id: got, read: shop.lines }
"""
GO = """  - id: go
    approve: Pay ${{ inputs.no }}?
    covers: [pay]
    by: team:leads
"""
PAY = """  - id: pay
    do: shop.pay
    with: { what: "${{ inputs.no }}", amount: "${{ inputs.count }}" }
    compensate: { hand_off: person:tom }
"""
LATE = '  - { id: late, read: billing.get_plan, with: { code: "x" } }\n'


def told(text: str, **changes: Any) -> list[str]:
    """Every problem as `code what | hint`."""
    flow, source, shape = load_flow(text, "flow.yaml")
    assert flow is not None
    assert source is not None
    people, _, wrong = load_people(PEOPLE, "people.yaml")
    assert not wrong
    around: dict[str, Any] = {"actions": {**ACTIONS, **SHOP}, "people": people, "templates": TEMPLATES} | changes
    found = (*shape, *check_flow(flow, source, replace(facts(), **around)))
    return [f"{one.code} {one.what} | {one.hint}" for one in sorted(found, key=lambda one: (one.line, one.column))]


def gate(old: str, new: str) -> str:
    """The flow whose approval is otherwise."""
    assert old in GO
    return HEAD + GO.replace(old, new) + PAY


def used(expression: str, more: str = "") -> str:
    return f'  - {{ id: last, read: billing.get_plan, {more}with: {{ code: "${{{{ {expression} }}}}" }} }}\n'


# --- how it is read ------------------------------------------------------------------------------------------------


def approval_of(more: str) -> Approval | None:
    flow, _, problems = load_flow(HEAD + GO + more + PAY, "flow.yaml")
    assert flow is not None
    assert problems == ()
    return next(step.approval for step in flow.steps if step.id == "go")


def test_an_approval_is_read_whole_with_its_defaults() -> None:
    question = "Pay ${{ inputs.no }}?"
    assert approval_of("") == Approval(
        question=question, covers=("pay",), by=("team:leads",), shows=(), needs=1,
        within=Duration(amount=2, unit="business_day"), remind=None, escalate_to="", may_edit=(), may_leave_out="",
        if_no="compensate", good_for=Duration(amount=24, unit="hour"), proof="",
    )  # fmt: skip
    whole = """    shows: [inputs.receipt, steps.got.rows]
    needs: 2
    within: 4 business hours
    remind: 1 day
    escalate_to: person:cfo
    may_edit: [pay.what]
    may_leave_out: steps.got.rows
    if_no: continue
    good_for: 2 days
    proof: sign_in
"""
    assert approval_of(whole) == Approval(
        question=question, covers=("pay",), by=("team:leads",), shows=("inputs.receipt", "steps.got.rows"), needs=2,
        within=Duration(amount=4, unit="business_hour"), remind=Duration(amount=1, unit="day"),
        escalate_to="person:cfo", may_edit=("pay.what",), may_leave_out="steps.got.rows", if_no="continue",
        good_for=Duration(amount=2, unit="day"), proof="sign_in",
    )  # fmt: skip


def test_names_of_approvers_are_one_or_several() -> None:
    flow, _, _ = load_flow(gate("team:leads", "[person:aya, 'manager_of:starter']"), "flow.yaml")
    assert flow is not None
    assert flow.steps[1].approval is not None
    assert flow.steps[1].approval.by == ("person:aya", "manager_of:starter")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    covers: [pay]\n", "", 'FL005 an approve step has no "covers" | '),
        ("[pay]", "[]", 'FL006 "covers" is empty | '),
        ("    by: team:leads\n", "", 'FL005 an approve step has no "by" | for example by: team:sales_leads'),
        ("team:leads", "[]", 'FL006 "by" is empty | '),
        ("team:leads", "team:leads\n    needs: 0", 'FL006 "needs" must be at least 1, and 0 is not | '),
        ("team:leads", "team:leads\n    if_no: stop", 'FL006 "if_no" cannot be "stop" | it is one of: compensate, end, continue'),
        ("team:leads", "team:leads\n    proof: none", 'FL006 "proof" cannot be "none" | it is one of: code, sign_in'),
    ],
)  # fmt: skip
def test_a_mistake_in_the_shape(old: str, new: str, expected: str) -> None:
    assert expected in told(gate(old, new))


# --- covers --------------------------------------------------------------------------------------------------------


def test_an_approval_is_enough_for_what_cannot_be_undone() -> None:
    assert told(HEAD + GO + PAY) == []
    assert told(HEAD + PAY) == [
        (
            'FL203 "pay" cannot be undone, and nobody is asked before it | Paid is paid. Put an approve step before it '
            "that covers it, or say why nobody need be asked: unattended: …"
        )
    ]


CHOOSE = """  - id: size
    choose:
      - when: ${{ inputs.count > 3 }}
        steps: [{ id: look, hand_off: person:tom }]
"""
EACH = """  - id: all
    each: ${{ steps.got.rows }}
    if_one_fails: continue
    steps:
      - id: each_pay
        do: shop.pay
        with: { what: "${{ item.sku }}" }
        compensate: { hand_off: person:tom }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + GO + EACH.replace("each_pay", "pay"), []),
        (gate("[pay]", "[pya]"), 'FL302 there is no step "pya" | did you mean "pay"?'),
        (gate("[pay]", "[pay, got]"), 'FL302 "got" is a read step, and an approval covers do steps | '),
        (gate("[pay]", "[pay, all]") + EACH.replace("        compensate", "        unattended: x\n        compensate"), 'FL302 "all" is an each step, and an approval covers do steps | name the do steps inside it'),
        (HEAD + PAY + GO, 'FL302 "pay" stands above "go", and an approval covers later steps | put "go" above it'),
        (
            HEAD + "  - id: both\n    parallel:\n      one:\n" + "".join(f"      {line}\n" for line in GO.splitlines())
            + "      two:\n" + "".join(f"      {line}\n" for line in PAY.splitlines()),
            'FL302 "pay" does not come after "go", and an approval covers later steps | put "go" above it',
        ),
        (HEAD + GO + LATE + PAY.replace("inputs.no", "steps.late.label"), 'FL302 "pay" reads what "late" answers, which is not known yet when "go" asks | put "go" below "late"'),
        (HEAD + GO + LATE + PAY.replace("inputs.no", "steps.late.label | default('x')"), 'FL302 "pay" reads what "late" answers, which is not known yet when "go" asks | put "go" below "late"'),
        (HEAD + GO + LATE + PAY.replace("    with", "    key: ${{ steps.late.label }}\n    with"), 'FL302 "pay" reads what "late" answers, which is not known yet when "go" asks | put "go" below "late"'),
        (HEAD + GO + LATE + PAY.replace("    with", "    when: ${{ steps.late.found }}\n    with"), []),
        (HEAD + GO + PAY.replace("inputs.no", "steps.go.comment"), 'FL302 "pay" reads what "go" answers, and is itself what "go" asks about | '),
        (HEAD + GO + LATE + EACH.replace("each_pay", "pay").replace("steps.got.rows", "[steps.late.label]"), 'FL302 "pay" reads what "late" answers, which is not known yet when "go" asks | put "go" below "late"'),
        (HEAD + LATE + GO + EACH.replace("each_pay", "pay").replace("steps.got.rows", "[steps.late.label]").replace("item.sku", "item"), []),
        (
            HEAD + GO + EACH.replace("each_pay", "pay").replace("      - id: pay", '      - { id: inner, read: shop.lines }\n      - id: pay').replace("item.sku", "steps.inner.rows | json"),
            'FL302 "pay" reads what "inner" answers, which is not known yet when "go" asks | put "go" below "inner"',
        ),
    ],
)  # fmt: skip
def test_covers(text: str, expected: str | list[str]) -> None:
    found = [one for one in told(text) if one[:5] not in ("FL203", "FL204")]
    assert found == ([expected] if isinstance(expected, str) else expected)


def test_a_gate_in_a_list_covers_the_item_it_is_for() -> None:
    text = EACH.replace(
        "      - id: each_pay", "".join(f"    {line}\n" for line in GO.splitlines()) + "      - id: pay"
    )
    assert told(HEAD + text) == []
    assert [one for one in told(HEAD + text + PAY.replace("id: pay", "id: other")) if "FL302" in one] == []


def test_what_a_template_reads_is_known_when_it_is_asked_for() -> None:
    letter = """  - id: pay
    do: mail.send
    with: { to: a@acme.example, template: label }
    compensate: { none: It was said. }
"""
    assert told(HEAD + LATE + GO + letter) == []
    assert told(HEAD + GO + LATE + letter) == [
        'FL302 "pay" reads what "late" answers, which is not known yet when "go" asks | put "go" below "late"'
    ]


def test_an_approval_that_may_be_skipped_needs_a_reason_for_the_rest() -> None:
    when = "    when: ${{ inputs.count > 3 }}\n"
    maybe = GO.replace("    covers", when + "    covers")
    unsure = [
        (
            'FL302 "go" may be skipped where "pay" is not, and then nobody is asked | give both the same when, or say at '
            '"pay" why nobody need be asked then: unattended: …'
        )
    ]
    assert told(HEAD + maybe + PAY) == unsure
    assert told(HEAD + maybe + PAY.replace("    with", when + "    with")) == []
    assert told(HEAD + maybe + PAY.replace("    with", "    when: ${{ outcome.go == 'yes' }}\n    with")) == []
    assert told(HEAD + maybe + PAY.replace("    with", "    unattended: Small sums go by themselves.\n    with")) == []
    assert told(HEAD + maybe + GO.replace("id: go", "id: always") + PAY) == []
    assert told(HEAD + maybe + maybe.replace("id: go", "id: small").replace("count > 3", "count <= 3") + PAY) == []
    arm = "".join(f"      {line}\n" for line in GO.splitlines())
    choose = "  - id: size\n    choose:\n      - when: ${{ inputs.count > 3 }}\n        steps:\n" + arm
    assert told(HEAD + choose + PAY) == unsure
    both = choose + "      - steps:\n" + arm.replace("id: go", "id: small")
    assert told(HEAD + both + PAY) == []
    assert told(HEAD + both.replace("id: small", "id: small\n          when: ${{ inputs.count > 1 }}") + PAY) == unsure


@pytest.mark.parametrize(
    ("when", "is_asked"),
    [
        ("outcome.go == 'yes'", True),
        ("outcome.go != 'no'", False),
        ("not (outcome.go == 'no')", False),
        ("outcome.go != 'skipped'", True),
        ("outcome.go == 'yes' and inputs.count > 1", True),
        ("outcome.go != 'no' and inputs.count > 1", False),
        ("outcome.go != 'no' and inputs.count > 3", True),
        ("outcome.go == 'yes' or inputs.count <= 3", False),
        ("outcome.go in ['yes']", True),
        ("inputs.no == outcome.go", True),
    ],
)
def test_a_condition_of_what_is_covered_may_be_a_yes_where_nobody_was_asked(when: str, is_asked: bool) -> None:
    maybe = GO.replace("    covers", "    when: ${{ inputs.count > 3 }}\n    if_no: continue\n    covers")
    found = told(HEAD + maybe + PAY.replace("    with", f"    when: ${{{{ {when} }}}}\n    with"))
    assert [one[:31] for one in found] == ([] if is_asked else ['FL302 "go" may be skipped where'])


def test_a_connector_that_does_not_say_whether_a_step_can_be_undone_is_told() -> None:
    unsaid = {**ACTIONS, "shop.pay": replace(SHOP["shop.pay"], cannot_undo=""), "shop.lines": SHOP["shop.lines"]}
    assert told(HEAD + PAY, actions=unsaid) == [
        (
            'FL203 only a person makes "pay" good, and nothing says whether shop.pay can be undone | say it in its connector at '
            '"pay": cannot_undo: why not, or undo: how'
        )
    ]
    mark = PAY.replace("{ hand_off: person:tom }", "{ mark: tasks.close, with: { id: x } }")
    assert told(HEAD + mark, actions=unsaid) == []


def test_one_name_where_a_list_is_needed() -> None:
    assert 'FL006 "covers" needs a list' in (found := told(gate("[pay]", "pay"))[0])
    assert found.endswith("| write it in brackets: [pay]")


NO = """  - id: told_no
    do: mail.send
    when: ${{ outcome.go == 'no' }}
    with: { to: aya@acme.example, subject: No, text: No }
    unattended: A person has said no.
    compensate: { none: It is the last step. }
"""


def test_an_approval_that_cannot_be_read_is_told_once() -> None:
    text = gate("by: team:leads", "by: tom\n    if_no: continue") + NO
    text = text.replace("    do: shop.pay", "    do: shop.pay\n    accept_order: The letter leaves only on a no.")
    assert [one[:23] for one in told(text)] == ['FL006 "tom" names nobod']


def test_what_was_done_was_not_said_no_to() -> None:
    go = GO.replace("    covers", "    if_no: continue\n    covers")
    letter = NO.replace("told_no", "told").replace("outcome.go == 'no'", "outcome.pay == 'done'")
    pay = PAY.replace("    with", "    accept_order: It is last.\n    with")
    assert told(HEAD + go + pay + letter + NO) == []
    assert [one[:12] for one in told(HEAD + go + pay + letter + NO.replace("== 'no'", "!= 'yes'"))] == ['FL204 "told"']


def test_a_do_that_only_reads_is_told_once() -> None:
    found = told(HEAD + "  - { id: plan, do: billing.get_plan, with: { code: pro } }\n")
    assert [one[:6] for one in found] == ["FL201 "]


def test_an_answer_that_is_approved_has_been_read() -> None:
    answer = '  - { id: answer, read: ai.draft, with: { about: "${{ inputs.about }}" } }\n'
    pay = PAY.replace("inputs.no", "steps.answer.text")
    assert told(HEAD + answer + GO + pay) == []
    assert [one[:5] for one in told(HEAD + answer + pay)] == ["FL203", "FL207"]


# --- what is shown and edited --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shows", "expected"),
    [
        ("[inputs.receipt, inputs.receipt.name, steps.got.rows, outcome.got]", []),
        ("[inputs.reciept]", ['FL101 there is no input "reciept" | did you mean "receipt"?']),
        ("[steps.got.rowss]", ['FL101 step "got" has no "rowss" | did you mean "rows"?']),
        ("[steps.pay.id]", ['FL102 step "pay" has not run yet here | use a step above this one']),
        ("['${{ inputs.receipt }}']", ['FL007 "${{ inputs.receipt }}" is no name | write the name alone, without a marker: inputs.amount']),
        ("['inputs.count + 1']", ['FL007 "inputs.count + 1" is no name | write the name alone, without a marker: inputs.amount']),
    ],
)  # fmt: skip
def test_shows(shows: str, expected: list[str]) -> None:
    assert told(gate("team:leads", f"team:leads\n    shows: {shows}")) == expected
    hand_off = f"  - {{ id: look, hand_off: person:tom, show: {shows} }}\n"
    assert told(HEAD + hand_off + GO + PAY) == expected


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("pay.what", []),
        ("pay.wath", ['FL302 "pay" sends no "wath" | did you mean "pay.what"?']),
        ("pay", ['FL302 "pay" is a whole step | it sends: pay.amount, pay.what']),
        ("pya.what", ['FL302 "pya" is not covered here, so nothing of it can be edited | did you mean "pay"?']),
        ("pay.amount", ['FL006 "amount" of "pay" is a number, and only a text can be edited | ']),
    ],
)  # fmt: skip
def test_may_edit(edit: str, expected: list[str]) -> None:
    assert told(gate("team:leads", f"team:leads\n    may_edit: [{edit}]")) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("steps.got.rows", []),
        ("steps.got.found", ['FL302 "steps.got.found" is no list whose items "go" asks about | did you mean "steps.got.rows"?']),
        ("steps.got.rowss", ['FL101 step "got" has no "rowss" | did you mean "rows"?', 'FL302 "steps.got.rowss" is no list whose items "go" asks about | did you mean "steps.got.rows"?']),
    ],
)  # fmt: skip
def test_may_leave_out(path: str, expected: list[str]) -> None:
    text = HEAD + GO.replace("team:leads", f"team:leads\n    may_leave_out: {path}")
    assert sorted(told(text + EACH.replace("each_pay", "pay"))) == expected
    assert max(told(text + PAY)).endswith("| cover a step inside an each")


# --- afterwards ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("steps.go.by", []),
        ("steps.go.at", []),
        ("steps.go.comment", []),
        ("steps.go.who", ['FL101 step "go" has no "who" | it has: at, by, comment']),
        ("steps.pay.sent.what", []),
        ("steps.pay.sent.amount | json", []),
        ("steps.pay.sent.amount", ['FL109 "code" takes a text, and steps.pay.sent.amount is a number | write steps.pay.sent.amount | json']),
        ("steps.pay.sent.wath", ['FL101 "sent" has no "wath" | did you mean "what"?']),
        ("'a' if outcome.go == 'yes' else 'b'", []),
        ("'a' if outcome.go == 'approved' else 'b'", ['FL104 outcome.go is never "approved" | its choices: no, skipped, yes']),
        ("'a' if outcome.pay == 'left_out' else 'b'", []),
        ("'a' if outcome.pay == 'dnoe' else 'b'", ['FL104 outcome.pay is never "dnoe" | did you mean "done"?']),
    ],
)  # fmt: skip
def test_after_an_approval(expression: str, expected: list[str]) -> None:
    assert told(HEAD + GO + PAY.replace("    with", "    accept_order: x\n    with") + used(expression)) == expected


def test_only_a_covered_step_knows_what_was_sent() -> None:
    pay = PAY.replace("    with", "    unattended: x\n    accept_order: x\n    with")
    assert told(HEAD + pay + used("steps.pay.sent.what")) == ['FL101 step "pay" has no "sent" | it has: id']


def test_what_may_not_have_been_approved_needs_a_guard() -> None:
    goes_on = GO.replace("team:leads", "team:leads\n    if_no: continue")
    pay = PAY.replace("    with", "    accept_order: x\n    with")
    assert told(HEAD + goes_on + pay + used("steps.pay.id")) == [
        (
            'FL102 step "pay" may not have been approved | write steps.pay.id | default(…), or put it behind when: '
            "${{ outcome.pay == 'done' }}"
        )
    ]
    assert told(HEAD + goes_on + pay + used("steps.pay.id", "when: \"${{ outcome.go == 'yes' }}\", ")) == []
    assert told(HEAD + goes_on + pay + used("steps.pay.id | default('x')")) == []
    maybe = GO.replace("    by", "    when: ${{ inputs.count > 3 }}\n    by")
    pay = pay.replace("    with", "    unattended: x\n    with")
    assert told(HEAD + maybe + pay + used("steps.go.by")) == [
        (
            'FL102 step "go" may have been skipped | write steps.go.by | default(…), or put it behind when: '
            "${{ outcome.go == 'yes' }}"
        )
    ]


def test_an_item_that_may_be_left_out_needs_a_guard() -> None:
    may = GO.replace("team:leads", "team:leads\n    may_leave_out: steps.got.rows")
    inner = EACH.replace("each_pay", "pay").replace("        with", "        accept_order: x\n        with")
    inner += '      - { id: after, read: billing.get_plan, with: { code: "${{ steps.pay.id }}" } }\n'
    assert told(HEAD + may + inner) == [
        (
            'FL102 step "pay" may have been left out | write steps.pay.id | default(…), or put it behind when: '
            "${{ outcome.pay == 'done' }}"
        )
    ]


# --- who is asked --------------------------------------------------------------------------------------------------

ALONE = (
    "FL303 whoever starts the run cannot approve it, and then too few are left to ask | "
    "name one person more or a team, or write escalate_to: person:…, who is asked where the starter is the only one"
)
EVENT = "trigger: { event: order.came }\n"


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("team:leads", []),
        ("[person:aya, person:tom]", []),
        ("person:aya\n    escalate_to: person:tom", []),
        ("person:aya", [ALONE]),
        ("[person:aya, person:cfo]", [ALONE]),
        ("person:me", [ALONE]),
        ("team:leads\n    needs: 2", [ALONE]),
        ("team:leads\n    needs: 3", ["FL301 3 people have to say yes, and only 2 can be asked | name more people, or a team"]),
        ("'manager_of:starter'", []),
        ("['manager_of:starter', person:tom]\n    needs: 2", [ALONE]),
        ("person:ken", ["FL301 person:ken has no address (mail or chat) | "]),
        ("[team:leads, person:kne]", ['FL301 there is no person "kne" in people.yaml | did you mean "person:ken"?']),
        ("team:leads\n    escalate_to: team:lead", ['FL301 there is no team "lead" in people.yaml | did you mean "team:leads"?']),
    ],
)  # fmt: skip
def test_approvers(by: str, expected: list[str]) -> None:
    assert told(gate("team:leads", by)) == expected


def test_without_a_starter_one_person_is_enough() -> None:
    assert told(gate("team:leads", "person:aya").replace("owner: person:me", "owner: person:tom") + EVENT) == []
    assert told(gate("team:leads", "person:aya") + "trigger: { form: signup }\n") == [ALONE]
    assert told(
        gate("team:leads", "'manager_of:starter'").replace("owner: person:me", "owner: person:tom") + EVENT
    ) == ["FL301 nobody starts this flow by hand or by a form, so manager_of:starter is nobody | "]
    people = load_people(PEOPLE.replace(", manager: tom", ""), "people.yaml")[0]
    assert told(gate("team:leads", "'manager_of:starter'"), people=people) == [
        "FL301 nobody in people.yaml has a manager, so manager_of:starter is nobody | "
    ]


def test_a_compensation_that_cannot_be_undone_is_asked_about() -> None:
    made = """  - id: made
    do: tasks.create
    with: { title: x }
    compensate:
      correct: shop.pay
      with: { what: x }
"""
    assert told(HEAD + made) == [
        (
            'FL203 the compensation of "made" cannot be undone, and nobody is asked before it | Paid is paid. Name who is '
            "asked: approve_by: …, or say why nobody need be asked: unattended: …"
        )
    ]
    assert told(HEAD + made + "      approve_by: team:leads\n") == []
    assert told(HEAD + made + "      unattended: It is only a test.\n") == []
    assert told(HEAD + made.replace("correct", "cancel")) == []
    assert told(HEAD + made + "      approve_by: [team:leads, person:ken]\n") == [
        "FL301 person:ken has no address (mail or chat) | "
    ]


def test_the_whole_example_of_the_language_is_in_order() -> None:
    text = (Path(__file__).parent / "whole_flow.yaml").read_text(encoding="utf-8").replace("whole_flow", "flow")
    for old, new in (("sales_ops", "leads"), ("sales_leads", "leads"), ("finance", "leads"), ("head_of_sales", "cfo")):
        text = text.replace(old, new)
    create = replace(ACTIONS["crm.create_contact"], input={"name": "text", "email": "email", "note": "text or empty"})
    templates = {"welcome.md": "subject: W\n\n${{ values.plan }}\n", "correction.md": "subject: C\n\nSorry.\n"}
    around = {"actions": {**ACTIONS, "crm.create_contact": create}, "templates": templates}
    assert told(text, **around) == []
    assert [one[:5] for one in told(text.replace("covers: [welcome, paid]", "covers: [paid]"), **around)] == ["FL203"]
    assert [one[:5] for one in told(text.replace("      approve_by: team:leads\n", ""), **around)] == ["FL203"]
