"""From an OpenAPI document to a connector file: what is said, what is left open, what is refused; and it can be used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.declarative import DECLARATIVE, kind_from_text
from runner.errors import NotFound, NotPossible
from runner.language.connections import Imported
from runner.language.source import read
from tests.connectors.httpserver import answer, http_server
from tests.connectors.tools import Lent

Doc = dict[str, Any]

CONTACT = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "string", "readOnly": True},
        "name": {"type": "string"},
        "plan": {"type": "string", "enum": ["basic", "pro", None], "nullable": True},
        "born": {"type": ["string", "null"], "format": "date"},
        "next-of-kin": {"$ref": "#/components/schemas/Contact"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "found": {"type": "boolean"},
    },
}
PLACED = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
ERROR = {"content": {"application/json": {"schema": {"properties": {"error": {"$ref": "#/components/schemas/Error"}}}}}}


def content(schema: Any, kind: str = "application/json") -> Doc:
    return {"content": {kind: {"schema": schema}}}


def contact(**more: Any) -> Doc:
    return {"description": "Here it is", **content({"$ref": "#/components/schemas/Contact"}), **more}


def document(paths: Doc, **more: Any) -> Doc:
    schemas = {"Contact": CONTACT, "Error": {"type": "object", "properties": {"message": {"type": "string"}}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Acme CRM API", "version": "2"},
        "servers": [{"url": "https://{region}.acme.test/v2", "variables": {"region": {"default": "eu"}}}],
        "security": [{"key": []}],
        "components": {
            "schemas": schemas, "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
        },
        "paths": paths, **more,
    }  # fmt: skip


def imported(paths: Doc, *, tags: tuple[str, ...] = (), **more: Any) -> Imported:
    made: Imported = DECLARATIVE.imported(json.dumps(document(paths, **more)), "crm.json", tags=tags)
    kind, problems = kind_from_text(made.text, f"connectors/{made.name}.yaml")
    assert kind is not None
    assert not problems
    return made


def action(made: Imported, name: str) -> Doc:
    source, _ = read(made.text, "x.yaml")
    assert source is not None
    found: Doc = source.data["actions"][name]
    return found


def decisions(made: Imported) -> list[str]:
    return [line.strip().removeprefix("# decide: ") for line in made.text.split("\n") if "# decide: " in line]


POST = {
    "operationId": "createContact",
    "summary": "Makes a contact. More about it.",
    "parameters": [
        {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}},
        {"name": "X-Api-Key", "in": "header", "schema": {"type": "string"}},
    ],
    "requestBody": {"required": True, **content({"allOf": [{"$ref": "#/components/schemas/Contact"}, {
        "required": ["kind"], "properties": {"kind": {"type": "string", "enum": ["person"]}}}]})},
    "responses": {"201": contact(), "409": {"description": "There already"}, "422": ERROR},
}  # fmt: skip
DELETE = {"operationId": "deleteContact", "responses": {"204": {"description": "Gone"}}}
CONTACTS = {"/contacts": {"post": POST}, "/contacts/{id}": {"parameters": [PLACED], "delete": DELETE}}


def test_a_write_is_said_as_it_stands_in_the_document() -> None:
    made = imported(CONTACTS)
    assert (made.name, made.operations, made.reads, made.writes) == ("acme_crm", 2, 0, 2)
    assert 'origin: "https://eu.acme.test/v2"' in made.text
    assert action(made, "create_contact") == {
        "title": "Makes a contact",
        "writes": "once",
        "input": {
            "name": "text", "plan": {"choice": ["basic", "pro"], "empty": True}, "born": "date or empty",
            "next_of_kin": "record or empty", "tags": {"list": "text", "empty": True}, "found": "yes_no or empty",
        },
        "request": {
            "post": "/contacts",
            "json": {
                "name": "${{ input.name }}", "plan": "${{ input.plan }}", "born": "${{ input.born }}",
                "next-of-kin": "${{ input.next_of_kin }}", "tags": "${{ input.tags }}",
                "found": "${{ input.found }}", "kind": "person",
            },
        },
        "success": "${{ response.status == 201 }}",
        "output": {
            "id": "text", "name": "text", "plan": "text or empty", "born": "text or empty",
            "next_of_kin": "record or empty", "tags": {"list": "text", "empty": True}, "its_found": "yes_no or empty",
        },
        "result": {
            "next_of_kin": "${{ response.json['next-of-kin'] }}", "its_found": "${{ response.json['found'] }}",
        },
        "external_id": "${{ response.json.id }}",
        "failures": [
            {"when": "${{ response.status == 422 }}", "is": "invalid", "say": "${{ response.json.error.message }}"}
        ],
        "cannot_undo": "Nobody has said yet what takes this back.",
    }  # fmt: skip


def test_what_a_person_must_decide_stands_at_its_place() -> None:
    assert decisions(imported(CONTACTS)) == [
        "effect: each write is `once` and cannot be undone until somebody says better",
        "conflict: 409 counts as unknown; if it says that nothing was done: failures, is: conflict",
        (
            'key: the document names "Idempotency-Key"; does the service dedupe by it? '
            "then writes: keyed and key: { header: Idempotency-Key, life: … }"
        ),
        (
            "undo: delete_contact may take it back: undo: { action: delete_contact, "
            'with: { id: "${{ output.id }}" } }, and no cannot_undo'
        ),
    ]


def listing(parameters: list[str], schema: Any, **answer: Any) -> Doc:
    told = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in parameters]
    return {"/contacts": {"get": {"parameters": told, "responses": {"200": {**content(schema), **answer}}}}}


def rows(**more: Any) -> Doc:
    listed = {"type": "array", "items": {"$ref": "#/components/schemas/Contact"}}
    return {"type": "object", "properties": {"data": listed, **more}}


TEXT, YES_NO = {"type": "string"}, {"type": "boolean"}


@pytest.mark.parametrize(
    ("paths", "pages"),
    [
        (
            listing(["limit", "starting_after"], rows(has_more=YES_NO)),
            {
                "of": "data", "cursor": "${{ response.json.data[-1].id }}", "last": "${{ not response.json.has_more }}",
                "query": "starting_after",
            },
        ),
        (
            listing(["after"], rows(paging={"properties": {"next": {"properties": {"after": TEXT}}}})),
            {"of": "data", "cursor": "${{ response.json.paging.next.after }}", "query": "after"},
        ),
        (listing(["page"], {"type": "array"}), {"of": "items", "page": 1, "query": "page"}),
        (listing(["startAt"], rows()), {"of": "data", "offset": 0, "query": "startAt"}),
        (
            listing(["Page"], rows(next_page_uri=TEXT)),
            {"of": "data", "link": "${{ response.json.next_page_uri }}"},
        ),
        (listing(["page"], {"type": "array"}, headers={"Link": {}}), {"of": "items", "link": "header"}),
    ],
)  # fmt: skip
def test_paging_is_guessed(paths: Doc, pages: Doc) -> None:
    made = imported(paths)
    found = action(made, "get_contacts")
    assert found["pages"] == pages
    assert set(found.get("input", {})) <= {"limit"}
    assert any(one.startswith("pages: ") for one in decisions(made))


def test_a_leader_without_a_way_stays_an_input() -> None:
    found = action(imported(listing(["cursor"], rows())), "get_contacts")
    assert "pages" not in found
    assert found["input"] == {"cursor": "text or empty"}


def test_a_form_takes_what_a_form_can_carry() -> None:
    schema = {
        "required": ["amount", "idempotency_key"],
        "properties": {
            "amount": {"type": "integer"}, "idempotency_key": TEXT, "expand": {"type": "array", "items": TEXT},
            "metadata": {"anyOf": [{"type": "object"}, {"enum": [""], "type": "string"}]},
            "note": {"anyOf": [TEXT, {"enum": [""], "type": "string"}]},
        },
    }  # fmt: skip
    body = {"required": True, **content(schema, "application/x-www-form-urlencoded")}
    made = imported({"/charges": {"post": {"requestBody": body, "responses": {"200": contact()}}}})
    found = action(made, "post_charges")
    assert found["input"] == {
        "amount": "integer", "expand": {"list": "text", "empty": True}, "note": "text or empty",
    }  # fmt: skip
    assert found["request"]["form"] == {
        "amount": "${{ input.amount }}", "idempotency_key": "${{ key }}", "expand[]": "${{ input.expand }}",
        "note": "${{ input.note }}",
    }  # fmt: skip
    assert 'fields: "metadata" is left out: a map inside a form' in decisions(made)


def test_files_go_into_parts() -> None:
    schema = {"required": ["file"], "properties": {"file": {"type": "string", "format": "binary"}, "note": TEXT}}
    body = {"required": True, **content(schema, "multipart/form-data")}
    found = action(imported({"/files": {"post": {"requestBody": body, "responses": {"200": contact()}}}}), "post_files")
    assert found["input"] == {"file": "file", "note": "text or empty"}
    assert found["request"]["multipart"] == {"file": "${{ input.file }}", "note": "${{ input.note }}"}


def test_oauth2_is_said_where_its_addresses_are() -> None:
    flow = {"tokenUrl": "https://login.acme.test/token", "scopes": {"read": "Reads", "write": "Writes"}}
    schemes = {"acme": {"type": "oauth2", "flows": {"clientCredentials": flow}}}
    made = imported(CONTACTS, security=[], components={**document({})["components"], "securitySchemes": schemes})
    source, _ = read(made.text, "x.yaml")
    assert source is not None
    assert source.data["auth"] == {
        "oauth2": {
            "grant": "client_credentials", "token_url": "https://login.acme.test/token", "client": "client_id",
            "secret": "client_secret",
        }
    }  # fmt: skip
    assert "auth: which scope is needed? the document names read, write" in decisions(made)


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"requestBody": content({}, "text/csv")}, "its body cannot be said: it is text/csv"),
        (
            {"parameters": [{"name": "sid", "in": "cookie", "required": True, "schema": TEXT}]},
            '"sid" cannot be said: it goes into a cookie',
        ),
        (
            {"parameters": [{"$ref": "https://elsewhere.test/x.json#/a"}]},
            "it refers to another document (https://elsewhere.test/x.json#/a)",
        ),
        (
            {"requestBody": {"$ref": "#/components/nothing"}},
            "it refers to #/components/nothing, which is not there",
        ),
        ({"servers": [{"url": "https://other.test"}]}, "it is on a server of its own"),
        ({"responses": [1]}, "it is not written as OpenAPI has it"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_listed(operation: Doc, why: str) -> None:
    made = imported({"/a": {"post": {"responses": {"200": contact()}, **operation}}, "/b": {"delete": DELETE}})
    assert made.left_out == (("POST /a", why),)
    assert made.writes == 1


def test_a_schema_that_is_made_of_itself_is_no_endless_walk() -> None:
    loop = {"allOf": [{"$ref": "#/components/schemas/Loop"}]}
    schema = {"properties": {"loop": {"$ref": "#/components/schemas/Loop"}}}
    made = imported(
        {"/a": {"post": {"requestBody": content(schema), "responses": {"200": contact()}}}},
        components={"schemas": {"Loop": loop, "Contact": CONTACT}},
    )
    assert any("it is made of itself" in one for one in decisions(made)) or made.left_out


def test_a_name_of_several_lines_stays_in_its_comment() -> None:
    odd = {"name": "m\n    success: no", "in": "query", "schema": {"type": "object"}}
    proofs = {"a": {"type": "http", "scheme": "bearer"}, "b\nrate: 1": {"type": "http", "scheme": "basic"}}
    made = imported(
        {"/a": {"get": {"operationId": "a", "parameters": [odd], "responses": {"200": contact()}}}},
        components={"schemas": {"Contact": CONTACT}, "securitySchemes": proofs},
    )
    assert "success" not in action(made, "a")
    assert [line for line in decisions(made) if "success" in line] == [
        'fields: "m success: no" is left out: it is a map'
    ]


def test_hostile_words_stay_words() -> None:
    odd = {
        "operationId": "true", "summary": "${{ key }} # no: {x}\u202e\n- a", "responses": {"200": contact()},
        "parameters": [{"name": "no: [x]", "in": "query", "schema": {"type": "string", "enum": ["a: b", "#c", "no"]}}],
    }  # fmt: skip
    made = imported({"/a": {"get": odd}, "/b": {"get": {**odd, "operationId": "True"}}})
    assert action(made, "true")["input"] == {"no_x": {"choice": ["a: b", "#c", "no"], "empty": True}}
    assert action(made, "true_2")["request"]["query"] == {"no: [x]": "${{ input.no_x }}"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "crm.json:1:2 is neither JSON nor YAML that can be read"),
        ("a: [\n", "crm.json:2:1 is neither JSON nor YAML that can be read"),
        ("[]", 'crm.json is no OpenAPI document: it has no line "openapi: 3…" at its top'),
        ('{"swagger": "2.0"}', "crm.json is of OpenAPI 2.0, and 3.0 and 3.1 are read; convert it first"),
        ("openapi: 3.1.0\nservers: {}\ninfo: no", '"info" of crm.json is not written as OpenAPI has it'),
        ("openapi: 3.1.0", 'crm.json has no "paths", so there is nothing to call'),
    ],
)
def test_a_document_that_is_none_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(NotPossible) as refused:
        DECLARATIVE.imported(text, "crm.json")
    assert str(refused.value) == said


def test_a_part_is_taken_by_tag() -> None:
    paths = {"/a": {"post": {**POST, "tags": ["contacts"]}}, "/b": {"delete": {**DELETE, "tags": ["other"]}}}
    assert imported(paths, tags=("contacts",)).operations == 1
    with pytest.raises(NotFound, match='no operation has the tag "contact"; did you mean "contacts"?'):
        imported(paths, tags=("contact",))


async def test_what_was_imported_can_be_used() -> None:
    made = imported(CONTACTS)
    kind, _ = kind_from_text(made.text, "connectors/acme_crm.yaml")
    assert kind is not None
    async with http_server() as server:
        server.on("/v2/contacts", answer(201, {"id": "c_1", "name": "Aya"}))
        settings = {"origin": f"{server.origin}/v2", "allow_private": True, "api_key": {"secret": "KEY"}}
        connection = kind.connect("crm", settings, Lent(KEY="sk_secret_1"))
        request = connection.prepare("create_contact", {"name": "Aya"}, key="k1", purpose="do")
        outcome = await connection.send("create_contact", request, key="k1", purpose="do", limit=5000)
        await connection.close()
        [got] = server.got
    assert (outcome.result, outcome.external_id) == ("applied", "c_1")
    assert got.json() == {"name": "Aya", "kind": "person"}
    assert got.headers["x-api-key"] == "sk_secret_1"
