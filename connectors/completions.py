"""How services that answer with language are asked, and what they say: a dialect each.

    openai      chat completions, of OpenAI and of the many servers that speak like it
                (platform.openai.com/docs: api-reference/chat, guides/structured-outputs, guides/error-codes)
    anthropic   messages (docs.anthropic.com: api/messages, api/errors, api/rate-limits, build-with: structured
                outputs, handling stop reasons)

Tools are offered to agents alone (`turns`), and no sampling settings are sent: newer models refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connectors.answers import Seen, by_status, say_status
from connectors.turns import anthropic_calls, anthropic_talk, openai_calls, openai_talk
from runner.contract import Json, Outcome
from runner.language.fields import FieldType
from runner.language.schemas import schema_of

SPENT = frozenset(
    {
        "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
        "billing_error", "enforced_spend_limit_reached",
    }
)  # fmt: skip
"""What the services call an account that has nothing left to spend: waiting does not help."""

NO_TOOLS = "it asked for a tool, and there are none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One answer. `cut`: it ends where it was not finished; `declined`: why the service would not answer. `calls` are
    the tools it asks for. `before` and `after` are the tokens of the request and of the answer."""

    id: str
    model: str
    text: str
    before: int | None
    after: int | None
    cut: bool = False
    declined: str = ""
    calls: tuple[Mapping[str, Json], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One way to ask. `body` makes a request out of (rules, what is asked, the answer's schema or None), `talk` one
    out of (rules, what is asked, an agent's turn); its turns stand in `messages`. `read` gives None for what is no
    answer."""

    origin: str
    path: str
    auth: Callable[[Json], Mapping[str, Json]]
    limit_field: str
    body: Callable[[str, str, Json], dict[str, Json]]
    talk: Callable[[str, str, Mapping[str, Json]], dict[str, Json]]
    read: Callable[[Json], Said | None]
    headers: Mapping[str, str] = field(default_factory=dict)


def _openai_body(rules: str, asked: str, schema: Json) -> dict[str, Json]:
    turns = [{"role": "system", "content": rules}, {"role": "user", "content": asked}]
    if schema is None:
        return {"messages": turns}
    shape = {"name": "answer", "strict": True, "schema": schema}
    return {"messages": turns, "response_format": {"type": "json_schema", "json_schema": shape}}


def _openai_said(told: Json) -> Said | None:
    choices = told.get("choices") if isinstance(told, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return None
    text, refusal, end = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    calls = openai_calls(message)
    declined = refusal if isinstance(refusal, str) else ""
    if end == "content_filter":
        declined = declined or "its content filter left the answer out"
    elif end in ("tool_calls", "function_call") and not calls:
        declined = NO_TOOLS
    if not isinstance(text, str) and not declined and end != "length" and not calls:
        return None
    usage = told.get("usage")
    return Said(
        id=str(told.get("id") or ""),
        model=str(told.get("model") or ""),
        text=text if isinstance(text, str) else "",
        before=_tokens(usage, "prompt_tokens"),
        after=_tokens(usage, "completion_tokens"),
        cut=end == "length",
        declined=declined,
        calls=calls,
    )


def _anthropic_body(rules: str, asked: str, schema: Json) -> dict[str, Json]:
    body = {"system": rules, "messages": [{"role": "user", "content": asked}]}
    return body if schema is None else {**body, "output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _anthropic_said(told: Json) -> Said | None:
    blocks = told.get("content") if isinstance(told, Mapping) else None
    if not isinstance(blocks, list):
        return None
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text"]
    end, details, calls = told.get("stop_reason"), told.get("stop_details"), anthropic_calls(blocks)
    declined = ""
    if end == "refusal":
        why = details.get("explanation") or details.get("category") if isinstance(details, Mapping) else ""
        declined = str(why or "it gives no reason")
    elif end in ("tool_use", "pause_turn") and not calls:
        declined = NO_TOOLS
    usage = told.get("usage")
    return Said(
        id=str(told.get("id") or ""),
        model=str(told.get("model") or ""),
        text="".join(text for text in texts if isinstance(text, str)),
        before=_tokens(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        after=_tokens(usage, "output_tokens"),
        cut=end in ("max_tokens", "model_context_window_exceeded"),
        declined=declined,
        calls=calls,
    )


def _tokens(usage: Json, *names: str) -> int | None:
    """The sum of these counts; None where the first is not told."""
    if not isinstance(usage, Mapping) or not isinstance(usage.get(names[0]), int):
        return None
    return sum(count for name in names if isinstance(count := usage.get(name), int))


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(
        origin="https://api.openai.com/v1",
        path="/chat/completions",
        auth=lambda secret: {"bearer": secret},
        limit_field="max_completion_tokens",
        body=_openai_body,
        talk=openai_talk,
        read=_openai_said,
    ),
    "anthropic": Dialect(
        origin="https://api.anthropic.com",
        path="/v1/messages",
        auth=lambda secret: {"header": {"name": "x-api-key", "value": secret}},
        limit_field="max_tokens",
        body=_anthropic_body,
        talk=anthropic_talk,
        read=_anthropic_said,
        headers={"anthropic-version": "2023-06-01"},
    ),
}


def failed(seen: Seen) -> Outcome:
    """What an answer means that is no 2xx: by the service's own word where it has one, else by its status."""
    told, status = seen.scope["response"]["json"], seen.answer.status
    error = told.get("error") if isinstance(told, Mapping) else None
    error = error if isinstance(error, Mapping) else {}
    details = error.get("details")
    words = {error.get("type"), error.get("code"), details.get("error_code") if isinstance(details, Mapping) else None}
    said = " ".join(str(error.get("message") or "").split())[:300]
    summary = say_status(seen.answer, seen.host, seen.url) + (f": {said}" if said else "")
    if status == 402 or SPENT & {word for word in words if isinstance(word, str)}:
        return seen.outcome("refused", "forbidden", f"{summary}; the account there has nothing left to spend")
    if "overloaded_error" in words or (status == 503 and error):
        return seen.outcome("refused", "unavailable", summary)
    if status == 404:  # a read that finds nothing is no failure, but a model that is not there is one
        return seen.outcome("refused", "invalid", summary)
    return seen.outcome(*by_status(seen.answer), summary)


# --- the shape of an answer ----------------------------------------------------------------------------------------

_KEPT = ("type", "enum", "description", "format")
_FORMATS = ("email", "date", "date-time")


def shape_fault(fields: Mapping[str, FieldType]) -> str:
    """Why an answer cannot be asked for in these fields; empty where it can: every part has a type of its own."""
    for name, shape in fields.items():
        if shape.kind in ("any", "file"):
            return f"{name} is of type {shape.kind}, which an answer in words cannot be"
        if shape.kind == "list" and shape.items is None:
            return f"{name} must say what its items are, like {{ list: text }}"
        if shape.kind == "record" and not shape.fields:
            return f"{name} must say what its fields are, like {{ record: {{ sku: text }} }}"
        inner = {f"{name}.{key}": part for key, part in (shape.fields or {}).items()}
        found = shape_fault(inner or ({f"an item of {name}": shape.items} if shape.items is not None else {}))
        if found:
            return found
    return ""


def asked_schema(fields: Mapping[str, Json]) -> dict[str, Json]:
    """The schema as both services take it: closed, every field required (one that may be empty is null), and without
    bounds and patterns, which are checked when the answer is here."""
    return _asked(schema_of(fields))


def _asked(schema: Mapping[str, Json]) -> dict[str, Json]:
    found = {key: schema[key] for key in _KEPT if key in schema}
    if found.get("format") not in _FORMATS:
        found.pop("format", None)
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if "enum" in found:
        kinds = {"integer" if isinstance(one, int) else "string" for one in found["enum"]}
        found["type"] = kinds.pop() if len(kinds) == 1 else sorted(kinds)
    if "properties" in schema:
        found["properties"] = {name: _asked(part) for name, part in schema["properties"].items()}
        found |= {"required": list(schema["properties"]), "additionalProperties": False}
    if "items" in schema:
        found["items"] = _asked(schema["items"])
    if "anyOf" in schema:
        found["anyOf"] = [_asked(part) for part in schema["anyOf"]]
    return found
