"""The JSON Schemas that editors use, made out of the models: the schema is the manual.

Every field has a title, a description and an example. `project_schema` narrows a flow's schema to one project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.contract import Json, missing
from runner.language.clauses import Model
from runner.language.connections import EVERYWHERE, Found, Kinds, installed
from runner.language.facts import ProjectFacts
from runner.language.fields import BESIDE, KINDS, WORDS
from runner.language.model import FlowModel
from runner.language.people import PeopleModel, SecretModel
from runner.language.project_schema import narrowed, state_of
from runner.language.rehearsed import FlowTestModel
from runner.language.setting_words import described
from runner.language.settings import AmendsModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FLOW = "flow.schema.json"


def schemas(kinds: Kinds | None = None, facts: ProjectFacts | None = None) -> dict[str, dict[str, Json]]:
    """File name -> schema. `connector.schema.json` is there if connectors in YAML can be read here.

    With the facts of a project the schema of a flow knows its connections, actions, people, flows and templates.
    """
    kinds = kinds if kinds is not None else installed()
    found = {
        FLOW: _flow() if facts is None else narrowed(_flow(), facts),
        "flow_test.schema.json": _of_model(FlowTestModel, "The cases of an Amends flow"),
        "people.schema.json": _of_model(PeopleModel, "people.yaml of an Amends project"),
        "connections.schema.json": _of_connections(kinds),
        "amends.schema.json": _of_model(AmendsModel, "amends.yaml of an Amends project"),
    }
    made = getattr(kinds.declarative, "schema", None)
    if made is not None:
        found["connector.schema.json"] = _tidy(made())
    return found


def write_schemas(
    folder: str | Path, kinds: Kinds | None = None, facts: ProjectFacts | None = None
) -> tuple[Path, ...]:
    """Writes every schema into the folder, which is made if need be, and returns the files."""
    below = Path(folder)
    below.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas(kinds, facts).items():
        path = below / name
        path.write_text(as_text(schema), encoding="utf-8")
        written.append(path)
    return tuple(written)


def is_stale(folder: Path, facts: ProjectFacts) -> bool:
    """Whether the folder's schema of flows was made out of another state of the project."""
    try:
        made = json.loads((folder / FLOW).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return "$comment" in made and made["$comment"] != state_of(facts)


def refresh(folder: Path, facts: ProjectFacts) -> None:
    """Writes the project's own schema of flows anew, where one is there and old. Raises OSError."""
    if is_stale(folder, facts):
        (folder / FLOW).write_text(as_text(narrowed(_flow(), facts)), encoding="utf-8")


def _flow() -> dict[str, Json]:
    return _with_types(_of_model(FlowModel, "An Amends flow"))


def as_text(schema: dict[str, Json]) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_model(model: type[Model], title: str) -> dict[str, Json]:
    made: dict[str, Json] = _tidy(model.model_json_schema(by_alias=True))
    made.pop("title", None)
    return {"$schema": DIALECT, "title": title, **made}


def _tidy(whole: dict[str, Json]) -> dict[str, Json]:
    """Every property with a title in plain words and an example, out of what it refers to where it has none of its
    own; and without `default: null`, which stands for: may be left out."""
    models = whole.get("$defs", {})

    def tidy(part: Any) -> Any:
        if isinstance(part, list):
            return [tidy(item) for item in part]
        if not isinstance(part, dict):
            return part
        found = {key: tidy(value) for key, value in part.items() if not (key == "default" and value is None)}
        for name, value in part.get("properties", {}).items():
            if isinstance(value, dict):
                words = {"title": name.replace("_", " ").capitalize()}
                words |= {} if "examples" in value else {"examples": [_example(value, models)]}
                found["properties"][name] = {**found["properties"][name], **words}
        return found

    tidied: dict[str, Json] = tidy(whole)
    return tidied


def _example(part: Mapping[str, Any], models: Mapping[str, Any]) -> Json:
    """An example of what a property may be, made out of the examples of its fields."""
    reference = next(_references(part), "")
    model = models.get(reference.removeprefix("#/$defs/"), {})
    fields = model.get("properties", {})
    needed = [name for name in fields if name in model.get("required", ())] or list(fields)[:1]
    made = {name: fields[name].get("examples", [None])[0] for name in needed}
    made = {name: _example(fields[name], models) if one is None else one for name, one in made.items()}
    if part.get("type") == "array":
        return [made]
    return {"name": made} if part.get("type") == "object" else made


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


# --- types of inputs -----------------------------------------------------------------------------------------------

_BESIDE: Mapping[str, tuple[str, Json]] = {
    "label": ("What a form calls it.", "Day"),
    "help": ("What a form says below it.", "As in the passport."),
    "empty": ("It may be left out.", True),
    "default": ("What it is where nothing is given.", "basic"),
    "personal": ("Personal data: hidden in lists and logs, and erased on request.", True),
}
_BEHIND: Mapping[str, Json] = {
    "choice": ["basic", "pro"], "money": "JPY", "text": {"max": 200}, "number": {"min": 0}, "integer": {"min": 1},
    "list": {"sku": "text", "qty": "integer"}, "record": {"street": "text", "city": "text"},
    "file": {"kinds": ["pdf", "jpg"], "max": "10 MB"},
}  # fmt: skip


def _with_types(flow: dict[str, Json]) -> dict[str, Json]:
    """A flow's schema that knows the words for types."""
    words = [kind for kind in KINDS if kind not in ("any", "choice")]
    short = {
        "title": "type",
        "description": "A type in one word; `or empty` makes it optional.",
        "enum": [*words, *(f"{word} or empty" for word in words)],
        "enumDescriptions": [
            *(f"{WORDS[word].capitalize()}." for word in words),
            *(f"{WORDS[word].capitalize()}, or nothing." for word in words),
        ],
    }
    behind = {
        kind: {
            "title": kind.capitalize(),
            "description": f"{WORDS[kind].capitalize()}.",
            "examples": [_BEHIND.get(kind)],
        }
        for kind in KINDS
        if kind != "any"
    }
    beside = {
        key: {"title": key.capitalize(), "description": about, "examples": [example]}
        for key, (about, example) in _BESIDE.items()
    }
    long = {
        "title": "type with more to say",
        "type": "object",
        "properties": {**behind, **{key: beside[key] for key in BESIDE}},
        "additionalProperties": False,
    }
    written = dict(flow["properties"]["inputs"])
    [(names, _)] = written.pop("patternProperties").items()
    inputs = {
        **written,
        "propertyNames": {"pattern": names},
        "properties": {
            "schema": {
                "title": "Schema",
                "description": "The file with the JSON Schema of the inputs.",
                "examples": ["schemas/signup.json"],
                "anyOf": [{"type": "string", "pattern": r"\.(json|ya?ml)$"}, {"$ref": "#/$defs/InputType"}],
            }
        },
        "additionalProperties": {"$ref": "#/$defs/InputType"},
    }
    models = {**flow["$defs"], "InputType": {"anyOf": [short, long]}}
    return {**flow, "$defs": models, "properties": {**flow["properties"], "inputs": inputs}}


# --- connections.yaml ----------------------------------------------------------------------------------------------


def _of_connections(kinds: Kinds) -> dict[str, Json]:
    """A name, and a map with its connector; each connector's own settings are listed under its name."""
    found = [one for name in kinds.names() if (one := kinds.find(name)) is not None]
    forms = [_of_connector(one) for one in found]
    own = {**described("connector", "text"), "type": "string", "not": {"enum": [one.name for one in found]}}
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
    properties = {key: described(key, kind) for key, kind in settings.items()}
    about = {"title": "Connector", "description": found.kind.title, "examples": [found.name], "const": found.name}
    return {
        "title": found.name,
        "description": found.kind.title,
        "properties": {**properties, "connector": about},
        "required": ["connector", *missing(found.kind.settings(), ())],
        "additionalProperties": False,
    }
