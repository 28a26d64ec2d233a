"""The rules where one file is not enough: guards, reach, kinds, levels."""

from __future__ import annotations

import pytest

from runner.contract import Action
from tests.language.ground import ACTIONS, check, codes, told

HEAD = """flow: flow
title: A small flow
owner: person:me
mode: live
run_key: ${{ inputs.email }}
inputs:
  email: email
  name: text
  count: integer
  price: { money: JPY }
  day: date
  plan: { choice: [basic, pro] }
  lines: { list: { sku: text } }
  note: text or empty
steps:
"""
MAYBE = """  - id: plan
    read: billing.get_plan
    when: ${{ inputs.count > 3 }}
    with: { code: pro }
"""


def made(title: str, more: str = "") -> str:
    return f"""  - id: made
    do: tasks.create
{more}    with: {{ title: "{title}" }}
    compensate: cancel
"""


def after_maybe(title: str, more: str = "") -> list[str]:
    return codes(HEAD + MAYBE + made(title, more))


def test_a_step_that_may_be_skipped_needs_a_guard() -> None:
    assert after_maybe("${{ steps.plan.label }}") == ["FL102"]


@pytest.mark.parametrize(
    ("title", "more"),
    [
        ("${{ steps.plan.label | default('x') }}", ""),
        ("${{ steps.plan.label if given(steps.plan.label) else 'x' }}", ""),
        ("${{ steps.plan.label }}", "    when: ${{ outcome.plan == 'done' }}\n"),
        ("${{ steps.plan.label }}", "    when: ${{ inputs.count > 3 }}\n"),
        ("${{ steps.plan.label }}", "    when: ${{ inputs.name == 'x' and inputs.count > 3 }}\n"),
        ("${{ steps.plan.label }}", "    when: ${{ given(steps.plan.label) }}\n"),
    ],
)
def test_a_guard_is_enough(title: str, more: str) -> None:
    assert after_maybe(title, more) == []


@pytest.mark.parametrize(
    "when", ["${{ inputs.count > 4 }}", "${{ inputs.name == 'x' or inputs.count > 3 }}", "${{ inputs.name == 'x' }}"]
)
def test_another_condition_is_no_guard(when: str) -> None:
    assert after_maybe("${{ steps.plan.label }}", f"    when: {when}\n") == ["FL102"]


def test_a_step_that_may_be_refused_needs_a_guard() -> None:
    text = HEAD + MAYBE.replace("when: ${{ inputs.count > 3 }}", "if_refused: continue")
    found = told(text + made("${{ steps.plan.label }}"))
    assert 'FL102  step "plan" may have been refused' in found
    assert codes(text + made("${{ steps.plan.label }}", "    when: ${{ outcome.plan == 'done' }}\n")) == []


EMPTY = ["FL107"]
GIVEN = "when: ${{ given(inputs.note) }}"


@pytest.mark.parametrize(
    ("title", "more", "expected"),
    [
        ("${{ inputs.note }}", "", EMPTY),
        ("${{ inputs.note == 'x' }}", "", ["FL109", *EMPTY]),
        ("${{ inputs.note }}", "    when: ${{ inputs.count > 3 }}\n", EMPTY),
        ("${{ inputs.note }}", "    when: ${{ not given(inputs.note) }}\n", EMPTY),
        ("x", "    when: ${{ inputs.note == 'x' }}\n", EMPTY),
        ("${{ inputs.note }}", f"    {GIVEN}\n", []),
        ("${{ inputs.note | default('x') }}", "", []),
        ("${{ inputs.note if given(inputs.note) else 'x' }}", "", []),
        ("x", "    when: ${{ given(inputs.note) and inputs.note == 'x' }}\n", []),
    ],
)
def test_an_input_that_may_be_left_empty_needs_a_guard(title: str, more: str, expected: list[str]) -> None:
    assert codes(HEAD + made(title, more)) == expected
    with_default = HEAD.replace("text or empty", "{ text: null, empty: true, default: x }") + made(title, more)
    assert codes(with_default) == [code for code in expected if code != "FL107"]


def test_a_branch_knows_what_the_branches_above_it_say_of_an_empty_input() -> None:
    nap = "steps: [{ id: nap, wait: 1 min }]"
    last = made("${{ inputs.note }}").replace("  - id", "        - id").replace("\n    ", "\n          ")
    choose = f"  - id: size\n    choose:\n      - WHEN\n        {nap}\n      - steps:\n{last}"
    assert codes(HEAD + choose.replace("WHEN", GIVEN)) == EMPTY
    assert codes(HEAD + choose.replace("WHEN", GIVEN.replace("given", "not given"))) == []
    second = "- when: ${{ inputs.note == 'x' }}\n        steps:"
    asked = choose.replace("WHEN", GIVEN.replace("given", "not given")).replace("- steps:", second)
    assert codes(HEAD + asked) == []
    assert codes(HEAD + asked.replace("not given(inputs.note)", "inputs.count > 3")) == [*EMPTY, *EMPTY]


