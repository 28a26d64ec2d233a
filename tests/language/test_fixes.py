"""What is put right by itself: each mistake of many is gone, and the file is as it was before somebody made it."""

from __future__ import annotations

import random

import pytest

from runner.language.called import CheckedFlow
from runner.language.check import check_flow
from runner.language.fixes import KEYS, is_one_apart, put_right
from runner.language.load import load_flow
from tests.language.ground import check, facts

HEAD = """flow: flow
title: A small flow  # a comment that stays
owner: person:aya
mode: live
run_key: ${{ inputs.email }}
inputs:
  email: email
  name: text
  note:   text or empty
steps:
  # first a read
  - id: plan
    read: billing.get_plan
    with: { code: "00123" }

  - id: call
    do: tasks.create   # then a to-do
    with: { title: "Call ${{ inputs.name }}", note: "1.10" }
    compensate:
      cancel: tasks.close
      with: { id: "${{ output.id }}" }
    timeout: 30 s
  - id: go
    approve: Shall we?
    covers: [letter]
    by: team:sales_ops
    within: 2 business days
  - id: letter
    do: mail.send
    with: { to: "${{ inputs.email }}", subject: Hello, text: "${{ steps.call.id }}" }
    compensate: { none: It is only a greeting. }
outputs:
  call: ${{ steps.call.id }}
"""


def checked(text: str) -> CheckedFlow:
    flow, source, problems = load_flow(text, "flow.yaml")
    rules = check_flow(flow, source, facts()) if flow is not None and source is not None else ()
    every = tuple(sorted((*problems, *rules), key=lambda one: (one.line, one.column, one.code)))
    return CheckedFlow(file="flow.yaml", text=text, flow=flow, source=source, problems=every)


def fixed(text: str) -> str:
    return put_right(text, checked)[0]


def test_what_is_right_stays() -> None:
    assert check(HEAD)[1] == ()
    assert put_right(HEAD, checked) == (HEAD, ())


MISTAKES = [
    ("mode: live", "mode: Live"),
    ("mode: live", "mode: LIVE"),
    ('code: "00123"', "code: 00123"),
    ('note: "1.10"', "note: 1.10"),
    ("compensate:\n", "compensat:\n"),
    ("timeout: 30 s", "timout: 30 s"),
    ("read: billing", "reed: billing"),
    ("within:", "wihtin:"),
    ("covers:", "cover:"),
    ("outputs:", "output:"),
    ("steps:\n", "steps：\n"),
    ("owner: person", "owner：person"),
    ('with: { code: "00123" }', 'with：｛ code： "00123" ｝'),
    ("  - id: call", "  － id: call"),
    ('with: { id: "${{ output.id }}" }', "with: { id: ${{ output.id }} }"),
]


@pytest.mark.parametrize(("right", "wrong"), MISTAKES, ids=[wrong.strip() for _, wrong in MISTAKES])
def test_one_mistake_is_put_right_and_nothing_else_changes(right: str, wrong: str) -> None:
    text = HEAD.replace(right, wrong, 1)
    assert text != HEAD
    new, gone = put_right(text, checked)
    assert new == HEAD
    assert gone
    assert put_right(new, checked) == (new, ())


def test_an_id_is_renamed_wherever_it_is_named() -> None:
    text = HEAD.replace("id: call", "id: call-it").replace("steps.call.", "steps.call-it.")
    assert fixed(text) == HEAD.replace("id: call", "id: call_it").replace("steps.call.", "steps.call_it.")
    text = HEAD.replace("id: letter", "id: a-letter").replace("covers: [letter]", "covers: [a-letter]")
    assert fixed(text) == text.replace("a-letter", "a_letter")
    taken = text.replace("id: plan", "id: a_letter")
    assert fixed(taken) == taken


@pytest.mark.parametrize(
    "wrong",
    [
        HEAD.replace("title: A small flow  #", "title: A small flow #"),
        HEAD.replace("person:aya", "person:aia"),
        HEAD.replace("inputs.name }}", "inputs.nmae }}"),
        HEAD.replace("mode: live", "mode: alive"),
        HEAD.replace("timeout: 30 s", "timeot_: 30 s"),
        HEAD.replace("billing.get_plan", "billing.get_plans"),
        HEAD.replace("covers: [letter]", "covers: [lettr]"),
        HEAD.replace("steps:\n", "steps: [\n"),
        HEAD.replace("  - id: call", "\t- id: call"),
        "",
        "{{",
    ],
)
def test_what_is_not_certain_is_left_to_a_person(wrong: str) -> None:
    assert put_right(wrong, checked) == (wrong, ())


@pytest.mark.parametrize("seed", range(3))
def test_several_mistakes_of_many_kinds_are_put_right_together(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        text = HEAD
        for right, wrong in chance.sample(MISTAKES, chance.randint(2, 5)):
            text = text.replace(right, wrong, 1)
        new, gone = put_right(text, checked)
        assert new == HEAD, text
        assert len(gone) >= 1


def test_every_key_with_one_letter_wrong_is_told_from_the_others() -> None:
    assert is_one_apart("compensat", "compensate")
    assert is_one_apart("wiht", "with")
    assert is_one_apart("reed", "read")
    assert not is_one_apart("with", "with")
    assert not is_one_apart("whti", "with")
    assert not is_one_apart("fi", "find")
    assert {"compensate", "with", "if_one_fails", "signed_by", "tries", "schedule"} <= KEYS
