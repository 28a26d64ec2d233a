"""Lists, called flows, events and locks under the rules: each mistake is planted, each sentence told word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.contract import Action
from runner.language.check import check_flow
from runner.language.load import load_flow
from tests.language.ground import ACTIONS
from tests.language.test_called_flows import AFTER, FLOWS, LOGS, ROOT, SMALL, around

ROWS = {"list": {"sku": "text", "parts": {"list": "text"}, "paid": "yes_no"}}
SHOP = {
    "shop.lines": Action(name="lines", effect="read", output={"rows": ROWS, "no": "number", "any": "any"}),
    "shop.pay": Action(name="pay", effect="keyed", key_life=10**8, input={"what": "text"}, cannot_undo="Paid is paid."),
}
HEAD = """flow: flow
title: A small flow
owner: person:me
mode: live
run_key: ${{ inputs.no }}
inputs: { no: text, tags: { list: text }, count: integer, about: text }
steps:
  - { id: got, read: shop.lines }
"""
LIST = """  - id: all
    each: ${{ steps.got.rows }}
    steps:
      - { id: one, read: billing.get_plan, with: { code: "${{ item.sku }}" } }
"""
CALL = "  - { id: log, call: logs, with: { email: a@acme.example } }\n"
WAIT = "  - { id: word, wait_for: paid, match: { no: '${{ inputs.no }}' }, within: 3 days, if_late: continue }\n"
PAY = """  - id: pay
    do: shop.pay
    with: { what: x }
    unattended: It is only a test.
    compensate: { none: It is only a test. }
