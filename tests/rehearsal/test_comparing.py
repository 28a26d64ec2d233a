"""What a flow test says of each difference: every word of `expect` can be wrong, and then it is told where and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.rehearsal.compare import is_like
from tests.rehearsal.stage import HEAD, faults, play, project_in, told
from tests.support.cpu import spent

FLOW = """\
record: customer/${{ inputs.email }}
inputs: { email: email, amount: { money: JPY } }
steps:
  - id: item
    read: shop.get_item
    with: { sku: cup }
  - id: account
    do: shop.open_account
    find: { email: "${{ inputs.email }}" }
    with: { name: Kato, email: "${{ inputs.email }}" }
    compensate:
      mark: shop.flag_account
      with: { id: "${{ output.id }}", reason: "${{ failure.summary | one_line }}" }
  - id: told
    emit: account.opened
    with: { email: "${{ inputs.email }}" }
  - id: reservation
    do: shop.reserve
    with: { sku: cup, quantity: "${{ inputs.amount.value }}" }
    compensate: cancel
  - id: look
    hand_off: team:finance
    when: ${{ inputs.amount > 100 }}
    say: Look at it.
    show: [inputs.amount]
  - id: shipment
    do: shop.ship
    with: { order: "${{ steps.reservation.id }}" }
    unattended: It may leave.
    compensate: { hand_off: person:tom, say: Ask the carrier. }
outputs: { shipment: "${{ steps.shipment.id }}", amount: "${{ inputs.amount }}" }
"""
SENT = "6 what was sent: not as expected; "
RESERVED = '+ reservation  { sku: "cup", quantity: 3 }'
SHIPPED = '+ shipment  { order: "reservation-1" }'
GIVEN = "given: { inputs: { email: kato@customer.test, amount: 3 JPY } }\ncases:\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project_in(tmp_path / "flows", FLOW)


def test_a_failure_that_is_not_expected_says_why(folder: Path) -> None:
    outcome = play(
        folder, f"{GIVEN}  - case: one\n    services: {{ account: {{ refused: invalid, say: Too young. }} }}\n"
        "    expect: { end: succeeded }\n",
    )  # fmt: skip
    assert told(outcome) == ["6 end: not as expected; - succeeded; + failed: Too young."]


@pytest.mark.parametrize(
    ("expect", "told_so"),
    [
        ("end: succeeded", []),
        ("end: failed", ["6 end: not as expected; - failed; + succeeded"]),
        ("because: declined", ['6 "declined" is no part of why it failed; + it did not fail']),
        ("calls: [account, reservation, shipment]", []),
        ("calls: { at_least: [account, shipment] }", []),
        (
            "calls: [reservation, account, shipment]",
            [f"{SENT}- reservation;   account; {RESERVED};   shipment"],
        ),
        (
            "calls: [account, reservation]",
            ['6 what was sent: not as expected;   account;   reservation; + shipment  { order: "reservation-1" }'],
        ),
        (
            "calls: { at_least: [shipment, account] }",
            [f"{SENT}- shipment;   account; {RESERVED}; {SHIPPED}"],
        ),
        ("calls: { at_least: [{ reservation: { quantity: 3 } }] }", []),
        (
            "calls: { at_least: [{ reservation: { quantity: 4, skew: 1 } }] }",
            [
                "6 reservation: quantity: not as expected; - 4; + 3",
                "6 reservation: skew: not as expected; - 1; + there is none; there are sku, quantity",
            ],
        ),
        ("reads: [{ item: { sku: cup } }]", []),
        ("reads: []", ['6 what was asked of services: not as expected; + item  { sku: "cup" }']),
        ("compensations: [account]", ["6 what was made good: not as expected; - account"]),
        ("asked: [look]", ["6 what people were asked: not as expected; - look"]),
        ("emits: [{ account.opened: { email: kato@customer.test } }]", []),
        ("emits: [account.closed]", ['6 the events that were sent: not as expected; - account.closed; + account.opened  { email: "kato@customer.test" }']),
        ("tries: { account: 1, item: 1 }", []),
        ("tries: { account: 0 }", ["6 the tries of account: not as expected; - 0; + 1"]),
        ("outcomes: { look: skipped, account: done }", []),
        ("outcomes: { look: done }", ["6 the outcome of look: not as expected; - done; + skipped"]),
        ("outputs: { shipment: shipment-1, amount: 3 JPY }", []),
        ("outputs: { shipment: s }", ['6 outputs: shipment: not as expected; - "s"; + "shipment-1"']),
        ("stands: [shipment, account, reservation]", []),
        ("stands: [account]", ["6 what stands at the end: not as expected;   account; + reservation; + shipment"]),
        ("in_doubt: [account]", ["6 what is in doubt at the end: not as expected; - account"]),
        ("told: [team:finance]", ["6 who is told: not as expected; - person:aya; - person:tom"]),
        ("set_aside: [INV-1]", ["6 the items that were set aside: not as expected; - INV-1"]),
        ("holds: [customer/x]", ["6 the records that are held: not as expected; - customer/x"]),
        ("then: { return_failed: {} }", ["6 the flow that follows: not as expected; - return_failed"]),
    ],
)  # fmt: skip
def test_each_word(folder: Path, expect: str, told_so: list[str]) -> None:
    outcome = play(folder, f"{GIVEN}  - case: one\n    expect:\n      {expect}\n")
    assert told(outcome) == told_so


def test_the_way_back_is_compared_too(folder: Path) -> None:
    outcome = play(folder, f"""{GIVEN}
  - case: one
    services: {{ shipment: {{ refused: conflict, say: The warehouse is closed. }} }}
    expect:
      end: compensated
      because: The warehouse is closed.
      compensations: [{{ reservation: {{ id: reservation-1 }} }}, {{ account: {{ reason: The warehouse is open. }} }}]
      stands: []
