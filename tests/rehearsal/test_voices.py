"""What services, people and events can say in a case, and what follows from each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal.stage import faults, play, project_in, told

LETTERS = """\
inputs: { rows: { list: { id: text, email: email } }, text: text }
steps:
  - id: go
    approve: Send them?
    covers: [letter]
    by: team:sales_leads
    may_edit: [letter.text]
    may_leave_out: inputs.rows
  - id: letters
    each: ${{ inputs.rows }}
    named: ${{ item.id }}
    at_once: 1
    if_one_fails: continue
    steps:
      - id: letter
        do: mail.send
        with: { to: "${{ item.email }}", subject: Hello, text: "${{ inputs.text }}" }
        compensate: { hand_off: person:aya }
"""
ROWS = "given: { inputs: { text: Hi, rows: [{ id: A, email: a@x.test }, { id: B, email: b@x.test }] } }\ncases:\n"


@pytest.mark.parametrize(
    ("voices", "expect", "wrong"),
    [
        ("people: { go: yes }", "calls: [letter (A), letter (2)]", []),
        ("people: { go: { say: yes, leave_out: [2] } }", "calls: [letter (A)], outcomes: { letter (B): left_out }", []),
        (
            "people: { go: { say: yes, edit: { letter: { text: Dear } } } }",
            "calls: [{ letter (A): { text: Dear } }, { letter (B): { text: Dear } }]",
            [],
        ),
        ("people: { go: [silence] }", "end: failed, because: Nobody answered in time., told: [team:sales_leads]", []),
        ("people: { go: { say: no, changes: Shorter. } }", "end: failed, because: 'asked for changes: Shorter.'", []),
        ("people: { go: { say: yes, after: 5 business days } }", "end: failed, because: Nobody answered", []),
        ("by: person:tom\n    people: { go: yes }", "end: succeeded, told: [person:aya]", []),
        (
            "by: person:tom\n    people: { go: { say: yes, by: person:tom } }",
            "end: failed",
            ["6 person:tom cannot say yes: you cannot decide this: you have started this run"],
        ),
        (
            "people: { go: yes }\n    services: { letter (B): { refused: invalid } }",
            "end: needs_person, set_aside: [B], tries: { letter (A): 1, letter: 2 }, asked: [go, letters]",
            [],
        ),
        (
            "people: { go: yes, letters: { say: skip, why: Told. } }\n    services: { letter (1): { refused: invalid } }",
            "end: closed, set_aside: [A]",
            [],
        ),
        (
            "people: { go: yes }\n    services: { letter (B): { refused: unavailable, times: 2 } }",
            "end: succeeded, tries: { letter (A): 1, letter (B): 3 }",
            [],
        ),
        (
            "people: { go: yes }\n    services: { letter (B): { refused: invalid } }",
            "end: succeeded, because: set aside",
            ["7 end: not as expected; - succeeded; + needs_person: 1 item was set aside: B."],
        ),
        (
            "people: { go: yes }\n    services: { letter: [{ unknown: happened }, done] }",
            "end: needs_person, in_doubt: [letter (A)], tries: { letter: 2 }",
            [],
        ),
        (
            "people: { go: yes, letter (A): [did_not] }\n    services: { letter (A): { unknown: did not happen } }",
            "end: succeeded, tries: { letter (A): 2 }, calls: { at_least: [letter (A), letter (A)] }",
            [],
        ),
    ],
)
def test_what_is_said(tmp_path: Path, voices: str, expect: str, wrong: list[str]) -> None:
    outcome = play(
        project_in(tmp_path / "flows", LETTERS),
        f"{ROWS}  - case: one\n    {voices}\n    expect: {{ {expect} }}\n",
    )
    assert told(outcome) == wrong


TWO = """\
inputs: { amount: number }
steps:
  - id: both
    approve: Pay?
    covers: [pay]
    needs: 2
    by: team:sales_leads
  - id: pay
    do: accounting.refund
    with: { payment: p, amount: "${{ inputs.amount }}" }
    compensate: { hand_off: person:aya }
"""


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("yes", "succeeded"),
        ("[yes, no]", "failed"),
        ("{ say: yes, by: person:aya }", "failed"),
        ("[{ say: yes, by: person:aya }, { say: yes, by: person:tom, after: 3 hours }]", "succeeded"),
    ],
)
def test_two_who_must_say_yes(tmp_path: Path, said: str, end: str) -> None:
    folder = project_in(tmp_path / "flows", TWO)
    people = folder / "people.yaml"
    text = people.read_text(encoding="utf-8").replace(
        "people:\n", "people:\n  ken: { name: Ken, mail: ken@shop.test }\n"
    )
    people.write_text(text.replace("members: [aya, tom]", "members: [aya, tom, ken]"), encoding="utf-8")
    outcome = play(
        folder,
        f"cases:\n  - case: one\n    inputs: {{ amount: 3 }}\n    people: {{ both: {said} }}\n    expect: {{ end: {end} }}\n",
    )
    found = ["5 person:aya cannot say yes: you have said yes to this already"] if said.startswith("{") else []
    assert told(outcome) == found


def test_a_file_is_given_by_its_name(tmp_path: Path) -> None:
    flow = """\
inputs: { receipt: { file: { kinds: [pdf] } } }
steps:
  - id: letter
    do: mail.send
    with: { to: a@x.test, subject: "${{ inputs.receipt.name }}", text: Hello, attach: ["${{ inputs.receipt }}"] }
    unattended: It goes to one of us.
    compensate: { none: It does no harm. }
"""
    cases = "cases:\n" + "".join(
        f"  - case: {name}\n    inputs: {{ receipt: {name} }}\n    expect: {{ calls: [{{ letter: {{ subject: bill.pdf }} }}] }}\n"
        for name in ("bill.pdf", "bill.exe")
    )
    outcome = play(project_in(tmp_path / "flows", flow), cases)
    assert [verdict.is_green for verdict in outcome.verdicts] == [True, False]
    assert told(outcome)[0].startswith("7 input receipt")


REFUND = """\
steps:
  - { id: payment, read: accounting.get_payment, with: { id: p } }
  - id: back
    do: accounting.refund
    when: ${{ steps.payment.amount > 20000 }}
    with: { payment: p, amount: "${{ steps.payment.amount.value }}" }
    unattended: It may leave.
    compensate: { hand_off: person:aya }
"""


@pytest.mark.parametrize("amount", ["48000 JPY", "48000", "{ value: 48000, currency: JPY }"])
def test_money_in_an_answer_is_written_as_people_write_it(tmp_path: Path, amount: str) -> None:
    folder = project_in(tmp_path / "flows", REFUND)
    connector = folder / "connectors" / "accounting.yaml"
    text = connector.read_text(encoding="utf-8")
    connector.write_text(text.replace("order: text, amount: number", "order: text, amount: { money: JPY }", 1), "utf-8")
    case = f"    services: {{ payment: {{ gives: {{ amount: {amount} }} }} }}\n    expect: {{ calls: [back] }}\n"
    assert told(play(folder, f"cases:\n  - case: one\n{case}")) == []
    assert faults(play(folder, f"cases:\n  - case: one\n{case.replace(amount, 'much')}")) == [
        '4:17 FL006 "amount": the text "much" is not an amount of money: write it as 12,000 JPY|'
    ]
