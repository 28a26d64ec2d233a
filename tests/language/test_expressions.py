"""What expressions answer, and the sentences they fail with."""

from __future__ import annotations

import contextlib
import timeit
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import EvaluationError
from runner.language.calendar import Calendar
from runner.language.expressions import NoValue, condition, evaluate, faults, markers, names, tree
from runner.language.functions import FUNCTIONS

NOW = 1_788_220_800_000  # 2026-09-01 09:00 in Tokyo

SCOPE: Mapping[str, Any] = {
    "inputs": {
        "email": "aya@acme.example",
        "name": "佐藤 綾",
        "amount": {"value": 12000, "currency": "JPY"},
        "fee": {"value": 1234.5, "currency": "USD"},
        "note": None,
        "empty": "",
        "count": 3,
        "price": 19.99,
        "huge": 10**16,
        "agree": True,
        "tags": ["vip", "new"],
        "none_at_all": [],
        "day": "2026-01-31",
        "when": "2026-09-01T23:30:00+00:00",
    },
    "steps": {
        "plan": {"label": "Pro", "price": 4900, "items": "a field of that name"},
        "rows": {
            "rows": [
                {"id": 1, "state": "open", "due": "2026-09-03", "who": {"name": "Tom"}},
                {"id": 2, "state": "done", "due": "2026-09-01", "who": {"name": "Aya"}},
                {"id": 3, "state": "open", "due": "2026-09-02", "who": {"name": "Tom"}},
            ]
        },
    },
    "odd": {"a b": 1, "_id": "x1", "kind": {"value": 1, "currency": "yen"}},
}


def answer(text: Any, scope: Mapping[str, Any] = SCOPE, zone: str = "Asia/Tokyo", **more: Any) -> Any:
    return evaluate(text, scope, now=NOW, zone=zone, **more)


