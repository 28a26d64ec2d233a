"""JSON Schema: types written as a schema say what the reader says, and a project's file is accepted as it is checked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runner.contract import canonical
from runner.errors import InputsInvalid, InvalidFlow
from runner.language.bundle import restore
from runner.language.fields import FieldType, field_type
from runner.language.flow import Flow
from runner.language.load import load_flow
from runner.language.project import Project
from runner.language.schema_files import fields_of, read_schema
from runner.language.schemas import DIALECT, read_inputs, schema_of
from runner.language.validity import FORMATS, faults
from tests.language.ground import check

FLOW = """flow: small
title: Small
owner: person:me
inputs: { schema: schemas/x.json }
steps: [{ id: a, wait: 1 s }]
outputs: { to: "${{ inputs.email }}" }
"""
LINE = {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}
PARTS: Mapping[str, Any] = {
    "email": {"type": "string", "format": "email", "title": "Address"},
    "price": {"type": "number", "multipleOf": 0.01},
    "code": {"type": ["string", "null"], "pattern": "^(JP|US)-[0-9]{3}$"},
    "plan": {"enum": ["basic", "pro"], "default": "basic"},
    "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 2},
    "paid": {"type": "boolean"},
    "ref": {"anyOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]},
}
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": PARTS, "$defs": {"line": LINE}, "required": ["email"]}


def written(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2)


def problems_of(schema: Mapping[str, Any] | str, file: str = "schemas/x.json") -> list[str]:
    text = schema if isinstance(schema, str) else written(schema)
    return [f"{one.code} {one.what}" for one in read_schema(text, file)[1]]


def loaded(schema: Mapping[str, Any] = SCHEMA) -> Flow:
    flow, _, problems = load_flow(FLOW, "small.yaml", lambda name: (written(schema), None))
    assert flow is not None
    assert problems == ()
    return flow


def read_by(schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    flow = loaded(schema)
    return read_inputs(flow.inputs, values, schema=flow.schema)


def wrong(values: Mapping[str, Any], schema: Mapping[str, Any] = SCHEMA) -> dict[str, str]:
    with pytest.raises(InputsInvalid) as caught:
        read_by(schema, values)
    return caught.value.problems


# --- types as a schema ---------------------------------------------------------------------------------------------

TYPES: Mapping[str, Any] = {
    "name": {"text": {"min": 2, "max": 5}, "label": "Name", "help": "As in the passport."},
    "note": "text or empty",
    "count": {"integer": {"min": 1, "max": 9}},
    "rate": "number",
    "price": {"money": "JPY"},
    "cost": "money",
    "day": "date",
    "at": "time",
    "moment": "datetime",
    "agree": {"yes_no": None, "default": False},
    "email": "email or empty",
    "phone": "phone",
    "url": "url",
    "plan": {"choice": {"mon": "Monday", "tue": "Tuesday"}},
    "level": {"choice": [1, 2]},
    "tags": {"list": "text"},
    "anything": "list",
    "lines": {"list": {"sku": "text", "qty": "integer or empty"}},
    "person": {"record": {"first": "text", "born": "date or empty"}},
    "facts": "record",
    "receipt": {"file": {"kinds": ["pdf", "jpg"], "max": "1 MB"}},
}


def test_types_are_a_schema_of_the_standard() -> None:
    schema = schema_of(TYPES)
    Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    assert schema["$schema"] == DIALECT
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(TYPES) - {"note", "agree", "email"}
    parts = schema["properties"]
    assert (parts["name"]["title"], parts["name"]["description"]) == ("Name", "As in the passport.")
    assert (parts["name"]["minLength"], parts["name"]["maxLength"]) == (2, 5)
    assert parts["plan"] == {
        "enum": ["mon", "tue"],
        "oneOf": [{"const": "mon", "title": "Monday"}, {"const": "tue", "title": "Tuesday"}],
    }
    assert parts["level"] == {"enum": [1, 2]}
    assert parts["agree"] == {"type": "boolean", "default": False}
    assert parts["price"]["required"] == ["value", "currency"]
    assert parts["price"]["properties"]["currency"] == {"const": "JPY"}
    assert parts["email"]["anyOf"] == [{"type": "string", "format": "email"}, {"type": "null"}]
    assert parts["receipt"]["properties"]["size"]["maximum"] == 1_000_000


def test_types_written_as_a_schema_and_read_back_are_the_same_types() -> None:
    kept = {name: kind for name, kind in TYPES.items() if name not in ("at", "phone")}
    schema, problems = read_schema(written(schema_of(kept)), "x.json")
    assert problems == ()
    assert schema is not None
    back = fields_of(schema)
    for name, field in back.items():
        there = field_type(kept[name])
        assert (field.kind, field.optional, field.default) == (there.kind, there.optional, there.default), name
    assert back["lines"].items is not None
    assert set(back["lines"].items.fields or ()) == {"sku", "qty"}
    assert back["price"].currency == "JPY"


words = st.sampled_from(
    ["", " ", "a", "ab", "abcdef", "日本語", "12", "1.5", "true", "mon", "a@b.co", "@", "09:00", "9:00"]
)
more = st.sampled_from(
    [
        "24:00", "2026-02-28", "2026-02-30", "2026-09-01T09:00:00+09:00", "2026-09-01T09:00", "+81 3 1234 5678", "123",
        "(((((", "https://a.test/x", "HTTP://a.test", "ftp://a.test", "500 JPY", "x\ny",
    ]
)  # fmt: skip
plain = st.one_of(
    words, more, st.none(), st.booleans(), st.integers(-2, 12), st.sampled_from([1.0, 1.5, 1e30, 2e30, 10**31])
)
money = st.fixed_dictionaries({"value": plain, "currency": st.sampled_from(["JPY", "USD", "jpy", 5, None])})
file = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a.pdf", "a.PDF", "a.exe", "pdf", "", 5]),
        "size": st.sampled_from([0, 5, -1, 1_000_001, True, "5"]),
        "kind": st.sampled_from(["application/pdf", 5]),
        "sha256": st.sampled_from(["0" * 64, "A" * 64, "x", 5]),
    }
)
line = st.dictionaries(st.sampled_from(["sku", "qty", "first", "born", "other"]), plain, max_size=3)
values = st.one_of(plain, money, file, line, st.lists(st.one_of(plain, line), max_size=3))


@settings(max_examples=400)
@given(name=st.sampled_from(sorted(TYPES)), value=values)
def test_the_reader_and_the_schema_have_one_verdict(name: str, value: Any) -> None:
    """What the schema takes, the reader takes as it is; what the reader makes of a value, the schema takes."""
    kinds = {name: TYPES[name]}
    fits = faults(schema_of(kinds), {name: value}) == []
    found, told = None, {}
    try:
        found = read_inputs(kinds, {name: value})
    except InputsInvalid as error:
        told = error.problems
    if found is None:
        assert not fits, told
    else:
        assert faults(schema_of(kinds), found) == []
        if fits and not isinstance(value, str):
            assert canonical(found[name]) == canonical(value) or name in ("lines", "person") or isinstance(value, float)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_the_two_verdicts_are_reached(name: str) -> None:
    """No kind is taken or refused whatever comes: the law above says something of each."""
    kinds = {name: TYPES[name]}
    good = {
        "name": "abc", "note": "x", "count": 3, "rate": 1.5, "price": {"value": 5, "currency": "JPY"},
        "cost": {"value": 5, "currency": "USD"}, "day": "2026-02-28", "at": "09:00", "agree": True, "email": "a@b.co",
        "moment": "2026-09-01T09:00:00+09:00", "phone": "+81 3 1234 5678", "url": "https://a.test/", "plan": "mon",
        "level": 1, "tags": ["a"], "anything": [1, None], "lines": [{"sku": "a"}], "person": {"first": "A"},
        "facts": {"a": 1}, "receipt": {"name": "a.pdf", "size": 1, "kind": "x", "sha256": "0" * 64},
    }[name]  # fmt: skip
    bad = "x" if name == "name" else " " if name == "note" else "?"
    assert faults(schema_of(kinds), {name: good}) == []
    assert faults(schema_of(kinds), {name: bad}) != []
    assert faults(schema_of(kinds), {name: good, "other": 1}) != []


# --- inputs by a file ----------------------------------------------------------------------------------------------


def test_the_properties_are_the_inputs() -> None:
    flow = loaded()
    assert flow.schema_file == "schemas/x.json"
    kinds = {name: (field.kind, field.optional) for name, field in flow.inputs.items()}
    assert kinds == {
        "email": ("email", False), "price": ("number", True), "code": ("text", True), "plan": ("choice", False),
        "lines": ("list", True), "paid": ("yes_no", True), "ref": ("any", True),
    }  # fmt: skip
    assert flow.inputs["lines"].items == FieldType(kind="record")


def test_values_are_read_by_the_schema() -> None:
    given = {"email": " a@b.co ", "price": "19.99", "paid": "yes", "lines": '[{"sku": "x"}]'}
    assert read_by(SCHEMA, given) == {
        "email": "a@b.co", "price": 19.99, "code": None, "plan": "basic", "lines": [{"sku": "x"}], "paid": True, "ref": None,
    }  # fmt: skip
    assert read_by(SCHEMA, {"email": "a@b.co", "price": "", "code": None})["price"] is None


def test_every_field_has_one_sentence_of_ours() -> None:
    given = {
        "price": 19.995, "code": "JP-12", "plan": "gold", "lines": [{"sku": "x"}, {}], "paid": 1, "ref": "x", "mial": 1,
    }  # fmt: skip
    assert wrong(given) == {
        "email": "is required and has no value",
        "price": "must be a multiple of 0.01, not 19.995",
        "code": 'the text "JP-12" does not fit the pattern ^(JP|US)-[0-9]{3}$',
        "plan": 'must be one of basic, pro, not the text "gold"',
        "lines": "item 2: sku: is required and has no value",
        "paid": "must be yes or no (true or false), not 1",
        "ref": 'the text "x" is not a uuid',
        "mial": 'there is no such field, did you mean "email"?',
    }
    assert wrong({"email": "@", "price": "abc"}) == {
        "email": 'the text "@" is not a mail address: write it as name@example.test',
        "price": 'the text "abc" is not a number',
    }


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ({"type": "string", "minLength": 3}, "ab", 'the text "ab" is too short, it needs at least 3 characters'),
        ({"type": "string", "maxLength": 3}, "abcd", 'the text "abcd" is too long, at most 3 characters are allowed'),
        ({"type": "integer", "minimum": 3}, 2, "must be at least 3, not 2"),
        ({"type": "integer"}, 2.5, "must be a whole number, not 2.5"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3, not 3"),
        ({"const": 4}, 3, "must be 4, not 3"),
        ({"type": "array", "minItems": 1}, [], "must have at least 1 items"),
        ({"type": "array", "uniqueItems": True}, [1, True, "1", 1.0], "must not hold an item twice"),
        ({"type": "array", "contains": {"const": 1}}, [2], "does not hold the items that it must"),
        ({"not": {"const": 1}}, 1, "1 is what it must not be"),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, 3, "3 fits none of the forms it may have"),
        ({"oneOf": [{"type": "number"}, {"minimum": 1}]}, 3, "3 fits more than one of the forms, and it may fit one only"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "3 fits none of the forms it may have"),
        ({"if": {"const": 1}, "then": False}, 1, "1 does not fit the schema"),
        ({"type": "object", "additionalProperties": False, "properties": {"sku": {}}}, {"sk": 1}, 'sk: there is no such field, did you mean "sku"?'),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'b: is required where "a" is given'),
        ({"type": "object", "minProperties": 1}, {}, "must have at least 1 fields"),
        ({"type": "number"}, float("nan"), "holds a number or a sign that is none"),
        ({"type": "string"}, "\ud83d", "holds a number or a sign that is none"),
        ({"type": ["string", "boolean"]}, 3, "must be a text or yes or no (true or false), not 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_our_words(part: Mapping[str, Any], value: Any, sentence: str) -> None:
    schema = {"type": "object", "properties": {"x": part}, "required": ["x"]}
    assert wrong({"x": value}, schema) == {"x": sentence}


def test_a_rule_about_several_inputs_is_told_once_the_inputs_are_right() -> None:
    schema = {**SCHEMA, "dependentRequired": {"price": ["code"]}, "maxProperties": 3}
    assert wrong({"email": "a@b.co", "price": 1}, schema) == {"code": 'is required where "price" is given'}
    full = {"email": "a@b.co", "paid": True, "lines": []}
    assert wrong(full, schema) == {"inputs": "must have at most 3 fields"}
    assert wrong({**full, "paid": 5}, schema) == {"paid": "must be yes or no (true or false), not 5"}


def test_a_value_nested_without_an_end_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert wrong({"email": "a@b.co", "lines": deep}) == {"lines": "is nested too deep"}


def test_a_long_list_without_twins_is_judged_at_once() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    began = time.perf_counter()
    read_by(schema, {"x": [{"number": number} for number in range(20_000)]})
    assert time.perf_counter() - began < 5


def test_nothing_is_a_value_where_the_schema_takes_it() -> None:
    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"]}}, "required": ["x"]}
    assert read_by(schema, {"x": None}) == {"x": None}
    assert wrong({}, schema) == {"x": "is required and has no value"}


def test_a_schema_may_be_yaml_and_json_may_have_tabs_and_pairs() -> None:
    yaml = "type: object\nproperties:\n  mail: { type: string, format: email }\n"
    assert problems_of(yaml, "schemas/x.yaml") == []
    schema, problems = read_schema(
        '{\n\t"type": "object",\n\t"properties": {"x": {"const": "\\ud83d\\ude00"}}\n}', "x.json"
    )
    assert problems == ()
    assert schema is not None
    assert schema["properties"]["x"] == {"const": "😀"}


# --- what is not accepted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"x": {"formt": "email"}}, ['FL003 "formt" is not checked here']),
        ({"x": {"maxlength": 5}}, ['FL003 "maxlength" is not checked here']),
        ({"x": {"items": {"requird": []}}}, ['FL003 "requird" is not checked here']),
        ({"x": {"format": "hostname"}}, ['FL006 the format "hostname" is not checked here']),
        ({"x": {"pattern": "(?=x)"}}, ['FL006 the pattern "(?=x)" cannot be checked']),
        ({"x": {"pattern": r"(a)\1"}}, ['FL006 the pattern "(a)\\1" cannot be checked']),
        ({"x": {"pattern": "["}}, ['FL006 the pattern "[" cannot be checked']),
        ({"x": {"$ref": "https://example.test/x.json"}}, ['FL006 "https://example.test/x.json" does not lead to a schema in this file']),
        ({"x": {"$ref": "#/$defs/line"}}, ['FL006 "#/$defs/line" does not lead to a schema in this file']),
        ({"x": {"$ref": "#"}}, ['FL006 "#" leads back to itself']),
        ({"x": {"items": {"$ref": "#/properties/x"}}}, ['FL006 "#/properties/x" leads back to itself']),
        ({"x": {"$ref": "#/properties/y"}, "y": {"$ref": "#/properties/x"}}, ['FL006 "#/properties/y" leads back to itself', 'FL006 "#/properties/x" leads back to itself']),
        ({"x": {"type": "strng"}}, ['FL006 "type" must be one of array, boolean, integer, null, number, object, string, not the text "strng"']),
        ({"x": {"multipleOf": 0}}, ['FL006 "multipleOf" must be more than 0, not 0']),
        ({"x": {"minLength": -1}}, ['FL006 "minLength" must be at least 0, not -1']),
        ({"x": 5}, ['FL006 "x" must be a record or yes or no (true or false), not 5']),
        ({"x-y": {}}, ['FL006 "x-y" is not a name']),
        ({"x": {"type": "integer", "default": "a"}}, ['FL006 the default does not fit: must be a whole number, not the text "a"']),
        ({"x": {"properties": {"sku": {}}, "required": ["skuu"], "additionalProperties": False}}, ['FL006 "skuu" is required and is no property']),
    ],
)  # fmt: skip
def test_what_would_not_be_checked_is_refused(more: Mapping[str, Any], expected: list[str]) -> None:
    assert problems_of({"type": "object", "properties": more}) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"type": "array"}, "FL006 this is not the schema of inputs"),
        ({"properties": {}}, "FL006 this is not the schema of inputs"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, 'FL006 the schema is in another dialect, the text "http://json-schema.org/draft-07/schema#"'),
        ({"additionalProperties": True}, "FL006 further inputs cannot be named in a flow"),
        ({"required": ["emial"]}, 'FL006 "emial" is required and is no property'),
        ({"patternProperties": {"x": {}}}, 'FL003 "patternProperties" is not checked here'),
    ],
)  # fmt: skip
def test_the_schema_is_one_of_inputs(change: Mapping[str, Any], expected: str) -> None:
    assert problems_of({**SCHEMA, **change}) == [expected]


def test_a_schema_is_not_too_deep_and_not_too_large() -> None:
    deep: dict[str, Any] = {}
    for _ in range(35):
        deep = {"not": deep}
    assert problems_of({"type": "object", "properties": {"x": deep}}) == [
        "FL004 with every $ref filled in, the schema has more than 30 levels"
    ]
    laughs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(9)} | {"d9": {"type": "string"}}
    assert problems_of({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": laughs}) == [
        "FL004 with every $ref filled in, the schema has more than 2,000 parts"
    ]
    assert problems_of('{"a": ' * 20_000)[0].startswith("FL004 ")
    assert problems_of('{"type": "object", "x": "' + "y" * 1_000_001 + '"}')[0].startswith(
        "FL004 the file has 1,000,028"
    )


def test_problems_stand_at_their_place() -> None:
    text = '{\n  "type": "object",\n  "properties": {\n    "x": { "type": "string", "formt": "email" }\n  }\n}\n'
    flow, _, problems = load_flow(FLOW.replace("inputs.email", "inputs.x"), "small.yaml", lambda name: (text, None))
    assert [(one.file, one.line, one.column, one.length, one.hint) for one in problems] == [
        ("schemas/x.json", 4, 30, 7, 'did you mean "format"?')
    ]
    assert flow is not None
    assert flow.schema is None
    assert problems_of('{\n  "type": object\n}') == ["FL004 this is not JSON from here on"]
    found = read_schema('{\n  "type": object\n}', "x.json")[1][0]
    assert (found.line, found.column) == (2, 11)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("{ schema: schemas/y.json }", "there is no file schemas/y.json"),
        ("{ schema: ../y.json }", '"../y.json" leads out of the project'),
        ("{ schema: /etc/y.json }", '"/etc/y.json" leads out of the project'),
        ("{ schema: { type: object } }", "a JSON Schema stands in a file of its own"),
        ("{ schema: x.json, email: email }", "beside a schema there are no other inputs"),
    ],
)
def test_a_file_that_cannot_be_the_schema_is_told_in_the_flow(written: str, what: str) -> None:
    flow, problems = check(FLOW.replace("{ schema: schemas/x.json }", written), "small.yaml")
    assert [(one.code, one.line, one.what) for one in problems] == [("FL006", 4, what)]
    assert flow is not None


# --- in a project --------------------------------------------------------------------------------------------------


def project(folder: Path, schema: str = written(SCHEMA), flow: str = FLOW) -> Project:
    for name, text in (("flows/small.yaml", flow), ("schemas/x.json", schema)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Project.open(folder)


def test_names_are_checked_against_the_properties(tmp_path: Path) -> None:
    assert project(tmp_path).check()[0].problems == ()
    found = project(tmp_path, flow=FLOW.replace("inputs.email", "inputs.emial")).check()[0].problems
    assert [(one.code, one.what, one.hint) for one in found] == [
        ("FL101", 'there is no input "emial"', 'did you mean "email"?')
    ]
    against = FLOW + "run_key: ${{ 'x' if inputs.price == 'a' else 'y' }}\n"
    found = project(tmp_path, flow=against).check()[0].problems
    assert [one.code for one in found if one.level == "error"] == ["FL104"]


def test_editing_the_file_never_changes_a_run_under_way(tmp_path: Path) -> None:
    begun = project(tmp_path).bundle("small")
    assert begun.texts["schema:schemas/x.json"] == written(SCHEMA)
    edited = project(tmp_path, written({**SCHEMA, "required": ["email", "paid"]})).bundle("small")
    assert edited.digest != begun.digest
    (tmp_path / "schemas/x.json").unlink()
    again = restore(begun.digest, json.loads(json.dumps(dict(begun.texts))))
    assert again.flow == begun.flow
    assert read_inputs(again.flow.inputs, {"email": "a@b.co"}, schema=again.flow.schema)["paid"] is None
    with pytest.raises(InputsInvalid, match="paid: is required and has no value"):
        read_inputs(edited.flow.inputs, {"email": "a@b.co"}, schema=edited.flow.schema)


def test_a_file_that_cannot_be_used_keeps_the_flow_from_running(tmp_path: Path) -> None:
    with pytest.raises(InvalidFlow, match=r"schemas/x.json:1:2 this is not JSON"):
        project(tmp_path, "{nonsense").flow("small")
    (tmp_path / "schemas/x.json").write_bytes(b'{"\xff": 1}')
    with pytest.raises(InvalidFlow, match=r"schemas/x.json:1:3 the file is not UTF-8 from here on"):
        Project.open(tmp_path).flow("small")
    (tmp_path / "schemas/x.json").unlink()
    outside = tmp_path.parent / f"{tmp_path.name}.json"
    outside.write_text(written(SCHEMA), encoding="utf-8")
    (tmp_path / "schemas/x.json").symlink_to(outside)
    with pytest.raises(InvalidFlow, match=r"there is no file schemas/x.json"):
        Project.open(tmp_path).flow("small")


def test_every_format_makes_a_kind_that_there_is() -> None:
    for name, kind in FORMATS.items():
        schema, problems = read_schema(
            written({"type": "object", "properties": {"x": {"type": "string", "format": name}}}), "x.json"
        )
        assert problems == ()
        assert schema is not None
        assert fields_of(schema)["x"].kind == kind
