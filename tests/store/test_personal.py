"""What is personal in a log: by the marks of the flow and its connectors, and by value wherever it is repeated."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from runner.contract import Action
from runner.core import events as e
from runner.language.flow import Flow
from runner.language.personal import TEXT, marks
from runner.store.personal import HIDDEN, Personal, remains
from tests.store.samples import applied, intended, refused, started

MARKED = {"text": None, "personal": True}
FLOW = Flow(
    id="signup", title="x", owner="person:me",
    inputs={
        "email": {"email": None, "personal": True}, "plan": "text", "age": {"integer": None, "personal": True},
        "agreed": {"yes_no": None, "personal": True}, "price": {"money": "JPY", "personal": True},
        "people": {"list": {"name": MARKED, "role": "text"}}, "file": {"file": None, "personal": True},
    },
)  # fmt: skip
ACTIONS = {
    "crm.create": Action(name="create", input={"note": "text"}, output={"id": "text", "tel": MARKED}),
    "crm.none": Action(name="none", input={"note": "text"}),
}
GIVEN: dict[str, Any] = {
    "email": "ada@lovelace.test", "plan": "basic", "age": 36, "agreed": True,
    "price": {"value": 12000, "currency": "JPY"}, "people": [{"name": "Bo", "role": "boss"}, {"name": "綾子"}],
    "file": {"name": "pass.pdf", "size": 9, "kind": "pdf", "sha256": "f" * 64},
}  # fmt: skip


@pytest.fixture
def personal() -> Personal:
    texts = {TEXT: marks([FLOW], ACTIONS)}
    return Personal(texts).learn(
        [started("r1", inputs=GIVEN), intended(), applied(output={"id": "c1", "tel": "0312345678"})]
    )


def test_what_is_marked_is_pinned() -> None:
    assert json.loads(marks([FLOW], ACTIONS)) == {
        "flows": {
            "signup": [["email"], ["age"], ["agreed"], ["price"], ["people", "*", "name"], ["file"]],
        },
        "actions": {"crm.create": {"output": [["tel"]]}},
    }
    assert (
        marks([Flow(id="x", title="x", owner="person:me", inputs={"a": "text"})], {"crm.none": ACTIONS["crm.none"]})
        == ""
    )


def test_inputs_and_answers_are_hidden_where_they_stand(personal: Personal) -> None:
    event = personal.event(started("r1", inputs=GIVEN))
    assert event.inputs == {
        "email": HIDDEN, "plan": "basic", "age": HIDDEN, "agreed": HIDDEN, "price": HIDDEN, "file": HIDDEN,
        "people": [{"name": HIDDEN, "role": "boss"}, {"name": HIDDEN}],
    }  # fmt: skip
    assert personal.event(applied(output={"id": "c1", "tel": "0399999999"})).output == {"id": "c1", "tel": HIDDEN}
    plain = refused()
    assert personal.event(plain) is plain


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Dear ada@lovelace.test, hello", f"Dear {HIDDEN}, hello"),
        ("ADA@LOVELACE.TEST", HIDDEN),
        (f"/contacts?email={quote('ada@lovelace.test', safe='')}&x=1", f"/contacts?email={HIDDEN}&x=1"),
        ("call 0312345678 now", f"call {HIDDEN} now"),
        ("綾子さん", f"{HIDDEN}さん"),
        (json.dumps("綾子"), f'"{HIDDEN}"'),
        ("12,000 JPY", f"{HIDDEN} JPY"),
        ("Bo is short, and so is 36", "Bo is short, and so is 36"),
        ("basic", "basic"),
    ],
)
def test_values_are_found_inside_texts(personal: Personal, text: str, seen: str) -> None:
    assert personal.text(text) == seen
    assert personal.event(refused_with(text)).summary == seen


def refused_with(text: str) -> e.CallRefused:
    return e.CallRefused(at=1, step="contact", purpose="do", reason="invalid", summary=text)


def test_a_coded_value_is_found_too(personal: Personal) -> None:
    coded = base64.b64encode(b"x: ada@lovelace.test, y").decode()
    assert personal.text(coded) != coded
    assert personal.json({"b": [coded, 36, "Bo", 37, True, None]})["b"][1:] == [HIDDEN, HIDDEN, 37, True, None]
    assert personal.json({"ada@lovelace.test": 1}) == {HIDDEN: 1}


def test_what_remains_of_an_entry_can_still_be_read(personal: Personal) -> None:
    def renamed(name: str) -> str:
        return personal.text(name, "gone")

    first = started("r1", inputs=GIVEN)
    left = e.restore("RunStarted", at=1, step="", external_id="", data=remains(first, renamed))
    assert left == e.RunStarted(at=1, run="r1", flow="signup", mode="live", bundle=first.bundle)
    held = e.RecordHeld(at=1, record="customer/ada@lovelace.test", handoff="h1")
    assert remains(held, renamed) == {"record": "customer/gone", "handoff": "h1"}
    no = refused_with("ada@lovelace.test")
    assert remains(no, renamed) == {"reason": "invalid", "summary": HIDDEN, "purpose": "do"}
    call = intended(input={"note": "ada@lovelace.test"}, request={"x": 1}, start_no=3)
    assert {"input", "request"}.isdisjoint(remains(call, renamed))
    assert remains(call, renamed)["start_no"] == 3


def test_nothing_is_marked() -> None:
    nothing = Personal({}).learn([started("r1")])
    assert nothing.is_empty
    assert nothing.values == ()
    assert nothing.text("ada@a.test") == "ada@a.test"
