"""Mailboxes, polls and hooks that cannot work, or are weak, are found before anything runs."""

from __future__ import annotations

import pytest

from runner.contract import Action
from runner.language.connections import Connection, Found
from tests.language.ground import ACTIONS, CONNECTIONS, Kind, check

FLOW = """flow: flow
title: What is new is written down
owner: person:aya
run_key: ${{ trigger.id }}
trigger: { TRIGGER }
inputs: { name: text or empty }
steps:
  - id: plan
    read: billing.get_plan
    with: { code: basic }
"""
ITEM = {"list": {"id": "text", "name": "text"}}
LISTS = (
    Action(name="new", effect="read", input={"since": "text or empty"}, output={"rows": ITEM, "next": "text or empty"}),
    Action(name="items", effect="read", output={"items": "any", "others": "list"}),
    Action(name="two", effect="read", output={"one": "list", "other": "list"}),
    Action(name="make", effect="keyed", key_life=1, output={"items": "list"}),
    Action(name="ours", effect="read", own=True, output={"rows": "list"}),
)


def box(name: str) -> Connection:
    return Connection(name=name, connector="imap", found=Found(kind=Kind("imap", ()), name="imap"))


def problems(trigger: str) -> list[str]:
    actions = {**ACTIONS, **{f"list.{action.name}": action for action in LISTS}}
    connections = {**CONNECTIONS, "orders": box("orders")}
    _, found = check(FLOW.replace("TRIGGER", trigger), actions=actions, connections=connections)
    return [f"{one.code} {one.what}{' | ' * bool(one.hint)}{one.hint}" for one in found]


@pytest.mark.parametrize(
    "trigger",
    [
        "mail: orders",
        "poll: list.new, every: 10 s",
        "poll: list.new, with: { since: '${{ trigger.at }}' }",
        "poll: list.new, seen_by: '${{ item.name }}', fill: { name: '${{ item.name }}' }",
        "poll: list.items, seen_by: '${{ item.key }}'",
    ],
)
def test_what_can_work_is_left_alone(trigger: str) -> None:
    assert problems(trigger) == []


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (
            "webhook: orders, signed_by: till",
            ("FL403 the secret itself stands in every delivery, so whoever sees one can make others"
            " | where the sender can sign, take scheme: standard, hmac or its own"),
        ),
        ("mail: order", 'FL208 there is no connection "order" | did you mean "orders"?'),
        ("mail: mail", 'FL208 "mail" is a connection to mail, and no mailbox | a mailbox is a connection with connector: imap'),
        ("mail: shop", 'FL208 "shop" is a connection to webhook, and no mailbox | a mailbox is a connection with connector: imap'),
        ("poll: list.news", 'FL208 "list" has no action "news" | did you mean "new"?'),
        ("poll: lst.new", 'FL208 there is no connection "lst" | did you mean "list"?'),
        ("poll: list.make", "FL201 list.make changes something, so it cannot be polled | name a read action"),
        (
            "poll: list.two, seen_by: '${{ item.id }}'",
            ("FL208 list.two answers with no list, or with several, so there is nothing to look through"
            " | its connector needs one output field that is a list, or items"),
        ),
        (
            "poll: list.ours, seen_by: '${{ item.id }}'",
            "FL208 list.ours reads our own tables, which are not polled | emit an event where they change",
        ),
        (
            "poll: list.items",
            "FL005 nothing tells one item of list.items from another | write seen_by: ${{ item.… }}, what it is known by",
        ),
        ("poll: list.new, every: 5 s", "FL006 5 s is too often for a poll | every is 10 s at least"),
        (
            "poll: list.new, id: '${{ item.id }}'",
            "FL006 a polled item is known by seen_by, so id means nothing here | write seen_by: in its place",
        ),
        ("poll: list.new, with: { sinc: x }", 'FL208 list.new has no field "sinc" | did you mean "since"?'),
        ("poll: list.new, with: { since: '${{ item.id }}' }", 'FL101 "item" is in reach inside `each` only'),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said(trigger: str, said: str) -> None:
    assert problems(trigger) == [said]


def test_a_mailbox_that_is_not_there_shows_its_line() -> None:
    (said,) = problems("mail: invoices")
    assert 'FL208 there is no connection "invoices"' in said
    assert "invoices: { connector: imap, host: imap.example.com, user: …, password: { secret: INVOICES } }" in said
