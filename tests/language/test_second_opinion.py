"""What fits a schema and what does not: our verdict, and that of a validator that shares no line with ours."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.language.schemas import DIALECT
from runner.language.validity import faults

NUMBERS = st.one_of(st.integers(-20, 20), st.sampled_from([0.5, 1.0, -2.5, 19.99, 0.07, 1e3]))
TEXTS = st.one_of(st.text("aB1- ", max_size=5), st.sampled_from(["2026-12-01", "2026-13-01", "x", ""]))
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
TYPES = st.sampled_from("string number integer boolean array object null".split())
BOUND, SIZE = st.integers(-3, 10), st.integers(0, 4)


def words(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of a few of the words that are checked here; with many of them hardly a value fits."""
    names = st.lists(st.sampled_from("abcd"), unique=True, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    known: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(PLAIN, min_size=1, max_size=3, unique_by=repr), "const": PLAIN,
        "minLength": SIZE, "maxLength": SIZE, "pattern": st.sampled_from([r"^a+$", r"[0-9]", r"^[a-zA-Z -]*$"]),
        "format": st.just("date"), "minimum": BOUND, "maximum": BOUND, "exclusiveMinimum": BOUND,
        "exclusiveMaximum": BOUND, "multipleOf": st.sampled_from([1, 2, 0.01, 0.5]), "items": inner, "minItems": SIZE,
        "maxItems": SIZE, "uniqueItems": st.booleans(), "contains": inner,
        "properties": st.dictionaries(st.sampled_from("abcd"), inner, max_size=3), "required": names,
        "additionalProperties": st.just(False) | inner, "minProperties": SIZE, "maxProperties": SIZE,
        "dependentRequired": st.dictionaries(st.sampled_from("ab"), names, max_size=1),
        "allOf": some, "anyOf": some, "oneOf": some, "not": inner,
    }  # fmt: skip
    chosen = st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3, unique=True)
    return chosen.flatmap(lambda some: st.fixed_dictionaries({name: known[name] for name in some}))


SCHEMAS = st.recursive(words(st.just({})), words, max_leaves=3)


def other(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for({"$schema": DIALECT, **schema}, validate_formats=True)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(SCHEMAS, st.lists(VALUES, min_size=3, max_size=8))
def test_both_find_the_same_values_wrong(schema: dict[str, Any], values: list[Any]) -> None:
    second = other(schema)
    for value in values:
        assert (not faults(schema, value)) == second.is_valid(value), value


OURS = [
    ({"format": "email"}, "a@b", "an address needs a domain here"),
    ({"format": "date-time"}, "2026-09-01t09:00:00z", "written small it is not taken here"),
]


@pytest.mark.parametrize(("schema", "value", "why"), OURS, ids=[why for _, _, why in OURS])
def test_formats_are_narrower_here(schema: dict[str, Any], value: str, why: str) -> None:
    assert faults(schema, value), why
