"""YAML that somebody else wrote and we only read: an OpenAPI document. Its anchors and tags are accepted."""

from __future__ import annotations

import json

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from runner.contract import Json
from runner.language.places import plain_value


def read_foreign(text: str) -> Json:
    """YAML that somebody else wrote, as plain data with texts as keys; aliases are followed. Raises JSONDecodeError,
    whose place is that of the mistake."""
    anchors: dict[str, Json] = {}
    open_ones: list[tuple[Json, list[Json]]] = []
    found: Json = None
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
                open_ones.append(({} if isinstance(event, MappingStartEvent) else [], []))
                if event.anchor is not None:
                    anchors[event.anchor] = open_ones[-1][0]
                continue
            if isinstance(event, (MappingEndEvent, SequenceEndEvent)):
                found, parts = open_ones.pop()
                if isinstance(found, dict):
                    found.update(zip(map(str, parts[::2]), parts[1::2], strict=True))
                else:
                    found.extend(parts)
            elif isinstance(event, ScalarEvent):
                found = event.value if event.style or event.tag else plain_value(event.value)
                if event.anchor is not None:
                    anchors[event.anchor] = found
            elif isinstance(event, AliasEvent):
                found = anchors.get(event.anchor)
            else:
                continue
            if open_ones:
                open_ones[-1][1].append(found)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise json.JSONDecodeError("no YAML", text, mark.index if mark is not None else 0) from None
    return found