"""
LAST = '  - { id: last, read: billing.get_plan, with: { code: "x" } }\n'


def told(text: str, **flows: str) -> list[str]:
    """Every problem as `code what | hint`."""
    flow, source, shape = load_flow(text, f"{text.split()[1]}.yaml")
    assert flow is not None
    assert source is not None
    beside = replace(around(**{**FLOWS, **flows}), actions={**ACTIONS, **SHOP})
    found = (*shape, *check_flow(flow, source, beside))
    return [f"{one.code} {one.what} | {one.hint}" for one in sorted(found, key=lambda one: (one.line, one.column))]


def used(expression: str) -> str:
    """A last step that uses this expression."""
    return f'  - {{ id: last, read: billing.get_plan, with: {{ code: "${{{{ {expression} }}}}" }} }}\n'


# --- lists ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("steps.got.rows", "steps.got.rows | where('sku', 'a') | sort | unique", []),
        ("steps.got.rows", "steps.got.rows | default([])", []),
        ("steps.got.rows", "steps.got.any", []),
        ("${{ steps.got.rows }}", "[{ sku: a }, { sku: b }]", []),
        ("steps.got.rows", "steps.got.no", ['FL006 "each" needs a list, and steps.got.no is a number | name a list, such as ${{ inputs.lines }}']),
        ("steps.got.rows", "inputs.no", ['FL006 "each" needs a list, and inputs.no is a text | name a list, such as ${{ inputs.lines }}']),
        ("steps.got.rows", "steps.got.found", ['FL006 "each" needs a list, and steps.got.found is a yes or no | name a list, such as ${{ inputs.lines }}']),
        ("${{ steps.got.rows }}", "the rows", ['FL006 "each" needs a list, and "the rows" is a text | name a list, such as ${{ inputs.lines }}']),
        ("${{ steps.got.rows }}", "7", ['FL006 "each" needs a list, and this is a number | name a list, such as ${{ inputs.lines }}']),
        ("${{ steps.got.rows }}", "{ a: 1 }", ['FL006 "each" needs a list, and this is a map | name a list, such as ${{ inputs.lines }}']),
        ("${{ steps.got.rows }}", "x ${{ steps.got.rows }}", ['FL006 "each" needs a list, and "x ${{ steps.got.rows }}" is a text | name a list, such as ${{ inputs.lines }}', "FL109 steps.got.rows is a list, and cannot stand inside a text | use join: steps.got.rows | join(', ')"]),
        ("    each: ${{ steps.got.rows }}\n", "    each:\n", ['FL006 nothing is written after "each" | name a list, such as ${{ inputs.lines }}']),
        ("item.sku", "item.skuu", ['FL101 "item" has no "skuu" | did you mean "sku"?']),
        ("steps.got.rows", "inputs.tags", ['FL101 "item" has no "sku" | it has no fields']),
        ("steps.got.rows", "steps.got.rows | pick('parts')", ['FL101 "item" has no "sku" | it has no fields']),
        ("item.sku", "steps.all.done", ['FL109 "code" takes a text, and steps.all.done is a number | write steps.all.done | json', 'FL102 step "all" has not run yet here | use a step above this one']),
        ("    steps:", "    named: ${{ item.skuu }}\n    steps:", ['FL101 "item" has no "skuu" | did you mean "sku"?']),
        ("    steps:", "    named: ${{ steps.one.label }}\n    steps:", ['FL108 "named" is the same for every item of "all", and two items never have one name | name what tells them apart: ${{ item.… }}', 'FL102 step "one" runs once per item of "all" and is in reach only there | afterwards there are steps.all.done and .set_aside']),
        ("    steps:", "    at_once: 0\n    steps:", ['FL006 "at_once" must be at least 1, and 0 is not | ']),
        ("    steps:", "    if_one_fails: go_on\n    steps:", ['FL006 "if_one_fails" cannot be "go_on" | it is one of: stop, continue']),
        ("    steps:", "    when: ${{ item.paid }}\n    steps:", ['FL101 "item" is in reach inside `each` only | ']),
        ("id: one,", "id: one, when: '${{ item.paid }}',", []),
        ("id: one,", "id: one, when: '${{ item.sku }}',", ["FL103 \"when\" must be a yes or no, and item.sku is a text | compare it: item.sku == '…'"]),
        ("id: one", "id: got", ['FL105 the id "got" is taken by the step on line 8 | every step of a flow has its own']),
    ],
)  # fmt: skip
def test_lists(old: str, new: str, expected: list[str]) -> None:
    assert old in LIST
    assert told(HEAD + LIST.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("steps.all.set_aside | pick('name') | join(', ')", []),
        ("steps.all.set_aside[0].item.sku", []),
        ("steps.all.dune", ['FL101 step "all" has no "dune" | did you mean "done"?']),
        ("steps.all.set_aside[0].item.skuu", ['FL101 there is no "skuu" there | did you mean "sku"?']),
        ("'x' if steps.all.done == 'y' else 'z'", ['FL104 "y" is a text and steps.all.done is a number: they never compare | take the quotes off the number']),
        ("steps.one.label", ['FL102 step "one" runs once per item of "all" and is in reach only there | afterwards there are steps.all.done and .set_aside']),
        ("steps.one.label | default('x')", ['FL102 step "one" runs once per item of "all" and is in reach only there | afterwards there are steps.all.done and .set_aside']),
        ("outcome.one", ['FL102 step "one" runs once per item of "all" and is in reach only there | afterwards there are steps.all.done and .set_aside']),
        ("outcome.all", []),
        ("item.sku", ['FL101 "item" is in reach inside `each` only | ']),
    ],
)  # fmt: skip
def test_after_a_list(expression: str, expected: list[str]) -> None:
    assert told(HEAD + LIST + used(expression)) == expected
    assert told(HEAD + LIST + f'outputs: {{ x: "${{{{ {expression} }}}}" }}\n') == expected


def test_a_list_in_a_list_has_its_own_items() -> None:
    inner = """      - id: parts
        each: ${{ item.parts }}
        steps:
          - { id: two, read: billing.get_plan, with: { code: "${{ item }} ${{ steps.one.label }}" } }