ANSWERS: list[tuple[str, Any]] = [
    # kinds are kept, text is joined
    ("${{ inputs.email }}", "aya@acme.example"),
    ("${{inputs.count}}", 3),
    ("  ${{ inputs.count }}\n", 3),
    ("${{ inputs.agree }}", True),
    ("${{ inputs.tags }}", ["vip", "new"]),
    ("${{ inputs.amount }}", {"value": 12000, "currency": "JPY"}),
    ("${{ inputs.amount.value }}", 12000),
    ("Hi ${{ inputs.name }}!", "Hi 佐藤 綾!"),
    ("${{ inputs.count }}${{ inputs.price }}", "319.99"),
    ("mark ${{ inputs.amount }} or ${{ inputs.fee }}", "mark 12,000 JPY or 1,234.50 USD"),
    ("agreed: ${{ inputs.agree }}, ${{ not inputs.agree }}", "agreed: yes, no"),
    ("${{ inputs.empty }}", ""),
    ("${{ '}}' }} and ${{ \"${{\" }}", "}} and ${{"),
    ("no marker, { braces } }} and $ {", "no marker, { braces } }} and $ {"),
    ("${{ odd['a b'] }}", 1),
    ('${{ odd["_id"] }}', "x1"),
    ("${{ steps.plan.items }}", "a field of that name"),
    ("${{ steps.rows.rows[0].who.name }}", "Tom"),
    ("${{ steps.rows.rows[-1].id }}", 3),
    ("${{ steps.rows.rows[inputs.count - 1].id }}", 3),
    ("${{ (steps.rows.rows | first).id }}", 1),
    ("${{ [1, inputs.count] }}", [1, 3]),
    # counting is decimal
    ("${{ 0.1 + 0.2 }}", 0.3),
    ("${{ inputs.price * 3 }}", 59.97),
    ("${{ 1.1 * 1.1 }}", 1.21),
    ("${{ 7 / 2 }}", 3.5),
    ("${{ 6 / 2 }}", 3),
    ("${{ 1 / 3 }}", 1 / 3),
    ("${{ -7 // 2 }}", -4),
    ("${{ -7.5 // 2 }}", -4),
    ("${{ -7 % 3 }}", 2),
    ("${{ 5.5 % 2 }}", 1.5),
    ("${{ 2 ** 10 }}", 1024),
    ("${{ 2 ** -1 }}", 0.5),
    ("${{ -inputs.count + 1 }}", -2),
    ("${{ +inputs.count }}", 3),
    ("${{ 9007199254740993 + 1 }}", 9007199254740994),
    ("x ${{ 1e3 }} ${{ 0.00001 }} ${{ 100.0 }} ${{ 1.50 }}", "x 1000 0.00001 100 1.5"),
    # money
    ("${{ inputs.amount + inputs.amount }}", {"value": 24000, "currency": "JPY"}),
    ("${{ inputs.amount * 1.1 }}", {"value": 13200, "currency": "JPY"}),
    ("${{ 2 * inputs.fee }}", {"value": 2469, "currency": "USD"}),
    ("${{ inputs.amount / 3 | round }}", {"value": 4000, "currency": "JPY"}),
    ("${{ (inputs.fee / 7) | round }}", {"value": 176.36, "currency": "USD"}),
    ("${{ inputs.amount / inputs.amount }}", 1),
    ("${{ -inputs.amount }}", {"value": -12000, "currency": "JPY"}),
    ("${{ inputs.amount > 10000 and 20000 > inputs.amount }}", True),
    ("${{ inputs.amount == 12000 }}", True),
    ("${{ 500 | money('JPY') }} each", "500 JPY each"),
    ("${{ inputs.amount | number }}", 12000),
    ("${{ [inputs.amount, inputs.amount] | sum }}", {"value": 24000, "currency": "JPY"}),
    # comparing and deciding
    ("${{ 1 < inputs.count <= 3 }}", True),
    ("${{ inputs.email == 'aya@acme.example' }}", True),
    ("${{ inputs.email != 'x' and not (inputs.count > 5 or false) }}", True),
    ("${{ 'vip' in inputs.tags and 'old' not in inputs.tags }}", True),
    ("${{ 'acme' in inputs.email }}", True),
    ("${{ inputs.none_at_all == [] }}", True),
    ("${{ 'a' if inputs.count > 2 else missing.thing }}", "a"),
    ("${{ inputs.count > 2 or missing.thing }}", True),
    ("${{ inputs.day < today() }}", True),
    ("${{ '2026-09-01T09:00:00+09:00' == '2026-09-01T00:00:00Z' }}", True),
    ("${{ '2026-09-01T08:00:00+09:00' < '2026-09-01T00:00:00Z' }}", True),
    # missing values
    ("${{ inputs.note | default('none') }}", "none"),
    ("${{ inputs.note | default(none) }}", None),
    ("${{ default(inputs.note, 5) }}", 5),
    ("${{ steps.made.id | default(steps.plan.label) }}", "Pro"),
    ("${{ nothing.at.all[0] | default([]) }}", []),
    ("${{ (inputs.note | upper) | default('-') }}", "-"),
    ("${{ inputs.none_at_all | first | default('no one') }}", "no one"),
    ("${{ inputs.empty | default('x') }}", ""),
    ("${{ given(inputs.note) }}", False),
    ("${{ given(inputs.email) and not (steps.x.y | given) }}", True),
    # text
    ("${{ inputs.email | upper }}", "AYA@ACME.EXAMPLE"),
    ("${{ ' A b ' | trim | lower }}", "a b"),
    ("${{ 'a-b-c' | replace('-', '+') }}", "a+b+c"),
    ("${{ 'a-b-c' | split('-') }}", ["a", "b", "c"]),
    ("${{ inputs.email | contains('@') and inputs.tags | contains('vip') }}", True),
    ("${{ inputs.email | starts_with('aya') and ends_with(inputs.email, 'example') }}", True),
    ("${{ 'abcdef' | truncate(4) }}", "abc…"),
    ("${{ 'abc' | truncate(3) }}", "abc"),
    ("${{ 'a\\n b\\r\\n\\u2028c' | one_line }}", "a b c"),
    # lists
    ("${{ inputs.tags | length }}", 2),
    ("${{ inputs.name | length }}", 4),
    ("${{ inputs.tags | join }}", "vip, new"),
    ("${{ [1, inputs.amount, true] | join(' / ') }}", "1 / 12,000 JPY / yes"),
    ("${{ [0.1, 0.2] | sum }}", 0.3),
    ("${{ [] | sum }}", 0),
    ("${{ [3, 1, 2] | min }}", 1),
    ("${{ max(3, inputs.amount, 2) }}", {"value": 12000, "currency": "JPY"}),
    ("${{ [3, 1, 2] | sort }}", [1, 2, 3]),
    ("${{ steps.rows.rows | sort('due') | pick('id') }}", [2, 3, 1]),
    ("${{ steps.rows.rows | where('state', 'open') | length }}", 2),
    ("${{ steps.rows.rows | where('nothing', 'open') }}", []),
    ("${{ steps.rows.rows | pick('who.name') | unique }}", ["Tom", "Aya"]),
    ("${{ inputs.tags | last }}", "new"),
    ("${{ inputs.tags | under('id') }}", [{"id": "vip"}, {"id": "new"}]),
    ("${{ [1] | under('id') | first | with('name' | upper, inputs.tags) }}", {"id": 1, "NAME": ["vip", "new"]}),
    # numbers
    ("${{ ' 12.50 ' | number }}", 12.5),
    ("${{ '007' | number }}", 7),
    ("${{ 2.675 | round(2) }}", 2.68),
    ("${{ -2.5 | round }}", -3),
    ("${{ 1234 | round(-2) }}", 1200),
    # dates
    ("${{ now() }}", "2026-09-01T09:00:00+09:00"),
    ("${{ today() }}", "2026-09-01"),
    ("${{ today() | add_days(3) }}", "2026-09-04"),
    ("${{ inputs.day | add_months(1) }}", "2026-02-28"),
    ("${{ '2028-01-31' | add_months(1) }}", "2028-02-29"),
    ("${{ '2026-09-04' | add_business_days(1) }}", "2026-09-07"),
    ("${{ '2026-09-05' | add_business_days(0) }}", "2026-09-07"),
    ("${{ '2026-09-07' | add_business_days(-1) }}", "2026-09-04"),
    ("${{ inputs.when | date }}", "2026-09-02"),
    ("${{ inputs.when | time }}", "08:30"),
    ("${{ inputs.when | in_zone('Europe/Berlin') }}", "2026-09-02T01:30:00+02:00"),
    ("${{ inputs.day | days_between(today()) }}", 213),
    ("${{ inputs.day | format_date('D MMMM YYYY, dddd') }}", "31 January 2026, Saturday"),
    ("${{ inputs.when | format_date(\"YYYY年M月D日(ddd) HH:mm\", 'ja') }}", "2026年9月2日(水) 08:30"),
    ("${{ inputs.day | format_date(\"'week of' ddd\", 'zh-TW') }}", "week of 六"),
    # other
    ("${{ inputs.tags | json }}", '["vip", "new"]'),
    ("${{ inputs.amount | hash | length }}", 64),
    ("${{ [1, 1.0] | unique | length }}", 2),
]