def test_what_people_are_shown_may_be_empty() -> None:
    shown = "  - id: look\n    hand_off: person:me\n    show: SHOW\n"
    assert codes(HEAD + shown.replace("SHOW", "[inputs.note]")) == []
    assert codes(HEAD + shown.replace("SHOW", "{ note: '${{ inputs.note }}' }")) == []
    ended = HEAD + made("x") + "outputs: { note: '${{ inputs.note }}' }\n"
    assert codes(ended) == EMPTY


def test_a_read_says_whether_it_found_something() -> None:
    read = MAYBE.replace("    when: ${{ inputs.count > 3 }}\n", "")
    assert codes(HEAD + read + made("x", "    when: ${{ steps.plan.found }}\n")) == []


def test_a_compensation_reaches_its_own_answer_and_no_later_step() -> None:
    own = HEAD + made("x").replace(
        "cancel\n", "\n      cancel: tasks.close\n      with: { id: '${{ steps.made.id }}' }\n"
    )
    assert codes(own) == []
    later = own.replace("steps.made.id", "steps.last.label") + MAYBE.replace("id: plan", "id: last")
    assert 'step "last" may not have run yet when this is read' in told(later)


def test_outputs_may_use_every_step() -> None:
    text = HEAD + MAYBE + "outputs:\n  plan: ${{ steps.plan.label | default('none') }}\n  by: ${{ outcome.plan }}\n"
    assert codes(text) == []
    assert codes(text.replace(" | default('none')", "")) == ["FL102"]


def test_a_key_is_read_before_any_step() -> None:
    text = (HEAD + MAYBE).replace("${{ inputs.email }}", "${{ steps.plan.label }}")
    assert 'step "plan" has not run yet when this is read' in told(text)


def test_a_branch_reaches_its_own_steps_and_afterwards_a_default_is_needed() -> None:
    choose = """  - id: size
    choose:
      - when: ${{ inputs.count > 3 }}
        steps:
          - id: big
            read: billing.get_plan
            with: { code: pro }
          - id: inner
            read: billing.get_plan
            with: { code: "${{ steps.big.label }}" }
"""
    assert codes(HEAD + choose) == []
    assert codes(HEAD + choose + made("${{ steps.big.label }}")) == ["FL102"]
    assert codes(HEAD + choose + made("${{ steps.big.label | default('') }}")) == []


def test_an_item_is_in_reach_inside_its_list_only() -> None:
    each = """  - id: all
    each: ${{ inputs.lines }}
    named: ${{ item.sku }}
    steps:
      - id: one
        read: billing.get_plan
        with: { code: "${{ item.sku }}" }
"""
    assert codes(HEAD + each) == []
    assert '"item" is in reach inside `each` only' in told(HEAD + each + made("${{ item.sku }}"))
    assert 'step "one" runs once per item of "all"' in told(HEAD + each + made("${{ steps.one.label }}"))


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("inputs.count == 'x'", '"x" is a text and inputs.count is a number'),
        ("inputs.plan > 3", "inputs.plan is a text and 3 is a number"),
        ("inputs.price == 'x'", '"x" is a text and inputs.price is a number'),
        ("(inputs.name | length) == '3'", '"3" is a text and one side is a number'),
        ("inputs.price > 3", ""),
        ("inputs.price.value > 3", ""),
        ("inputs.day == '2026-09-01'", ""),
        ("inputs.count in [1, 2]", ""),
        ("given(inputs.note) and inputs.note == 'x'", ""),
        ("trigger.id == 3", ""),
    ],
)
def test_a_text_is_never_compared_with_a_number(expression: str, sentence: str) -> None:
    found = told(HEAD + made("x", f"    when: ${{{{ {expression} }}}}\n"))
    assert sentence in found
    assert bool(found) == bool(sentence)


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ("yes", '"when" is a text, and it must be a yes or no'),
        ("${{ inputs.name }} == x", '"when" is a text, and it must be a yes or no'),
        ("${{ inputs.count }}", "inputs.count is a number"),
        ("${{ inputs.price }}", "inputs.price is an amount"),
        ("${{ inputs.lines }}", "inputs.lines is a list"),
        ("${{ today() }}", "today() is a date"),
        ("true", ""),
        ("${{ not inputs.count > 3 }}", ""),
        ("${{ given(inputs.note) }}", ""),
        ("${{ inputs.name | contains('x') }}", ""),
    ],
)
def test_when_is_a_yes_or_no(when: str, sentence: str) -> None:
    found = told(HEAD + made("x", f"    when: {when}\n"))
    assert sentence in found
    assert bool(found) == bool(sentence)


def test_live_problems_are_warnings_in_a_draft() -> None:
    text = HEAD + made("x").replace("    compensate: cancel\n", "")
    assert [(one.code, one.level) for one in check(text)[1]] == [("FL202", "error")]
    assert [(one.code, one.level) for one in check(text.replace("live", "draft"))[1]] == [("FL202", "warning")]


