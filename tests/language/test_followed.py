"""Where answers of a model, events and kinds go from flow to flow and step to step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.contract import Json
from tests.language.test_check_scopes import HEAD, SHOP, told

ASK = '  - { id: answer, read: ai.draft, with: { about: "${{ inputs.about }}" } }\n'
PAY = """  - id: pay
    do: shop.pay
    with: { what: WHAT }
    compensate: { none: It is only a test. }
"""
DRAFT = HEAD.replace("mode: live", "mode: draft")
UNREAD = 'cannot be undone, and nobody has read what "answer" answered'


def unread(text: str, **flows: str) -> list[str]:
    return [one for one in told(text, **flows) if one.startswith("FL207")]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (PAY.replace("WHAT", '"${{ steps.answer.text }}"'), f'FL207 "pay" {UNREAD} | '),
        (PAY.replace("WHAT", '"${{ inputs.about }}"'), ""),
        (PAY.replace("WHAT", "x").replace("    do:", '    when: "${{ steps.answer.text == \'pay\' }}"\n    do:'), f'FL207 "pay" {UNREAD} | '),
        ("  - id: both\n    when: ${{ steps.answer.text == 'x' }}\n    parallel:\n      one:\n" + PAY.replace("WHAT", "x").replace("  - id", "        - id").replace("\n    ", "\n          "), f'FL207 "pay" {UNREAD}, on which it depends | '),
        ("  - id: all\n    each: ${{ steps.answer.text | split(' ') }}\n    steps:\n" + PAY.replace("WHAT", "x").replace("  - id", "      - id").replace("\n    ", "\n        "), f'FL207 "pay" {UNREAD}, on which it depends | '),
        ('  - id: made\n    do: tasks.create\n    with: { title: x }\n    compensate:\n      correct: shop.pay\n      with: { what: "${{ steps.answer.text }}" }\n', f'FL207 the compensation of "made" {UNREAD} | '),
        ('  - id: made\n    do: tasks.create\n    with: { title: x }\n    compensate:\n      correct: shop.pay\n      approve_by: person:aya\n      with: { what: "${{ steps.answer.text }}" }\n', ""),
    ],
    ids=["value", "an input", "its own when", "a when around it", "how often", "a compensation", "one that is asked about"],
)  # fmt: skip
def test_an_answer_is_followed(steps: str, expected: str) -> None:
    found = unread(DRAFT + ASK + steps)
    assert [one.startswith(expected) for one in found] == ([True] if expected else [])


def test_an_answer_is_followed_into_what_comes_after_a_failure() -> None:
    after = HEAD.replace("flow: flow", "flow: after").replace("mode: live", "mode: draft") + PAY.replace(
        "WHAT", '"${{ inputs.about }}"'
    )
    text = (
        DRAFT
        + ASK
        + "on_failure: { then_run: after, with: { no: x, count: 1, tags: [], about: \"${{ steps.answer.text | default('x') }}\" } }\n"
    )
    assert [one.partition(" | ")[0] for one in unread(text, after=after)] == [f'FL207 "pay" of flow after {UNREAD}']
    assert unread(text.replace("steps.answer.text | default('x')", "inputs.about"), after=after) == []


AGENT = """  - id: work
    agent: ai.draft
    with: { about: "${{ inputs.about }}" }
    limits: { calls: 5, within: 1 min }
    tools:
      - id: pay
        about: Pays.
        do: shop.pay
        compensate: { none: It is only a test. }
"""


def test_what_an_agent_sends_for_good_is_read_before() -> None:
    asked = AGENT.replace("        compensate", "        approve: person:aya\n        compensate")
    assert any(
        one.startswith('FL207 "pay" cannot be undone, and nobody has read what "work" answered')
        for one in unread(DRAFT + AGENT)
    )
    assert unread(DRAFT + asked) == []


# --- events ----------------------------------------------------------------------------------------------------------

TELLS = """flow: flow
title: Tells
owner: person:aya
trigger: { event: paid }
steps:
  - { id: told, emit: sent, with: { x: y } }