@pytest.mark.parametrize(("text", "wanted"), ANSWERS)
def test_answers(text: str, wanted: Any) -> None:
    found = answer(text)
    assert found == wanted
    assert type(found) is type(wanted)
    assert faults(text) == ()


ERRORS: list[tuple[str, str]] = [
    ("${{ inputs.emial }}", 'inputs.emial has no value, did you mean "email"? (in ${{ inputs.emial }})'),
    ("${{ inputs.note }}", "inputs.note has no value (in ${{ inputs.note }})"),
    ("Hi ${{ inputs.note }}", "inputs.note has no value (in ${{ inputs.note }})"),
    ("${{ steps.made.id }}", "steps.made.id has no value (steps.made has none) (in ${{ steps.made.id }})"),
    ("${{ input.email }}", 'input.email has no value (input has none), did you mean "inputs"? (in ${{ input.email }})'),
    ("${{ inputs.email.host }}", 'inputs.email is the text "aya@acme.example" and has no "host"'),
    ("${{ steps.rows.rows.id }}", 'steps.rows.rows is a list and has no "id": use pick for that field of each item'),
    ("${{ steps.rows.rows[7].id }}", "steps.rows.rows[7].id has no value (steps.rows.rows[7] has none)"),
    ("${{ inputs[0] }}", "[0] takes an item of a list, not of a record"),
    ("to: ${{ inputs.tags }}", "a list cannot stand inside a text: use join or json"),
    ("to: ${{ steps.plan }}", "a record cannot stand inside a text: use join or json"),
    ("to: ${{ inputs.note | default(none) }}", "nothing cannot stand inside a text"),
    ("${{ inputs.count == '3' }}", '3 cannot be compared with the text "3": turn the text into a number with | number'),
    ("${{ inputs.agree == 'true' }}", 'yes cannot be compared with the text "true": a yes or no is compared with true'),
    ("${{ inputs.empty != 0 }}", 'the text "" cannot be compared with 0: turn the text into a number'),
    ("${{ '10' < '9' }}", 'the text "10" and the text "9" are texts: compare them as numbers with | number'),
    ("${{ inputs.tags < inputs.tags }}", "a list has no order"),
    ("${{ inputs.tags == 'vip' }}", 'a list cannot be compared with the text "vip"'),
    ("${{ 3 in inputs.tags }}", '3 cannot be compared with the text "vip"'),
    ("${{ 3 in inputs.email }}", "only a text can be in a text, not 3"),
    ("${{ 'x' in steps.plan }}", '"in" looks into a list or a text, not into a record'),
    ("${{ inputs.count and inputs.agree }}", '"and", "or", "not" and "if" need a yes or no, not 3: compare it'),
    ("${{ not inputs.empty }}", '"and", "or", "not" and "if" need a yes or no, not the text ""'),
    ("${{ 1 if inputs.tags else 2 }}", '"and", "or", "not" and "if" need a yes or no, not a list'),
    ("${{ inputs.count / (inputs.count - 3) }}", "a number cannot be divided by zero"),
    ("${{ inputs.count % (inputs.count - 3) }}", "a number cannot be divided by zero"),
    ("${{ inputs.count ** 5000 }}", "a power must be a whole number up to 100"),
    ("${{ (inputs.count * 1000000) ** 50 }}", "the result is too large a number"),
    ("${{ inputs.email * inputs.count }}", '"*" counts with numbers, not with the text "aya@acme.example"'),
    ("${{ inputs.tags + inputs.tags }}", '"+" counts with numbers, not with a list'),
    ("${{ inputs.agree + 1 }}", '"+" counts with numbers, not with yes'),
    ("${{ inputs.amount + inputs.fee }}", "12,000 JPY and 1,234.50 USD are different currencies"),
    ("${{ inputs.amount < inputs.fee }}", "12,000 JPY and 1,234.50 USD are different currencies"),
    ("${{ inputs.amount == inputs.fee }}", "12,000 JPY and 1,234.50 USD are different currencies"),
    ("${{ inputs.amount + 5 }}", '"+" needs money on both sides: write the number as 100 | money("JPY")'),
    ("${{ inputs.amount * inputs.amount }}", '"*" cannot be used between 12,000 JPY and 12,000 JPY'),
    ("${{ inputs.amount | money('USD') }}", "12,000 JPY is not USD: nothing is exchanged here"),
    ("${{ inputs.count | upper }}", '"upper" works on a text, not on 3: print a number in a text of its own'),
    ("${{ inputs.email | join }}", '"join" works on a list, not on the text "aya@acme.example"'),
    ("${{ '12,000' | number }}", 'the text "12,000" is not a number, write it without separators'),
    ("${{ '１２' | number }}", 'the text "１２" is not a number'),
    ("${{ '0.12345678901234567890' | number }}", "has more digits than a number can keep"),
    ("${{ inputs.none_at_all | first }}", "the list is empty and has no first item"),
    ("${{ inputs.tags | with('a', 1) }}", "with needs a record, and this is a list"),
    ("${{ steps.rows.rows | pick('nam') }}", 'a record of the list has no "nam"'),
    ("${{ [1, 'a'] | sort }}", "cannot be compared with"),
    ("${{ '2026-02-30' | add_days(1) }}", 'the text "2026-02-30" is not a day of the calendar'),
    ("${{ inputs.email | date }}", 'the text "aya@acme.example" is not a date: write it as 2026-09-01'),
    ("${{ inputs.day | add_days(1.5) }}", '"add_days" needs a whole number, not 1.5'),
    ("${{ inputs.day | add_days(4000000) }}", "is outside the calendar"),
    ("${{ inputs.day | time }}", 'the text "2026-01-31" is a date and has no time of day'),
    ("${{ inputs.day | format_date('HH:mm') }}", 'the text "2026-01-31" is a date and has no time of day'),
    ("${{ inputs.email | replace('a', inputs.empty) | replace(inputs.empty, 'x') }}", "not an empty one"),
    ("${{ (inputs.count * 900000000000000) ** 2 * 1 }}", "the result is too large a number"),
    ("${{ inputs.huge * inputs.huge }}", "the result is too large a number"),
    ("${{ (inputs.email | number) | default(0) }}", "is not a number"),
    ("${{ given(inputs.email.host) }}", 'has no "host"'),
    ("${{ inputs.email.upper() }}", '".upper()" is not in the language: write x | upper'),
]


