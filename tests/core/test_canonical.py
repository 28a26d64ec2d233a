"""The one byte form of a value: it is hashed, so it must be what the library writes, to the byte, for ever."""

from __future__ import annotations

import enum
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract import Json, canonical

WRITTEN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner), max_leaves=20
)


class Number(enum.IntEnum):
    ONE = 1


class Word(str):
    __slots__ = ()


@given(VALUES)
def test_it_is_what_the_library_writes(value: Json) -> None:
    assert canonical(value) == WRITTEN.encode(value).encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [1, (2, 3), {}]}, b'{"a":[1,[2,3],{}],"b":1}'),
        ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'.encode()),
        ("\x00\x1f\x7f\u2028\"\\\n", b'"\\u0000\\u001f\x7f\xe2\x80\xa8\\"\\\\\\n"'),
        ([1e16, 1e-7, -0.0, 0.1, 10**30], b"[1e+16,1e-07,-0.0,0.1,1000000000000000000000000000000]"),
        ({1: None, 2: True}, b'{"1":null,"2":true}'),
        ([Number.ONE, Word("word")], b'[1,"word"]'),
    ],
)  # fmt: skip
def test_each_kind_of_value(value: Json, written: bytes) -> None:
    assert canonical(value) == written == WRITTEN.encode(value).encode()


def _circle() -> Json:
    inside: list[Json] = []
    inside.append({"it": inside})
    return inside


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (float("nan"), ValueError), ({"a": float("inf")}, ValueError), (_circle(), ValueError),
        ("\ud800", UnicodeEncodeError), ({"a": {1, 2}}, TypeError), ({1: 1, "a": 2}, TypeError), ({(1,): 1}, TypeError),
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_in_the_same_words(value: Json, kind: type[Exception]) -> None:
    with pytest.raises(kind) as ours:
        canonical(value)
    with pytest.raises(kind) as theirs:
        WRITTEN.encode(value).encode()
    assert (type(ours.value), str(ours.value)) == (type(theirs.value), str(theirs.value))
    assert canonical({"a": 1}) == b'{"a":1}'  # and nothing of it is left behind
