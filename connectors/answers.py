"""What an answer means: from a status and a body to one of the four words, the same for every HTTP connector.

    2xx, readable, success true      applied
    429 and other 4xx                refused (429 may be tried again)
    408, 409, 425, 3xx, 5xx          unknown
    2xx that cannot be read          unknown
    2xx whose success test is false  unknown

A connector's `failures` may say otherwise, since it knows the vendor's words. `unavailable` (nothing was done, try
again) is never concluded from a status.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from connectors.client import REDIRECTS, Answer, Lost, redirect_target
from runner.clock import HOUR
from runner.contract import Json, Outcome, Reason, Result

Word = Literal[
    "invalid",
    "forbidden",
    "not_found",
    "conflict",
    "rate_limited",
    "already_there",
    "in_progress",
    "unavailable",
    "unknown",
]
"""What a line of `failures` may say."""

LONGEST_WAIT = HOUR
EXCERPT = 300

_REFUSED_BY_STATUS: Mapping[int, Reason] = {
    401: "forbidden",
    403: "forbidden",
    404: "not_found",
    410: "not_found",
    429: "rate_limited",
}
_UNKNOWN_BY_STATUS: Mapping[int, Reason] = {408: "timeout", 409: "conflict", 425: "unknown"}
_UNKNOWN_WORDS = frozenset({"already_there", "in_progress", "unknown"})
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_HALF_ESCAPED = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")


class Unreadable(Exception):
    """The body is not what its content type says. `str(error)` completes the sentence "the answer …"."""


def media_type(answer: Answer) -> str:
    """The content type without its parameters, lower-case."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def text_of(answer: Answer) -> str:
    """The body as text, by its charset, else UTF-8; what cannot be decoded becomes a replacement character."""
    parameters = answer.headers.get("content-type", "").partition(";")[2]
    match = _CHARSET.search(parameters) if parameters else None
    try:
        return _without_halves(answer.body.decode(match.group(1) if match else "utf-8-sig", errors="replace"))
    except (LookupError, ValueError):
        return answer.body.decode("utf-8-sig", errors="replace")


def json_of(answer: Answer) -> Json:
    """The body as JSON; None if it is empty. A byte order mark is skipped, half a sign (a lone surrogate) becomes a
    replacement character. Raises Unreadable, for numbers that are none too."""
    if not answer.body.strip():
        return None
    try:
        text = answer.body.decode("utf-8-sig")
        content = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if _HALF_ESCAPED.search(text):
            content = json.loads(_without_halves(json.dumps(content, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise Unreadable("is not JSON") from None
    return content


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(written)
    return number


def _without_halves(text: str) -> str:
    return text.encode("utf-8", errors="surrogatepass").decode("utf-8", errors="replace")


def response_scope(answer: Answer) -> tuple[dict[str, Json], bool]:
    """(what expressions see as `response`: `status headers json text`; whether the body is JSON or empty).

    `json` is None where the body is no JSON.
    """
    try:
        content, is_json = json_of(answer), True
    except Unreadable:
        content, is_json = None, False
    scope = {"status": answer.status, "headers": dict(answer.headers), "json": content, "text": text_of(answer)}
    return scope, is_json


def retry_after(answer: Answer, now: int) -> int | None:
    """How long the service asks us to wait, in ms, never more than an hour; None if it does not say, or not clearly.

    Seconds (fractions too) or an HTTP date; a date in the past is 0. `now` is ms since the epoch.
    """
    said = answer.headers.get("retry-after", "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        try:
            moment = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = moment.timestamp() - now / 1000
    if math.isnan(seconds):
        return None
    return int(min(max(seconds, 0.0) * 1000, LONGEST_WAIT))


def evidence(answer: Answer, redact: Callable[[str], str]) -> str:
    """Status, content type and the beginning of the text, without markup and without secrets."""
    text = redact(text_of(answer))[: EXCERPT * 20]
    if "html" in media_type(answer) or text.lstrip().startswith("<"):
        text = _MARKUP.sub(" ", text)
    text = _BLANKS.sub(" ", text).strip()
    if len(text) > EXCERPT:
        text = text[:EXCERPT] + "…"
    return " ".join(part for part in (f"HTTP {answer.status}", media_type(answer), text) if part)


def lost(found: Lost) -> Outcome:
    """The outcome of a request that got no complete answer."""
    return Outcome(result="unknown" if found.sent else "not_sent", reason=found.reason, summary=found.summary)


def by_status(answer: Answer) -> tuple[Result, Reason]:
    """What a status says when the connector says nothing else. 2xx is `applied`, still to be read and tested."""
    status = answer.status
    if 200 <= status < 300:
        return "applied", ""
    if status in _UNKNOWN_BY_STATUS:
        return "unknown", _UNKNOWN_BY_STATUS[status]
    if 400 <= status < 500:
        return "refused", _REFUSED_BY_STATUS.get(status, "invalid")
    if 300 <= status < 400:
        return "unknown", "redirect"
    return "unknown", "unknown"


def by_word(word: Word, *, undo: bool) -> tuple[Result, Reason]:
    """What a line of `failures` says. A conflict on an undo does not say what stands now, so it is to be verified."""
    if word in _UNKNOWN_WORDS or (undo and word == "conflict"):
        return "unknown", word
    return "refused", word


def say_status(answer: Answer, host: str, url: str) -> str:
    """One sentence about an answer that is not a success."""
    if answer.status in REDIRECTS:
        target = redirect_target(url, answer)
        where = urlsplit(target).netloc.rpartition("@")[2] if target else ""
        to = f" to {where}" if where else " without saying where to"
        return f"{host} answered {answer.status} and redirects{to}; redirects are not followed here"
    return f"{host} answered {answer.status}"


def found_nothing() -> Outcome:
    """The outcome of a read that found nothing."""
    return Outcome(result="applied", output={"found": False})