"""
    assert told(HEAD + LIST + inner) == []
    assert told(HEAD + LIST + inner.replace("item }}", "item.no }}")) == ['FL101 "item" has no "no" | it has no fields']
    assert told(HEAD + LIST + inner.replace("item }}", "item.sku }}")) == [
        'FL101 "item" has no "sku" | the item of "all" has it; inside "parts" item is of that list'
    ]
    assert told(HEAD + LIST + inner.replace("item.parts", "item.sku")) == [
        'FL006 "each" needs a list, and item.sku is a text | name a list, such as ${{ inputs.lines }}'
    ]


# --- called flows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("call: logs", "call: lgos", ['FL101 there is no flow "lgos" | did you mean "logs"?']),
        ("call: logs", "call: billing", ['FL101 there is no flow "billing" | flows here: after, logs, root, small']),
        ("call: logs", "call: root", ["FL101 the flows call each other without end: root -> root | take one of these calls out", 'FL208 flow root needs the input "lines" | it is a list']),
        ("then_run: after", "then_run: aftr", ['FL101 there is no flow "aftr" | did you mean "after"?']),
        ("then_run: after, with", "then_run: root, with", ["FL101 the flows follow each other without end: root -> root | take one of these then_run out", 'FL208 flow root needs the input "email" | it is a mail address', 'FL208 flow root needs the input "lines" | it is a list', 'FL208 flow root has no input "why" | its inputs: email, lines']),
        ('{ email: "${{ inputs.email }}" }', "{ emial: a@b.co }", ['FL208 flow logs has no input "emial" | did you mean "email"?']),
        (', with: { email: "${{ inputs.email }}" }', "", ['FL208 flow logs needs the input "email" | it is a mail address']),
        ('"${{ inputs.email }}" }', "a@b.co, note: 7 }", ['FL002 "note" is a text, and 7 would be read as the number 7 | write it in quotes: "7"']),
        ('"${{ inputs.email }}" }', "a@b.co, note: [] }", ['FL006 "note" needs a text | ']),
        ('"${{ failure.summary }}"', "00123", ["FL002 00123 would be read as 123 | write it in quotes: \"00123\""]),
        ("failure.summary", "failure.sumary", ['FL101 "failure" has no "sumary" | did you mean "summary"?']),
        ("steps.log.id", "steps.log.idd", ['FL101 step "log" has no "idd" | did you mean "id"?']),
        ("steps.log.id", "steps.log.note", ['FL101 step "log" has no "note" | it has: id, plan']),
        ("steps.log.id", "steps.note.id", ['FL101 there is no step "note" | steps: last, lines, log, more, one, size']),
        ("steps.log.id", "steps.log.id + 3", ['FL109 "+" counts with numbers, and steps.log.id is a text | texts are put together in one text: ${{ … }} ${{ … }}']),
        ("id: last,", "id: last, when: '${{ steps.log.plan > 3 }}',", ["FL104 steps.log.plan is a text and 3 is a number: they never compare | write steps.log.plan | number"]),
    ],
)  # fmt: skip
def test_called_flows(old: str, new: str, expected: list[str]) -> None:
    assert old in ROOT
    text = ROOT.replace(old, new, 1)
    assert told(text, root=text) == expected


UNFIT = "FL101 flow {}, which {} here, has {} | run amends check flows/{}.yaml"


def test_a_called_flow_with_problems_of_its_own_is_one_problem() -> None:
    assert told(ROOT) == []
    assert told(ROOT, logs=LOGS.replace("title: A", "titel: A").replace("inputs.email", "inputs.emial", 1)) == [
        UNFIT.format("logs", "is called", "2 problems", "logs")
    ]
    assert told(ROOT, logs="flow: [") == [UNFIT.format("logs", "is called", "1 problem", "logs")]
    deep = [
        UNFIT.format("logs", "is called", "1 problem", "logs"),
        UNFIT.format("small", "is called", "1 problem", "small"),
    ]
    assert told(ROOT, small=SMALL.replace("get_plan", "get_plans")) == deep
    assert told(ROOT, after=AFTER.replace("values.why", "values.who").replace("sorry", "sory")) == [
        UNFIT.format("after", "follows", "1 problem", "after")
    ]


def test_a_called_flow_is_looked_at_in_the_mode_of_its_caller() -> None:
    logs = LOGS.replace("    compensate: cancel\n", "")
    assert told(ROOT, logs=logs) == []
    more = "; what is a warning there is an error in a live flow"
    live = ROOT.replace("owner:", "mode: live\nowner:")
    assert told(live, logs=logs) == [UNFIT.format("logs", "is called", "1 problem", "logs") + more]


def test_flows_that_call_each_other_in_a_ring_are_named_in_full() -> None:
    back = SMALL.replace('read: billing.get_plan, with: { code: "${{ inputs.code }}" }', "call: root")
    ring = "FL101 the flows call each other without end: {} | take one of these calls out"
    found = told(ROOT, small=back)
    assert found[0] == ring.format("root -> logs -> small -> root")
    assert found[1] == ring.format("root -> small -> root")
    apart = SMALL.replace('read: billing.get_plan, with: { code: "${{ inputs.code }}" }', "call: logs")
    assert told(ROOT, small=apart)[0] == UNFIT.format("logs", "is called", "1 problem", "logs")


def test_flows_that_follow_each_other_in_a_ring_are_named_in_full() -> None:
    after = AFTER + "on_failure: { then_run: root, with: { email: a@b.co, lines: [] } }\n"
    assert told(ROOT, after=after) == [
        "FL101 the flows follow each other without end: root -> after -> root | take one of these then_run out"
    ]


def test_a_called_flow_may_be_followed_by_its_caller() -> None:
    """`then_run` of a called flow is not its caller's matter."""
    logs = LOGS + "on_failure: { then_run: root, with: { email: a@b.co, lines: [] } }\n"
    assert told(ROOT, logs=logs) == []