""")  # fmt: skip
    assert told(outcome) == [
        '10 account: reason: not as expected; - "The warehouse is open."; + "The warehouse is closed."'
    ]


def test_what_is_said_and_never_asked_is_told(folder: Path) -> None:
    outcome = play(folder, f"""{GIVEN}
  - case: one
    services: {{ look_up account: {{ refused: forbidden }} }}
    people: {{ look: go_on }}
    expect: {{ end: succeeded }}
  - case: two
    inputs: {{ amount: 300 JPY }}
    people: {{ look: done }}
    expect: {{ end: needs_person, holds: [customer/kato@customer.test] }}
""")  # fmt: skip
    first, second, third = told(outcome)
    assert first == '6 "look_up account" says something here, and was never asked'
    assert second == '7 "look" says something here, and was never asked'
    assert third.startswith("11 person:me cannot say done: done does not answer h1 (step look) of run rehearsed")


def test_an_event_that_nobody_waits_for_is_told(folder: Path) -> None:
    (folder / "sample.yaml").write_text(
        HEAD + "inputs: { wanted: yes_no }\nsteps:\n  - id: parcel\n    wait_for: parcel.arrived\n    within: 3 days\n"
        "    if_late: continue\n    when: ${{ inputs.wanted }}\n",
        encoding="utf-8",
    )
    cases = "".join(
        f"  - case: {name}\n    inputs: {{ wanted: {wanted} }}\n    events: {{ parcel: {comes} }}\n"
        f"    expect: {{ outcomes: {{ parcel: {outcome} }} }}\n"
        for name, wanted, comes, outcome in (
            ("in time", "true", "{ after: 2 days }", "done"),
            ("too late", "true", "{ after: 4 days }", "late"),
            ("not at all", "true", "never", "late"),
            ("unasked", "false", "comes", "skipped"),
        )
    )
    assert told(play(folder, f"cases:\n{cases}")) == ['17 "parcel" says something here, and was never asked']


def test_a_hundred_cases_take_a_few_seconds(folder: Path) -> None:
    cases = "".join(
        f"  - case: number {number}\n    services: {{ shipment: {{ refused: conflict }} }}\n"
        "    expect: { end: compensated, calls: [account, reservation, shipment], compensations: [reservation, account] }\n"
        for number in range(100)
    )
    with spent() as cpu:
        assert told(play(folder, GIVEN + cases)) == []
    assert cpu.seconds < 8


def test_inputs_that_do_not_fit_are_told(folder: Path) -> None:
    outcome = play(folder, "cases:\n  - case: one\n    inputs: { email: kato }\n    expect: { end: succeeded }\n")
    assert told(outcome)[0] == '4 input email the text "kato" is not a mail address: write it as name@example.test'


def test_names_that_mean_nothing_are_problems_of_the_file(folder: Path) -> None:
    outcome = play(folder, f"""{GIVEN}
  - case: one
    services: {{ acount: {{ refused: invalid }}, look: done }}
    people: {{ told: yes }}
    events: {{ item: comes }}
    expect: {{ calls: [item], tries: {{ shipmnt: 1 }} }}
""")  # fmt: skip
    assert faults(outcome) == [
        '6:17 FL101 there is no step "acount"|did you mean "account"?',
        '6:47 FL101 "look" is a step of another kind (hand_off)|here stand steps of kind do, read',
        '7:15 FL101 "told" is a step of another kind (emit)|here stand steps of kind approve, hand_off, wait_for, each, agent, do, read',
        '8:15 FL101 "item" is a step of another kind (read)|here stand steps of kind wait_for',
        '9:23 FL101 "item" is a step of another kind (read)|here stand steps of kind do',
        '9:39 FL101 there is no step "shipmnt"|did you mean "shipment"?',
    ]


def test_cases_that_are_called_alike_or_cannot_fail(folder: Path) -> None:
    cases = "  - { case: one, expect: { end: succeeded } }\n  - { case: one, expect: {} }\n"
    assert faults(play(folder, GIVEN + cases)) == [
        '5:13 FL001 another case is called "one" (line 4)|say what tells them apart',
        "5:26 FL005 nothing is expected here|for example end: succeeded",
    ]


def test_only_some_cases_are_played(folder: Path) -> None:
    cases = "".join(f"  - case: number {number}\n    expect: {{ end: failed }}\n" for number in (1, 2))
    assert [one.case for one in play(folder, GIVEN + cases, only="number 2").verdicts] == ["number 2"]


@pytest.mark.parametrize(
    ("expected", "found", "fits"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        ("1", 1, False),
        (None, None, True),
        ({"contains": "b"}, "abc", True),
        ({"contains": "x"}, "abc", False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "c": 2}, {"a": 1}, False),
        ([1, {"a": 1}], [1, {"a": 1, "b": 2}], True),
        ([1], [1, 2], False),
        ("12,000 JPY", {"value": 12000, "currency": "JPY"}, True),
        ("12000 JPY", {"value": 12000, "currency": "JPY"}, True),
        ("12 JPY", {"value": 12000, "currency": "JPY"}, False),
    ],
)
def test_what_is_alike(expected: object, found: object, fits: bool) -> None:
    assert is_like(expected, found) is fits
