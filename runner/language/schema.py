"""The JSON Schemas that editors use, made out of the models: the schema is the manual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.contract import Json
from runner.language.clauses import Model
from runner.language.connections import EVERYWHERE, Found, Kinds, installed
from runner.language.model import FlowModel
from runner.language.people import PeopleModel, SecretModel
from runner.language.settings import AmendsModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas(kinds: Kinds | None = None) -> dict[str, dict[str, Json]]:
    """File name -> schema. `connector.schema.json` is there if connectors in YAML can be read here."""
    kinds = kinds if kinds is not None else installed()
    found = {
        "flow.schema.json": _of_model(FlowModel, "An Amends flow"),
        "people.schema.json": _of_model(PeopleModel, "people.yaml of an Amends project"),
        "connections.schema.json": _of_connections(kinds),
        "amends.schema.json": _of_model(AmendsModel, "amends.yaml of an Amends project"),
    }
    made = getattr(kinds.declarative, "schema", None)
    if made is not None:
        found["connector.schema.json"] = made()
    return found


def write_schemas(folder: str | Path, kinds: Kinds | None = None) -> tuple[Path, ...]:
    """Writes every schema into the folder, which is made if need be, and returns the files."""
    below = Path(folder)
    below.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas(kinds).items():
        path = below / name
        path.write_text(as_text(schema), encoding="utf-8")
        written.append(path)
    return tuple(written)


def as_text(schema: dict[str, Json]) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_model(model: type[Model], title: str) -> dict[str, Json]:
    made = _tidy(model.model_json_schema(by_alias=True))
    made.pop("title", None)
    return {"$schema": DIALECT, "title": title, **made}


def _tidy(part: Any) -> Any:
    """Without `default: null`, which stands for: may be left out."""
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {key: _tidy(value) for key, value in part.items() if not (key == "default" and value is None)}


def _of_connections(kinds: Kinds) -> dict[str, Json]:
    """A name, and a map with its connector; each connector's own settings are listed under its name."""
    found = [one for name in kinds.names() if (one := kinds.find(name)) is not None]
    forms = [_of_connector(one) for one in found]
    own = {"type": "string", "not": {"enum": [one.name for one in found]}}
    forms.append({"title": "a connector of this project", "properties": {"connector": own}, "required": ["connector"]})
    return {
        "$schema": DIALECT,
        "title": "connections.yaml of an Amends project",
        "description": "What each connection's name stands for here.",
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": "object", "oneOf": forms},
        "$defs": {"secret": _tidy(SecretModel.model_json_schema())},
    }


def _of_connector(found: Found) -> dict[str, Json]:
    settings = {**EVERYWHERE, **found.kind.settings()}
    properties: dict[str, Json] = {key: {"description": _described(kind)} for key, kind in settings.items()}
    return {
        "title": found.name,
        "description": found.kind.title,
        "properties": {**properties, "connector": {"const": found.name}},
        "required": ["connector"],
        "additionalProperties": False,
    }


def _described(kind: Json) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind, ensure_ascii=False, sort_keys=True)