def test_the_items_of_a_called_flows_list_are_known() -> None:
    logs = LOGS.replace("outputs: {", 'outputs: { rows: "${{ steps.list.rows }}",').replace(
        "steps:\n", "steps:\n  - { id: list, read: shop.lines }\n"
    )
    text = HEAD + CALL + LIST.replace("steps.got.rows", "steps.log.rows").replace("item.sku", "item.skuu")
    assert told(text, logs=logs) == ['FL101 "item" has no "skuu" | did you mean "sku"?']


def test_a_run_key_is_needed_for_what_a_called_flow_does() -> None:
    text = (HEAD + CALL).replace("run_key: ${{ inputs.no }}\n", "")
    assert [one[:5] for one in told(text)] == ["FL209"]
    assert told(text.replace("call: logs, with: { email: a@acme.example }", "call: small, with: { code: x }")) == []


# --- events and locks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WAIT + used("steps.word.amount"), ['FL102 step "word" may have waited in vain | write steps.word.amount | default(…), or put it behind when: ${{ outcome.word == \'done\' }}']),
        (WAIT + used("steps.word.amount | default('x')"), []),
        (WAIT + used("steps.word.amount").replace("id: last,", "id: last, when: \"${{ outcome.word != 'late' }}\","), []),
        (WAIT.replace("continue", "hand_off") + used("steps.word.amount"), []),
        (WAIT.replace("inputs.no", "inputs.noo"), ['FL101 there is no input "noo" | did you mean "no"?']),
        (WAIT.replace("paid", "'paid.${{ inputs.no }}'"), ['FL007 "wait_for" is taken as it is written; no expression is read there | ']),
        (WAIT.replace("3 days", "soon"), ['FL006 "soon" is not a duration | a duration is a number and a unit: 30 s, 10 min, 4 hours, 1 day, 2 weeks, 2 business days']),
        ('  - { id: out, emit: paid, with: { no: "${{ inputs.noo }}" } }\n', ['FL101 there is no input "noo" | did you mean "no"?']),
        ('  - { id: out, emit: "${{ inputs.no }}" }\n', ['FL007 "emit" is taken as it is written; no expression is read there | ']),
        ("  - { id: out, emit: paid, compensate: cancel }\n", ['FL003 "compensate" is not a key of an emit step | its keys: emit, id, owner, retry, timeout, when, with']),
        (PAY.replace("    with", '    lock: { record: invoice, id: "${{ inputs.noo }}" }\n    with'), ['FL101 there is no input "noo" | did you mean "no"?']),
        (PAY.replace("    with", "    lock: { record: invoice }\n    with"), ['FL005 lock has no "id" | for example id: ${{ inputs.invoice }}']),
    ],
)  # fmt: skip
def test_events_and_locks(text: str, expected: list[str]) -> None:
    assert told(HEAD + text) == expected


