"""Services that answer with language, replayed: what the vendors document they answer, and no model behind it.

Requests are looked at as the vendors document too: a missing key or version, an unknown field or a schema that they do not
take is told with their own error. An answer is never made up: what was not scripted is a 500.

In the test's own loop:      async with ReplayService() as service: …
For a test without a loop:   with running_replay() as service: …

`service.script("POST /v1/messages", messages('{"choice": "order"}'), rate_limited("anthropic"))`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.support.http_service import HttpService, running_loop
from tests.support.says import AS_USUAL, Say
from tests.support.world import Seen

KEY = "sk-replayed-0123456789"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
_CHAT_FIELDS = {"model", "messages", "max_completion_tokens", "max_tokens", "response_format", "tools"}
_MESSAGES_FIELDS = {"model", "messages", "max_tokens", "system", "output_config", "tools"}
_SCHEMA_WORDS = {
    "type",
    "enum",
    "description",
    "format",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
}


def completion(
    text: str | None, *, finish: str = "stop", refusal: str | None = None, usage: tuple[int, int] | None = (120, 30)
) -> Say:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal, "annotations": []}
    told: dict[str, Any] = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "replayed-2026-01-01",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
    }  # fmt: skip
    if usage is not None:
        before, after = usage
        told["usage"] = {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after}
    return Say(status=200, json=told, done=False)


def messages(text: str, *, stop: str = "end_turn", details: Any = None, usage: tuple[int, int] = (120, 30)) -> Say:
    """A message of Anthropic's."""
    told = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "replayed-2026-01-01",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop, "stop_sequence": None, "stop_details": details,
        "usage": {
            "input_tokens": usage[0], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": usage[1],
        },
    }  # fmt: skip
    return Say(status=200, json=told, done=False)


def said(kind: str, text: str, **more: Any) -> Say:
    """An answer in the words of either."""
    return completion(text, **more) if kind == "openai" else messages(text, **more)