@pytest.mark.parametrize(("text", "sentence"), ERRORS)
def test_errors_name_the_value_and_the_way_out(text: str, sentence: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        answer(text)
    assert sentence in str(caught.value)
    assert "(in " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lists_and_records_are_walked_and_keys_stay() -> None:
    value = {"a ${{ x }}": ["${{ inputs.count }}", {"b": "n=${{ inputs.count }}"}], "c": 5, "d": None, "e": True}
    assert answer(value) == {"a ${{ x }}": [3, {"b": "n=3"}], "c": 5, "d": None, "e": True}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${{ inputs.email }}", 'a condition must be a yes or no, not the text "aya@acme.example": compare it with'),
        ("${{ 'false' }}", 'not the text "false": compare it, == "false", or make the field a yes_no'),
        ("${{ inputs.count }}", "a condition must be a yes or no, not 3"),
        ("${{ inputs.tags }}", "a condition must be a yes or no, not a list"),
        ("true", 'not the text "true"'),
        ("${{ inputs.agree }} ", None),
    ],
)
def test_a_condition_is_a_yes_or_no(text: str, sentence: str | None) -> None:
    if sentence is None:
        assert condition(text, SCOPE, now=NOW, zone="UTC") is True
        return
    with pytest.raises(EvaluationError) as caught:
        condition(text, SCOPE, now=NOW, zone="UTC")
    assert sentence in str(caught.value)