"""
HEARS = (
    TELLS.replace("flow: flow", "flow: small").replace("event: paid", "event: sent").replace("emit: sent", "emit: paid")
)


def test_events_that_go_round_are_told() -> None:
    ring = "FL405 this event starts the flow again, without end: flow -> small -> flow | "
    assert [one.startswith(ring) for one in told(TELLS, small=HEARS)] == [True]
    assert told(TELLS, small=HEARS.replace("emit: paid", "emit: other")) == []
    assert told(TELLS, small=HEARS.replace("event: sent }", "event: sent, only_if: \"${{ event.x == 'z' }}\" }")) == []
    assert told(TELLS, small=HEARS.replace("told, emit", "told, when: '${{ run.mode == \"live\" }}', emit")) == []


# --- kinds -----------------------------------------------------------------------------------------------------------


DATED = HEAD.replace("about: text", "day: date, end: date")
DAYS = [
    ("inputs.day - 3", "days are added so: ${{ inputs.day | add_days(-3) }}"),
    ("inputs.day + 2", "days are added so: ${{ inputs.day | add_days(2) }}"),
    ("4 + inputs.day", "days are added so: ${{ inputs.day | add_days(4) }}"),
    ("inputs.day - inputs.count", "days are added so: ${{ inputs.day | add_days(-3) }}"),
    ("inputs.end - inputs.day", "the days from one to the other: ${{ inputs.day | days_between(inputs.end) }}"),
]


@pytest.mark.parametrize(("expression", "hint"), DAYS)
def test_how_to_count_with_a_date(expression: str, hint: str) -> None:
    step = f'  - {{ id: last, read: billing.get_plan, with: {{ code: "${{{{ {expression} }}}}" }} }}\n'
    sign, date = ("-" if "-" in expression else "+"), "inputs.end" if "end" in expression else "inputs.day"
    assert told(DATED + step) == [f'FL109 "{sign}" counts with numbers, and {date} is a date | {hint}']
    right = hint.partition("${{ ")[2].removesuffix(" }}")
    assert told(DATED + step.replace(expression, f"{right} | json")) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("steps.got.no | upper", 'FL109 "upper" works on a text, and steps.got.no is a number'),
        ("steps.got.rows | first | upper", 'FL109 "upper" works on a text, and what stands there is a record'),
        ("(steps.got.rows | first).sku | upper", ""),
        ("(steps.got.rows | last).paid | upper", 'FL109 "upper" works on a text, and what stands there is a yes or no'),
        ("steps.got.rows[0].parts | join | upper", ""),
        ("steps.got.rows | pick('sku') | first", ""),
        ("steps.got.rows | pick('skuu') | first", 'FL101 there is no "skuu" there | did you mean "sku"?'),
        ("steps.got.rows | where('sku', 'a') | length | json", ""),
        ("steps.got.rows | length", 'FL109 "code" takes a text, and steps.got.rows | length is a number'),
        ("steps.got.any | upper", ""),
        ("(inputs.count * 2) | json", ""),
        ("inputs.no * 2", 'FL109 "*" counts with numbers, and inputs.no is a text'),
        ("today() | add_days(3)", ""),
        ("inputs.count | add_days(3)", 'FL109 "add_days" works on a text, and inputs.count is a number'),
        ("inputs.tags | contains('x') | json", ""),
        ("'a' if inputs.count > 3 else 'b'", ""),
        ("x ${{ inputs.tags }}", "FL109 inputs.tags is a list, and cannot stand inside a text | use join: inputs.tags | join(', ')"),
    ],
)  # fmt: skip
def test_kinds_flow_through(expression: str, expected: str) -> None:
    marked = expression if "${{" in expression else f"${{{{ {expression} }}}}"
    step = f'  - {{ id: last, read: billing.get_plan, with: {{ code: "{marked}" }} }}\n'
    found = [one for one in told(HEAD + step) if one[:5] in ("FL109", "FL101")]
    assert [one.startswith(expected) for one in found] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("run_key: ${{ inputs.no }}", "run_key: ${{ inputs.tags }}", "FL109 inputs.tags is a list, and cannot stand inside a text"),
        ("run_key: ${{ inputs.no }}", "run_key: ${{ inputs.count }}", ""),
        ("wait: 1 day", "wait: { until: '${{ inputs.count }}' }", 'FL109 "until" takes a date or a moment, and inputs.count is a number'),
        ("wait: 1 day", "wait: { until: '${{ today() | add_days(3) }}' }", ""),
    ],
)  # fmt: skip
def test_kinds_of_keys_and_moments(old: str, new: str, expected: str) -> None:
    found = told((HEAD + "  - { id: nap, wait: 1 day }\n").replace(old, new))
    assert [one.startswith(expected) for one in found] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({"money": "JPY"}, "${{ inputs.count }}", []),
        ({"money": "JPY"}, "48000", []),
        ("money", "${{ inputs.count }}", ["FL109 \"what\" takes an amount of money, and inputs.count is a number | write inputs.count | money('JPY'), or { money: JPY } where the field is declared"]),
    ],
)  # fmt: skip
def test_a_number_fits_money_of_a_known_currency(
    field: Json, value: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHOP, "shop.pay", replace(SHOP["shop.pay"], input={"what": field}))
    steps = PAY.replace("WHAT", f'"{value}"' if "$" in value else value)
    assert [one for one in told(DRAFT + steps) if one[:5] in ("FL109", "FL006")] == expected


def test_a_key_without_its_braces_is_given_them() -> None:
    bare = HEAD.replace("run_key: ${{ inputs.no }}", "run_key: inputs.no")
    assert [one.rpartition(" | ")[2] for one in told(bare) if one.startswith("FL206")] == ["write ${{ inputs.no }}"]