def test_a_misspelt_key_is_told_once() -> None:
    assert codes(HEAD + made("x").replace("compensate", "compensat")) == ["FL003"]


def test_a_step_that_could_not_be_read_is_not_missed_elsewhere() -> None:
    text = HEAD + MAYBE.replace("read:", "reed:") + made("${{ steps.plan.label }}")
    assert codes(text) == ["FL003"]


def test_a_connection_that_cannot_be_read_is_not_told_again() -> None:
    text = HEAD + made("x").replace("tasks.create", "broken.create")
    assert codes(text) == ["FL208"]
    assert codes(text, unreadable=frozenset({"broken"})) == []


def test_an_answer_passed_on_is_still_unread() -> None:
    steps = """  - id: answer
    read: ai.draft
    with: { about: x }
  - id: second
    read: billing.get_plan
    with: { code: "${{ steps.answer.text }}" }
  - id: letter
    do: mail.send
    with: { to: a@acme.example, subject: Hello, text: "${{ steps.second.label }}" }
    compensate: { none: It is only a test. }
"""
    assert codes(HEAD + steps) == ["FL203", "FL207"]
    assert 'nobody has read what "answer" answered' in told(HEAD + steps)


def test_a_literal_must_fit_its_field() -> None:
    step = """  - id: paid
    do: billing.mark_paid
    with: { customer: x, amount: lots }
    unattended: It is only a test.
    compensate: { none: It is only a test. }
  - id: contact
    do: crm.create_contact
    with: { name: x, email: x@acme.example, level: prp }
    compensate: cancel
"""
    found = told(HEAD + step)
    assert '"amount" needs a number' in found
    assert '"level" cannot be "prp"' in found
    assert 'did you mean "pro"?' in found


def test_a_number_field_takes_the_number_that_is_written() -> None:
    step = """  - id: paid
    do: billing.mark_paid
    with: { customer: x, amount: 1.10 }
    unattended: It is only a test.
    compensate: { none: It is only a test. }
"""
    assert codes(HEAD + step) == []
    assert codes(HEAD + step.replace("1.10", "0012")) == ["FL002"]


@pytest.mark.parametrize(
    "value",
    [
        "sk_live_abcdefgh12345678",
        "xoxb-1234567890-abcdefgh",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnopqrst",
        "Bearer abcdefgh12345678",
        "kJ8sPq2LmN5vXz7RtY4wB1cD6fG9hK3u",
        "https://ops:hunter2@api.acme.example/",
    ],
)
def test_a_secret_is_seen(value: str) -> None:
    assert codes(HEAD + made(f"It is {value}")) == ["FL401"]


@pytest.mark.parametrize(
    "value",
    [
        "The password is in the safe",
        "https://api.acme.example/v1/customers/with/a/very/long/path/name",
        "5f2b8c1e9d3a7f604b8e2c1d9a3f7b605f2b8c1e9d3a7f604b8e2c1d9a3f7b60",
        "this_is_a_name_that_somebody_has_written_by_hand",
        "task-skill-and-risk-analysis",
    ],
)
def test_other_texts_are_no_secrets(value: str) -> None:
    assert codes(HEAD + made(value)) == []


def test_inputs_may_be_called_password() -> None:
    assert codes(HEAD.replace("  name: text", "  name: text\n  password: text") + made("x")) == []


def test_a_template_needs_its_values() -> None:
    step = """  - id: letter
    do: mail.send
    with: { to: a@acme.example, template: welcome, values: { plna: x } }
    unattended: It is only a test.
    compensate: { none: It is only a test. }
"""
    found = told(HEAD + step)
    assert "in the template welcome.md, line 3: values.plan is not given" in found
    assert 'did you mean "plna"?' in found


def test_an_action_that_changes_nothing_is_read() -> None:
    text = HEAD + made("x").replace("tasks.create", "billing.get_plan").replace("title", "code")
    assert "billing.get_plan changes nothing, so it is no do" in told(text)


def test_an_action_whose_fields_are_not_known_takes_any_name() -> None:
    step = "  - id: got\n    read: http.get\n    with: { url: https://acme.example, more: 1 }\n"
    assert codes(HEAD + step + made("${{ steps.got.whatever.below }}")) == []


def test_rules_are_quiet_about_actions_nobody_described() -> None:
    described = {name: action for name, action in ACTIONS.items() if not name.startswith("tasks.")}
    assert codes(HEAD + made("${{ steps.made2.x | default(1) }}"), actions=described) == ["FL208", "FL101"]


def test_a_key_life_bounds_the_tries_of_a_compensation_too() -> None:
    actions = ACTIONS | {"tasks.close": Action(name="close", effect="keyed", key_life=60_000, input={"id": "text"})}
    text = HEAD + made("x").replace(
        "cancel\n", "\n      cancel: tasks.close\n      with: { id: '${{ output.id }}' }\n      retry: { tries: 9 }\n"
    )
    assert codes(text, actions=actions) == ["FL205"]