# --- what cannot be undone -----------------------------------------------------------------------------------------

EARLY = "cannot be undone and stands before"
WHY = "or say why not{}: accept_order: …"


def inside(step: str, more: str = "") -> str:
    """A list whose items are this step."""
    lines = "".join(f"    {line}\n" for line in step.splitlines())
    return f"  - id: all\n    each: ${{{{ inputs.tags }}}}\n{more}    steps:\n{lines}"


def test_a_step_in_a_list_stands_before_the_next_item_and_what_follows() -> None:
    goes_on = "    if_one_fails: continue\n"
    assert told(HEAD + inside(PAY, goes_on)) == []
    assert told(HEAD + inside(PAY)) == [
        f'FL204 "pay" {EARLY} the next item of "all", which can still fail | write if_one_fails: continue at "all", '
        + WHY.format("")
    ]
    later = [f'FL204 "pay" {EARLY} "last", which can still fail | move it to the end, {WHY.format("")}']
    assert told(HEAD + inside(PAY, goes_on) + LAST) == later
    assert told(HEAD + inside(PAY + LAST, goes_on)) == later
    assert told(HEAD + inside(PAY.replace("    with", "    accept_order: It may.\n    with")) + LAST) == []


def test_a_step_in_a_list_needs_its_compensation_and_its_reason() -> None:
    bare = PAY.replace("    unattended: It is only a test.\n    compensate: { none: It is only a test. }\n", "")
    assert [one[:5] for one in told(HEAD + inside(bare, "    if_one_fails: continue\n"))] == ["FL202", "FL203"]


def test_a_call_of_what_cannot_be_undone_stands_too_early() -> None:
    outer = SMALL.replace(
        'read: billing.get_plan, with: { code: "${{ inputs.code }}" }', "call: logs, with: { email: a@b.co }"
    )
    outer = outer.replace("steps.plan.label", "steps.plan.id").replace(
        "inputs:", "run_key: ${{ inputs.code }}\ninputs:"
    )
    logs = LOGS.partition("  - { id: inner")[0] + PAY + 'outputs: { id: "${{ steps.note.id }}", plan: x }\n'
    told_at = f'FL204 "log" calls "pay" of flow logs, which {EARLY} "last", which can still fail | move it to the end, '
    assert told(HEAD + CALL + LAST, logs=logs) == [told_at + WHY.format(" at that step")]
    assert told(HEAD + CALL, logs=logs) == []
    assert (
        told(HEAD + CALL + LAST, logs=logs.replace("    with: { what", "    accept_order: It may.\n    with: { what"))
        == []
    )
    call = CALL.replace("call: logs, with: { email: a@acme.example }", "call: small, with: { code: x }")
    assert told(HEAD + call + LAST, logs=logs, small=outer) == [told_at + WHY.format(" at that step")]


AI = '  - { id: answer, read: ai.draft, with: { about: "${{ inputs.about }}" } }\n'
READ = "put an approval before it, or say why not: unattended: …"


