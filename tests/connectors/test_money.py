"""Money in the answers and the input of a connector's actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connectors.declarative import kind_from_text
from runner.language.samples import sample_output
from tests.connectors.httpserver import answer, http_server
from tests.connectors.tools import Lent

REFUNDS = """\
connector: refunds
title: Pays back
origin: https://pay.example.test
actions:
  get_order:
    reads: true
    input: { no: text }
    request: { get: "/orders/${{ input.no }}" }
    output: { amount: { money: JPY }, lines: { list: { price: { money: JPY } } } }
  get_open:
    reads: true
    input: { no: text }
    request: { get: "/orders/${{ input.no }}" }
    output: { amount: money }
  refund:
    writes: once
    input: { amount: { money: JPY } }
    request: { post: /refunds, json: { amount: "${{ input.amount.value }}" } }
    output: { id: text }
    cannot_undo: Money that has left is asked back by finance.
"""
YEN = {"value": 48000, "currency": "JPY"}


def connect(origin: str) -> Any:
    kind, problems = kind_from_text(REFUNDS, "refunds.yaml")
    assert problems == ()
    assert kind is not None
    return kind.connect("refunds", {"origin": origin, "allow_private": True}, Lent())


@pytest.mark.parametrize(
    ("action", "amount", "expected"),
    [
        ("get_order", 48000, YEN),
        ("get_order", YEN, YEN),
        ("get_order", "48000 JPY", 'the text "48000 JPY"'),
        ("get_order", {"value": 5, "currency": "USD"}, "must be in JPY, not in USD"),
        ("get_open", YEN, YEN),
        ("get_open", 48000, "must be an amount of money, not 48000: write { value: 12000, currency: JPY }, or a bare"),
    ],
)  # fmt: skip
async def test_money_of_an_answer_is_money(action: str, amount: Any, expected: Any) -> None:
    async with http_server() as server:
        server.on("/orders/7", answer(200, {"amount": amount, "lines": [{"price": 48000}]}))
        mine = connect(server.origin)
        request = mine.prepare(action, {"no": "7"}, key="k", purpose="read")
        found = await mine.send(action, request, key="k", purpose="read", limit=2_000)
        await mine.close()
    if isinstance(expected, str):
        assert (found.result, found.reason) == ("unknown", "unreadable")
        assert expected in found.summary
    else:
        assert (found.result, found.output["amount"]) == ("applied", expected)
        assert found.output.get("lines", [{"price": YEN}]) == [{"price": YEN}]


def test_money_is_given_as_an_answer_has_it() -> None:
    mine = connect("https://pay.example.test")
    bodies = {mine.prepare("refund", {"amount": one}, key="k", purpose="do").body["body"] for one in (48000, YEN)}
    assert bodies == {'{"amount":48000}'}
    order = replace(mine.actions["refund"], output={"amount": {"money": "JPY"}})
    assert sample_output(order, {"amount": 48000}) == {"amount": YEN}