def test_business_days_follow_a_given_calendar() -> None:
    calendar = Calendar(zone="Asia/Tokyo", days=frozenset({6}))
    assert answer("${{ today() | add_business_days(1) }}", calendar=calendar) == "2026-09-06"


def test_days_keep_their_clock_over_summer_time() -> None:
    text = "${{ '2026-03-28T09:00:00+01:00' | add_days(1) }}"
    assert answer(text, zone="Europe/Berlin") == "2026-03-29T09:00:00+02:00"
    assert answer("${{ '2026-03-28T02:30' | add_days(1) }}", zone="Europe/Berlin") == "2026-03-29T03:30:00+02:00"


def test_sizes_are_bounded() -> None:
    scope = {"a": "x" * 1000, "big": "y" * 900_000, "many": list(range(1000))}
    for text in (
        "${{ big | replace('y', a) }}",
        "${{ big | split('y') | length }}",
        "${{ [big, big] | join }}",
        "${{ big }}${{ big }}",
        "${{ many | join(big) }}",
    ):
        with pytest.raises(EvaluationError, match=r"longer than 1,?[0-9,]+ (characters|items)"):
            answer(text, scope)


def test_python_objects_are_never_looked_into() -> None:
    class Secret:
        token = "hidden"

    with pytest.raises(EvaluationError):
        answer("${{ thing.token }}", {"thing": Secret()})
    with pytest.raises(EvaluationError, match=r'has no "keys"|keys has no value'):
        answer("${{ inputs.keys }}")