def test_an_answer_goes_through_lists() -> None:
    pay = PAY.replace("what: x", 'what: "${{ item }}"')
    text = (
        HEAD + AI + inside(pay, "    if_one_fails: continue\n").replace("inputs.tags", "steps.answer.text | split(',')")
    )
    assert told(text) == []
    asked = text.replace("        unattended: It is only a test.\n", "")
    assert [one for one in told(asked) if "FL207" in one] == [
        f'FL207 "pay" cannot be undone, and nobody has read what "answer" answered | {READ}'
    ]


def test_an_answer_goes_into_a_called_flow_and_comes_out_of_it() -> None:
    payer = (
        SMALL.partition("steps:")[0]
        + "run_key: ${{ inputs.code }}\nsteps:\n"
        + PAY.replace("what: x", 'what: "${{ inputs.code }}"')
    )
    asked = payer.replace("    unattended: It is only a test.\n", "").replace("owner:", "mode: draft\nowner:")
    call = '  - { id: sent, call: small, with: { code: "${{ steps.answer.text }}" } }\n'
    draft = HEAD.replace("mode: live", "mode: draft")
    assert told(draft + AI + call, small=payer) == []
    assert told(draft + AI + call, small=asked) == [
        f'FL207 "pay" of flow small cannot be undone, and nobody has read what "answer" answered | {READ}'
    ]
    assert told(draft + AI + call.replace("steps.answer.text", "inputs.about"), small=asked) == []
    asker = (
        SMALL.partition("steps:")[0]
        + "steps:\n"
        + AI.replace("inputs.about", "inputs.code")
        + 'outputs: { a: "${{ steps.answer.text }}", b: "${{ inputs.code }}" }\n'
    )
    pay = PAY.replace("what: x", 'what: "${{ steps.sent.a }}"').replace("    unattended: It is only a test.\n", "")
    call = '  - { id: sent, call: small, with: { code: "x" } }\n'
    assert [one for one in told(draft + call + pay, small=asker) if "FL207" in one] == [
        f'FL207 "pay" cannot be undone, and nobody has read what "sent" answered | {READ}'
    ]
    assert [one for one in told(draft + call + pay.replace("sent.a", "sent.b"), small=asker) if "FL207" in one] == []
    through = call.replace('"x"', '"${{ steps.answer.text }}"')
    assert [
        one for one in told(draft + AI + through + pay.replace("sent.a", "sent.b"), small=asker) if "FL207" in one
    ] == [f'FL207 "pay" cannot be undone, and nobody has read what "answer" answered | {READ}']


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("outcome.go == 'done'", "outcome.go == 'late'", False),
        ("outcome.go == 'done' and inputs.count > 3", "outcome.go == 'late'", False),
        ("inputs.count > 3", "not (inputs.count > 3)", False),
        ("not given(inputs.about)", "given(inputs.about)", False),
        ("outcome.go == 'done'", "outcome.go == 'done'", True),
        ("outcome.go == 'done'", "outcome.go != 'done'", True),
        ("outcome.go == 'done'", "inputs.about == 'late'", True),
        ("outcome.go == 'done' or inputs.count > 3", "outcome.go == 'late'", True),
    ],
)
def test_steps_that_exclude_each_other_do_not_stand_before_each_other(first: str, second: str, found: bool) -> None:
    go = "  - { id: go, wait_for: word, within: 1 day, if_late: continue }\n"
    text = go + "".join(
        f"  - id: {name}\n    do: mail.send\n    when: ${{{{ {when} }}}}\n"
        f"    with: {{ to: a@acme.example, subject: Hello, text: Hello }}\n"
        "    unattended: It is only a greeting.\n    compensate: { none: It is only a greeting. }\n"
        for name, when in (("told", first), ("told_no", second))
    )
    assert [one[:5] for one in told(HEAD + text)] == ["FL204"] * found
