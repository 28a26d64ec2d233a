"""What is read of a body, and what is not."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract import Json, canonical
from runner.triggers.bodies import Unreadable, id_of, read_body

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("application/json", b'{ "a" : 1.0,\r\n "b":"\\u00e9" }', {"a": 1.0, "b": "é"}),
        ("Application/JSON; Charset=UTF-8", '{"name": "佐藤"}'.encode(), {"name": "佐藤"}),
        ('application/cloudevents+json; charset="utf-8"', b"[1]", [1]),
        ("application/json; charset=shift_jis", '"書類"'.encode("shift_jis"), "書類"),
        ("", b"\xef\xbb\xbf{}", {}),
        ("text/plain", b"null", None),
        (FORM, b"a=1&b=%E6%9B%B8&c=&a=2+3", {"a": ["1", "2 3"], "b": "書", "c": ""}),
        (FORM, b"payload=%7B%22a%22%3A1%7D", {"a": 1}),
        (FORM, b"payload=x&more=y", {"payload": "x", "more": "y"}),
        (FORM, b"", {}),
        ("application/json", b'{"half": "\\ud83d!"}', {"half": "���!"}),
    ],
)
def test_bodies_are_read_by_their_type(kind: str, body: bytes, value: Json) -> None:
    found = read_body({"content-type": kind}, body)
    assert found == value
    canonical(found)


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("application/json", b"", "its body is not JSON (line 1, column 1)"),
        ("application/json", b'{"a": 1,}', "its body is not JSON (line 1, column "),
        ("application/json", b'{"a":1,"b":{"c":1,"c":2}}', 'its body holds the key "c" twice'),
        ("application/json", b'{"a":NaN}', "its body holds NaN, which is no number"),
        ("application/json", b"[-Infinity]", "its body holds -Infinity"),
        ("application/json", b"[1e999]", "its body holds 1e999"),
        ("application/json", b"[" + b"9" * 5000 + b"]", "its body holds a number that is too long"),
        ("application/json", b"[" * 51 + b"]" * 51, "its body is nested more than 50 levels deep"),
        ("application/json", b"[" * 400_000, "its body is nested more than 50 levels deep"),
        ("application/json", b'{"a":' * 160_000, "its body is nested more than 50 levels deep"),
        ("application/json", b"\xff{}", "its body is not the utf-8 it says it is"),
        ("application/json; charset=punycode", b"{}", "its charset punycode is not read here"),
        ("text/xml", b"<a/>", "its body is text/xml; what can be read is JSON, or a form"),
        ("multipart/form-data; boundary=x", b"--x", "its body is multipart/form-data"),
        (FORM, b"payload=no", "its field payload is not JSON"),
        (FORM, b"a=%ff", "its form cannot be read"),
        (FORM, b"&".join(b"a=1" for _ in range(1001)), "its form cannot be read: more than 1000 fields"),
    ],
)
def test_what_cannot_be_read_says_why_and_soon(kind: str, body: bytes, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreadable) as caught:
        read_body({"content-type": kind}, body)
    assert str(caught.value).startswith(why)
    assert time.monotonic() - began < 1


def test_fifty_levels_are_read() -> None:
    assert read_body({}, b"[" * 50 + b"]" * 50) == json.loads("[" * 50 + "]" * 50)


def test_packed_bodies() -> None:
    packed = {"content-type": "application/json", "content-encoding": "GZip"}
    assert read_body(packed, gzip.compress(b'{"a":1}')) == {"a": 1}
    for body, why in (
        (gzip.compress(b" " * 60_000_000), "more than 1,000,000 bytes when it is unpacked"),
        (gzip.compress(b"{}")[:-9], "its body ends before its gzip does"),
        (b"{}", "not the gzip it says it is"),
    ):
        with pytest.raises(Unreadable, match=why):
            read_body(packed, body)
    with pytest.raises(Unreadable, match="packed as br"):
        read_body({"content-encoding": "br"}, b"{}")


@given(body=st.binary(max_size=200), kind=st.sampled_from(["application/json", FORM, "text/html", ""]))
def test_any_bytes_are_read_or_refused(body: bytes, kind: str) -> None:
    with suppress(Unreadable):
        canonical(read_body({"content-type": kind}, body))


def test_ids_are_the_senders_own_where_there_is_one() -> None:
    assert id_of("standard", {"webhook-id": "msg_1"}, {"id": "x"}, "d") == "msg_1"
    assert id_of("github", {"x-github-delivery": "72d3"}, {}, "d") == "72d3"
    assert id_of("stripe", {"webhook-id": "no"}, {"id": "evt_1"}, "d") == "evt_1"
    assert id_of("slack", {}, {"event_id": "Ev1"}, "d") == "Ev1"
    for scheme, body in (("slack", {"event_id": ""}), ("stripe", [1]), ("stripe", {"id": 7}), ("hmac", {"id": "x"})):
        assert id_of(scheme, {"webhook-id": "no"}, body, "d") == "d"