def test_results_are_never_evaluated_again() -> None:
    scope = {"a": "${{ b }}", "b": "secret", "c": ["${{ b }}"]}
    assert answer("${{ a }}", scope) == "${{ b }}"
    assert answer("x ${{ a }} ${{ c | join }}", scope) == "x ${{ b }} ${{ b }}"


def test_markers_have_offsets() -> None:
    text = "a ${{ b }} ${{'}}'}}"
    assert [(one.start, one.end, one.source) for one in markers(text)] == [(5, 8, " b "), (14, 18, "'}}'")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${{ inputs.email }}", [("inputs.email", 4, 12, False)]),
        ("${{ a.b | default(c['d']) }}", [("a.b", 4, 3, True), ("c.d", 18, 6, False)]),
        ("${{ (a.b + c) | default(0) }}", [("a.b", 5, 3, True), ("c", 11, 1, True)]),
        (
            "${{ a.rows[0].x + b[inputs.k].y }}",
            [("a.rows", 4, 6, False), ("b", 18, 1, False), ("inputs.k", 20, 8, False)],
        ),
        ("${{ a.b if given(a.b) else c }}", [("a.b", 4, 3, True), ("a.b", 17, 3, True), ("c", 27, 1, False)]),
        ("${{ given(a) and a.b == 1 }}", [("a", 10, 1, True), ("a.b", 17, 3, True)]),
        ("${{ not given(a) or a == 1 }}", [("a", 14, 1, True), ("a", 20, 1, True)]),
        ("${{ given(a) or a == 1 }}", [("a", 10, 1, True), ("a", 16, 1, False)]),
        ("${{ today() | add_days(n) }} ${{ m }}", [("n", 23, 1, False), ("m", 33, 1, False)]),
        ("${{ (a | first).b }}", [("a", 5, 1, False)]),
        ("${{ 'a.b' }} c.d", []),
    ],
)
def test_names_are_found_where_they_stand(text: str, wanted: list[tuple[str, int, int, bool]]) -> None:
    assert [(".".join(use.path), use.offset, use.length, use.guarded) for use in names(text)] == wanted


def test_the_tree_carries_offsets() -> None:
    parsed: Any = tree(" a.b == 'c'")
    assert type(parsed).__name__ == "Compare"
    assert (parsed.expr.node.lineno, parsed.expr.lineno) == (1, 2)
    with pytest.raises(EvaluationError, match="cannot be read"):
        tree("a b")


def test_every_word_of_the_language_is_there() -> None:
    words = (
        "default given upper lower trim replace split contains starts_with ends_with truncate length first last join sum "
        "min max sort unique where pick under with number round money now today date time add_days add_months add_business_days "
        "format_date in_zone days_between json hash one_line"
    ).split()
    assert sorted(FUNCTIONS) == sorted(words)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([text for text, _ in ANSWERS]), json_values, json_values)
def test_whatever_the_data_only_our_error_comes_out(text: str, one: Any, other: Any) -> None:
    scope = {"inputs": dict.fromkeys(SCOPE["inputs"], one), "steps": {"plan": other, "rows": {"rows": [one, other]}}}
    with contextlib.suppress(EvaluationError):
        answer(text, scope)


@settings(max_examples=100, deadline=None)
@given(json_values)
def test_a_marker_alone_gives_the_value_itself(value: Any) -> None:
    if value is None:
        with pytest.raises(NoValue):
            answer("${{ a }}", {"a": value})
    else:
        assert answer("${{ a }}", {"a": value}) is value


def test_evaluation_is_quick() -> None:
    def cost(text: str) -> float:
        answer(text)
        return min(timeit.repeat(lambda: answer(text), number=300, repeat=7)) / 300 * 1e6

    assert cost("plain text without any marker") < 20
    assert cost("${{ inputs.email }}") < 40
    assert cost("${{ inputs.amount > 1000 and inputs.count == 3 and 'vip' in inputs.tags }}") < 100
