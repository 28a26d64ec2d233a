"""The comparison of a connector file with a vendor's description sees what the description does not have."""

from __future__ import annotations

from typing import Any

from tests.connectors.against import asked_of, compare, from_discovery
from tests.connectors.odata import from_metadata

DESCRIPTION = {
    "paths": {
        "/v1/things/{id}": {
            "put": {
                "parameters": [
                    {"in": "query", "name": "dry", "required": True},
                    {"in": "header", "name": "X-Once"},
                ],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}},
            }
        }
    },
    "components": {
        "schemas": {
            "Thing": {"allOf": [{"properties": {"id": {}, "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}}, "required": ["id"]}]},
            "Part": {"type": "object", "properties": {"label": {"type": "string"}}},
        }
    },
}  # fmt: skip
FILE: dict[str, Any] = {
    "connector": "things",
    "origin": "https://x.test/v1",
    "actions": {
        "change": {
            "request": {"put": "/things/${{ input.id }}", "query": {"dry": True}, "json": {"id": 1, "parts": [{"label": "a"}]}},
            "output": {"id": "text", "label": "text"},
            "result": {"label": "${{ response.json.parts[0].label }}"},
        }
    },
}  # fmt: skip


def test_the_comparison_sees_what_the_description_does_not_have() -> None:
    done = compare(FILE, [DESCRIPTION])
    assert (done.wrong, done.seen) == ([], {"requests": 1, "sent": 4, "read": 2, "kinds": 1})
    spoiled = {
        **FILE,
        "actions": {
            "change": {
                "request": {"put": "/things/1", "query": {"wet": True}, "json": {"parts": [{"lable": "a"}]}},
                "output": {"id": "text", "label": "text", "size": "text"},
                "result": {"label": "${{ response.json.parts[0].lable }}"},
            },
            "again": {
                "request": {"put": "/things/1", "query": {"dry": True}, "json": {"id": 1}},
                "key": {"header": "X-Onse"},
            },
            "lose": {"request": {"delete": "/things/1"}},
        },
    }
    assert compare(spoiled, [DESCRIPTION]).wrong == [
        "change: no query field wet",
        "change: lacks the query field dry",
        "change: lacks the field id",
        "change.parts: no field lable",
        "change: the answer has no parts[0].lable",
        "change: the answer has no size",
        "again: no header X-Onse",
        "lose: there is no DELETE /things/1",
    ]


METADATA = """<?xml version="1.0"?>
<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"><edmx:DataServices>
<Schema Namespace="microsoft.graph" Alias="graph" xmlns="http://docs.oasis-open.org/odata/ns/edm">
<EntityType Name="entity"><Property Name="id" Type="Edm.String"/></EntityType>
<EntityType Name="note" BaseType="graph.entity">
  <Property Name="text" Type="Edm.String"/><NavigationProperty Name="lines" Type="Collection(graph.line)"/>
</EntityType>
<EntityType Name="line" BaseType="graph.entity"><Property Name="label" Type="Edm.String"/></EntityType>
<Action Name="send" IsBound="true"><Parameter Name="bind" Type="graph.note"/><Parameter Name="To" Type="Edm.String"/></Action>
<EntityContainer Name="GraphService"><EntitySet Name="notes" EntityType="microsoft.graph.note"/></EntityContainer>
</Schema></edmx:DataServices></edmx:Edmx>"""
NOTES: dict[str, Any] = {
    "connector": "notes",
    "actions": {
        "list": {"request": {"get": "/notes", "query": {"$filter": "x"}}, "output": {"notes": "list"}, "result": {"notes": "${{ response.json.value[0].lines }}"}},
        "add": {"request": {"post": "/notes/${{ input.id }}/lines", "json": {"label": "a"}}, "output": {"id": "text", "label": "text"}},
        "send": {"request": {"post": "/notes/${{ input.id }}/send", "json": {"to": "a"}}},
    },
}  # fmt: skip


def test_a_metadata_document_is_compared_too() -> None:
    done = compare(NOTES, [from_metadata(METADATA, asked_of(NOTES))])
    assert (done.wrong, done.seen) == ([], {"requests": 3, "sent": 3, "read": 3, "kinds": 3})
    spoiled: dict[str, Any] = {
        "actions": {
            "list": {"request": {"get": "/note"}},
            "add": {
                "request": {"post": "/notes/${{ input.id }}/lines", "json": {"lable": "a"}},
                "output": {"text": "text"},
            },
            "send": {"request": {"post": "/notes/${{ input.id }}/send", "json": {"too": "a"}}},
            "lose": {"request": {"post": "/notes/${{ input.id }}/loose"}},
        },
    }
    assert compare(spoiled, [from_metadata(METADATA, asked_of(spoiled))]).wrong == [
        "list: there is no GET /note",
        "add: no field lable",
        "add: the answer has no text",
        "send: no field too",
        "lose: there is no POST /notes/*/loose",
    ]


def test_a_discovery_document_has_its_uploads() -> None:
    method = {
        "path": "notes/{id}",
        "httpMethod": "POST",
        "mediaUpload": {"protocols": {"simple": {"path": "/upload/notes/{id}"}}},
    }
    document = from_discovery({"servicePath": "", "schemas": {}, "resources": {"notes": {"methods": {"send": method}}}})
    asked = {"actions": {"send": {"request": {"post": "/upload/notes/1", "query": {"uploadType": "media"}}}}}
    assert compare(asked, [document]).wrong == []


def test_an_answer_of_another_kind_is_seen() -> None:
    def answered(**fields: Any) -> dict[str, Any]:
        schema = {"properties": fields}
        return {"paths": {"/x": {"get": {"responses": {"200": {"content": {"json": {"schema": schema}}}}}}}}

    file = {
        "actions": {"read": {"request": {"get": "/x"}, "output": {"a": "integer", "b": "list or empty", "c": "text"}}}
    }
    fine = answered(
        a={"type": "integer"}, b={"type": ["array", "null"]}, c={"anyOf": [{"type": "string"}, {"type": "integer"}]}
    )
    assert compare(file, [fine]).wrong == []
    other = answered(a={"type": "string"}, b={"type": "object"}, c={"type": "string", "nullable": True})
    assert compare(file, [other]).wrong == [
        "read: a is integer, and there string",
        "read: b is list or empty, and there object",
        "read: c may be nothing there",
    ]
