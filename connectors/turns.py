"""One turn of an agent as both kinds of service take it: its tools, and what was said and done so far.

The names by which calls are told apart are ours (`call_3`), never those that a service made up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from connectors.answers import Unreadable, json_of
from connectors.rendering import json_body
from connectors.wire import Answer
from runner.contract import Json
from runner.language.schemas import schema_of

MOST_TOLD = 20_000
"""Signs of one tool's answer that a model is told."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def openai_talk(rules: str, asked: str, turn: Mapping[str, Json]) -> dict[str, Json]:
    """The request's own part: turns, and tools."""
    turns: list[dict[str, Json]] = [{"role": "system", "content": rules}, {"role": "user", "content": asked}]
    for entry in turn["so_far"]:
        if "said" not in entry:
            turns.append({"role": "tool", "tool_call_id": entry["id"], "content": _told(entry)})
            continue
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": _named(call), "arguments": json_body(call["input"])},
            }
            for call in entry["calls"]
        ]
        turns.append({"role": "assistant", "content": entry["said"] or None, "tool_calls": calls})
    tools = [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, about, schema in _shown(turn["tools"])
    ]
    return {"messages": turns, "tools": tools}


def anthropic_talk(rules: str, asked: str, turn: Mapping[str, Json]) -> dict[str, Json]:
    """The request's own part: the answers to all calls of one turn stand in one turn of ours."""
    turns: list[dict[str, Json]] = [{"role": "user", "content": asked}]
    for entry in turn["so_far"]:
        if "said" in entry:
            text: list[Json] = [{"type": "text", "text": entry["said"]}] if entry["said"].strip() else []
            calls = [
                {"type": "tool_use", "id": call["id"], "name": _named(call), "input": call["input"]}
                for call in entry["calls"]
            ]
            turns.append({"role": "assistant", "content": [*text, *calls]})
            turns.append({"role": "user", "content": []})
        else:
            wrong = {"is_error": True} if "wrong" in entry else {}
            told = {"type": "tool_result", "tool_use_id": entry["id"], "content": _told(entry), **wrong}
            turns[-1]["content"].append(told)
    tools = [
        {"name": name, "description": about, "input_schema": schema} for name, about, schema in _shown(turn["tools"])
    ]
    return {"system": rules, "messages": turns, "tools": tools}


def _shown(tools: Sequence[Mapping[str, Json]]) -> list[tuple[str, str, Json]]:
    """(name, what it is for, the schema of what it is given) of each tool."""
    schemas = (schema_of(tool["fields"]) for tool in tools)
    return [
        (tool["name"], tool["about"], {key: value for key, value in schema.items() if key != "$schema"})
        for tool, schema in zip(tools, schemas, strict=True)
    ]


def _named(call: Mapping[str, Json]) -> str:
    return call["tool"] if _NAME.fullmatch(call["tool"]) else "unknown"


def _told(entry: Mapping[str, Json]) -> str:
    if "wrong" in entry:
        return f"Not done: {entry['wrong']}"
    text = json_body(entry["answer"])
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}… (cut, it had {len(text):,} signs)"


# --- the tools that an answer asks for -----------------------------------------------------------------------------


def openai_calls(message: Mapping[str, Json]) -> tuple[Mapping[str, Json], ...]:
    """Each call with the tool's name, its input, and what is wrong with that."""
    told = message.get("tool_calls")
    found = [call.get("function") for call in told if isinstance(call, Mapping)] if isinstance(told, list) else []
    return tuple(_call(one.get("name"), *_read(one.get("arguments"))) for one in found if isinstance(one, Mapping))


def anthropic_calls(blocks: Sequence[Json]) -> tuple[Mapping[str, Json], ...]:
    """As `openai_calls`."""
    found = (block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use")
    return tuple(_call(one.get("name"), one.get("input"), "") for one in found)


def _read(arguments: Json) -> tuple[Json, str]:
    if not isinstance(arguments, str):
        return arguments, ""
    try:
        return json_of(Answer(status=200, headers={}, body=arguments.encode())) or {}, ""
    except (Unreadable, UnicodeEncodeError):
        return {}, "its arguments are not JSON"


def _call(name: Json, given: Json, wrong: str) -> Mapping[str, Json]:
    if not wrong and not isinstance(given, Mapping):
        wrong = "its arguments are not a JSON object"
    return {"tool": str(name)[:200], "input": given if isinstance(given, Mapping) else {}, "wrong": wrong}