def wanting(kind: str, *calls: tuple[str, Any], text: str = "", usage: tuple[int, int] = (120, 30)) -> Say:
    """An answer that asks for tools, (name, arguments) each; arguments that are a text go out as they stand."""
    if kind == "openai":
        say = completion(text or None, finish="tool_calls", usage=usage)
        say.json["choices"][0]["message"]["tool_calls"] = [
            {
                "id": f"call_abc{at}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for at, (name, given) in enumerate(calls)
        ]
        return say
    say = messages(text, stop="tool_use", usage=usage)
    say.json["content"] += [
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": given}
        for at, (name, given) in enumerate(calls)
    ]
    return say


def cut(kind: str, text: str) -> Say:
    """An answer that ran into its limit."""
    return completion(text, finish="length") if kind == "openai" else messages(text, stop="max_tokens")


def declined(kind: str) -> Say:
    """No answer: the service would not give one."""
    if kind == "openai":
        return completion(None, refusal="I cannot help with that.")
    return messages("", stop="refusal", details={"type": "refusal", "category": "cyber", "explanation": "Not this."})


def failing(kind: str, status: int, word: str, text: str, *, code: str = "", **headers: str) -> Say:
    """An error as either puts it. `code` is the narrower word."""
    error: dict[str, Any] = {"type": word, "message": text}
    if kind == "openai":
        told: dict[str, Any] = {"error": {**error, "param": None, "code": code or None}}
    else:
        told = {"type": "error", "error": error, "request_id": "req_1"}
        if code:
            error["details"] = {"error_code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Say(status=status, json=told, headers=named, done=False)


def rate_limited(kind: str, after: str = "1") -> Say:
    word = {"openai": "requests", "anthropic": "rate_limit_error"}[kind]
    code = "rate_limit_exceeded" if kind == "openai" else ""
    return failing(kind, 429, word, "Too many requests.", code=code, retry_after=after)


def overloaded(kind: str) -> Say:
    if kind == "openai":
        return failing(kind, 503, "server_error", "The engine is currently overloaded.")
    return failing(kind, 529, "overloaded_error", "Overloaded")


class ReplayService(HttpService):
    """The scripted service, with the two endpoints in front."""

    def say_to(self, seen: Seen) -> Say:
        kind = {CHAT: "openai", MESSAGES: "anthropic"}.get(seen.path, "")
        if not kind:
            return super().say_to(seen)
        fault = _fault(kind, seen)
        if fault is not None:
            return fault
        scripted = super().say_to(seen)
        return scripted if scripted is not AS_USUAL else failing(kind, 500, "api_error", "Nothing is scripted.")

    def asked(self) -> list[Any]:
        """The bodies of all requests."""
        return [seen.json for seen in self.requests]


def _fault(kind: str, seen: Seen) -> Say | None:
    """What the service would not take of a request."""
    given = seen.headers.get("authorization") if kind == "openai" else seen.headers.get("x-api-key")
    if given != (f"Bearer {KEY}" if kind == "openai" else KEY):
        return failing(
            kind, 401, "authentication_error", f"Incorrect API key provided: {given}", code="invalid_api_key"
        )
    body: dict[str, Any] = seen.json if isinstance(seen.json, dict) else {}
    wrong = [f"unknown field {name}" for name in set(body) - (_CHAT_FIELDS if kind == "openai" else _MESSAGES_FIELDS)]
    if kind == "openai":
        wrong += ["max_tokens and max_completion_tokens"] * ({"max_tokens", "max_completion_tokens"} <= set(body))
        shape = body.get("response_format", {}).get("json_schema", {}).get("schema")
    else:
        wrong += ["anthropic-version: header is required"] * ("anthropic-version" not in seen.headers)
        wrong += ["max_tokens: field required"] * ("max_tokens" not in body)
        shape = body.get("output_config", {}).get("format", {}).get("schema")
    turns = body.get("messages", [])
    wrong += (_chat_faults if kind == "openai" else _messages_faults)(turns)
    wrong += [] if shape is None else _schema_faults(shape)
    return failing(kind, 400, "invalid_request_error", "; ".join(wrong)) if wrong else None


def _chat_faults(turns: list[Any]) -> list[str]:
    """Every tool call must be answered, in turns of their own right behind it, before anything else is said."""
    wrong = ["the first turn is not system"] * ([turn["role"] for turn in turns[:1]] != ["system"])
    due: list[str] = []
    said = ""
    for turn in turns[1:]:
        if turn["role"] == "tool":
            wrong += ["a tool message must answer a preceding tool call"] * (turn["tool_call_id"] not in due)
            due = [id_ for id_ in due if id_ != turn["tool_call_id"]]
            continue
        wrong += [f"tool calls without an answer: {due}"] * bool(due)
        wrong += ["roles do not alternate"] * (turn["role"] == said)
        said, due = turn["role"], [call["id"] for call in turn.get("tool_calls", ())]
        said = "" if due else said
        wrong += ["content must be non-empty"] * (not due and not (turn["content"] or "").strip())
    return [*wrong, *([f"tool calls without an answer: {due}"] if due else [])]


def _messages_faults(turns: list[Any]) -> list[str]:
    """Turns alternate; each tool_use is answered by a tool_result in the very next one."""
    roles = [turn["role"] for turn in turns]
    wrong = ["roles do not alternate"] * (roles != (["user", "assistant"] * len(turns))[: len(turns)])
    due: list[str] = []
    for turn in turns:
        blocks = [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        wrong += [f"tool_use ids without tool_result: {due}, got {given}"] * (given != due)
        wrong += ["text content blocks must be non-empty"] * any(
            not block["text"].strip() for block in blocks if block["type"] == "text"
        )
        due = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return wrong


def _schema_faults(schema: Any) -> list[str]:
    """Both take closed objects with every field required, and a part of JSON Schema."""
    wrong = [f"schema: {word} is not supported" for word in schema if word not in _SCHEMA_WORDS]
    wrong += ["schema must have a 'type' key"] * ("type" not in schema and "anyOf" not in schema)
    if schema.get("type") == "object":
        is_closed = schema.get("additionalProperties") is False
        wrong += ["schema: additionalProperties must be false"] * (not is_closed)
        wrong += ["schema: required must name every property"] * (
            sorted(schema.get("required", ())) != sorted(schema.get("properties", ()))
        )
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return [*wrong, *(fault for part in inner for fault in _schema_faults(part))]


@contextlib.contextmanager
def running_replay() -> Iterator[ReplayService]:
    """The service in a thread with a loop of its own."""
    service = ReplayService()
    with running_loop() as loop:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(10)
        try:
            yield service
        finally:
            asyncio.run_coroutine_threadsafe(service.stop(), loop).result(10)
