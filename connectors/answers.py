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
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

from connectors.wire import REDIRECTS, Answer, host_of, redirect_target
from runner.clock import HOUR, MachineClock
from runner.contract import Json, Outcome, Reason, Result

Word = Literal[
    "invalid", "forbidden", "not_found", "conflict", "rate_limited", "already_there", "in_progress", "unavailable",
    "unknown",
]  # fmt: skip
"""What a line of `failures` may say."""

LONGEST_WAIT = HOUR
EXCERPT = 300

_BY_STATUS: Mapping[int, tuple[Result, Reason]] = {
    401: ("refused", "forbidden"),
    403: ("refused", "forbidden"),
    404: ("refused", "not_found"),
    408: ("unknown", "timeout"),
    409: ("unknown", "conflict"),
    410: ("refused", "not_found"),
    425: ("unknown", "unknown"),
    429: ("refused", "rate_limited"),
}
_BY_HUNDRED: Mapping[int, tuple[Result, Reason]] = {
    2: ("applied", ""),
    3: ("unknown", "redirect"),
    4: ("refused", "invalid"),
}
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_HALF_ESCAPED = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
_BOM = b"\xef\xbb\xbf"


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
        text = answer.body.removeprefix(_BOM).decode()
        content = _DECODER.decode(text)
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


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _without_halves(text: str) -> str:
    return text.encode("utf-8", errors="surrogatepass").decode("utf-8", errors="replace")


def retry_after(answer: Answer, now: int) -> int | None:
    """How long the service asks us to wait, in ms, never more than an hour; None if it does not say, or not clearly.

    Seconds (fractions too) or an HTTP date; a date in the past is 0. `now` is ms since the epoch.
    """
    said = answer.headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            moment = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return None
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now / 1000
    return None if math.isnan(seconds) else int(min(max(seconds, 0.0) * 1000, LONGEST_WAIT))


def evidence(answer: Answer, redact: Callable[[str], str]) -> str:
    """Status, content type and the beginning of the text, without markup and without secrets."""
    text = redact(text_of(answer))[: EXCERPT * 20]
    if "html" in media_type(answer) or text.lstrip().startswith("<"):
        text = _MARKUP.sub(" ", text)
    text = " ".join(text.split())
    if len(text) > EXCERPT:
        text = text[:EXCERPT] + "…"
    return " ".join(part for part in (f"HTTP {answer.status}", media_type(answer), text) if part)


def by_status(answer: Answer) -> tuple[Result, Reason]:
    """What a status says when the connector says nothing else. 2xx is `applied`, still to be read and tested."""
    return _BY_STATUS.get(answer.status) or _BY_HUNDRED.get(answer.status // 100, ("unknown", "unknown"))


def by_word(word: Word, *, undo: bool) -> tuple[Result, Reason]:
    """What a line of `failures` says. A conflict on an undo does not say what stands now, so it is to be verified."""
    if word in ("already_there", "in_progress", "unknown") or (undo and word == "conflict"):
        return "unknown", word
    return "refused", word


def say_status(answer: Answer, host: str, url: str) -> str:
    """One sentence about an answer that is not a success."""
    if answer.status not in REDIRECTS:
        return f"{host} answered {answer.status}"
    where = host_of(redirect_target(url, answer) or "")
    to = f" to {where}" if where else " without saying where to"
    return f"{host} answered {answer.status} and redirects{to}; redirects are not followed here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """An answer with what is needed to say what it means. `scope` is what expressions see, `url` was asked."""

    answer: Answer
    scope: Mapping[str, Json]
    is_json: bool
    """Whether the body is JSON or empty."""
    url: str
    redact: Callable[[str], str]

    @classmethod
    def of(
        cls, answer: Answer, *, scope: Mapping[str, Json], with_text: bool, url: str, redact: Callable[[str], str]
    ) -> Seen:
        """Adds `response` to the scope: `status headers json text`. `json` is None where the body is none."""
        try:
            content, is_json = json_of(answer), True
        except Unreadable:
            content, is_json = None, False
        response = {"status": answer.status, "headers": answer.headers, "json": content}
        if with_text:
            response["text"] = text_of(answer)
        return cls(answer=answer, scope={**scope, "response": response}, is_json=is_json, url=url, redact=redact)

    @property
    def host(self) -> str:
        return host_of(self.url)

    def outcome(self, result: Result, reason: Reason, summary: str) -> Outcome:
        """An outcome that is no success, with its evidence."""
        return Outcome(
            result=result,
            reason=reason,
            summary=self.redact(summary)[:500],
            retry_after=retry_after(self.answer, MachineClock().now()),
            evidence=evidence(self.answer, self.redact),
        )

    def failed(self) -> Outcome:
        """What the status says of an answer that is no success."""
        return self.outcome(*by_status(self.answer), say_status(self.answer, self.host, self.url))

    def doubtful(self, reason: Literal["unreadable", "unknown"], why: str) -> Outcome:
        """A success by its status that cannot be taken for one."""
        return self.outcome("unknown", reason, f"{self.host} answered {self.answer.status}, and {why}")
