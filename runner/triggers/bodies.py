"""What a delivery says: the body by its content type, after it has been proved. Pure, and guarded against bodies that
are made to hurt whoever reads them."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from urllib.parse import parse_qsl

from runner.contract import Json

LARGEST = 1_000_000
"""Bytes of a body, packed and unpacked."""
DEEPEST = 50
MOST_FIELDS = 1_000
CHARSETS = ("utf-8", "utf8", "us-ascii", "iso-8859-1", "windows-1252", "shift_jis", "euc-jp", "big5")

_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_HALF_ESCAPED = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
_FORM = "application/x-www-form-urlencoded"


class Unreadable(Exception):
    """The body is not what it says it is; `str(error)` is the sentence for our log."""


def read_body(headers: Mapping[str, str], body: bytes) -> Json:
    """The body as a value: JSON, or the fields of a form (a field that comes twice is a list). A form with the one
    field `payload`, as GitHub and Slack send, is the JSON in it. Raises Unreadable.
    """
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    text = _text(_unpacked(headers.get("content-encoding", ""), body), parameters)
    if kind == _FORM:
        fields = _fields(text)
        return _json(fields["payload"], "its field payload") if list(fields) == ["payload"] else fields
    if kind in ("", "application/json", "text/plain", "text/json") or kind.endswith("+json"):
        return _json(text, "its body")
    raise Unreadable(f"its body is {kind[:100]}; what can be read is JSON, or a form ({_FORM})")


def _unpacked(encoding: str, body: bytes) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Unreadable(f"its body is packed as {encoding[:40]}, which is not read here")
    unpacking = zlib.decompressobj(wbits=31)
    try:
        found = unpacking.decompress(body, LARGEST + 1)
    except zlib.error:
        raise Unreadable("its body is not the gzip it says it is") from None
    if len(found) > LARGEST:
        raise Unreadable(f"its body is more than {LARGEST:,} bytes when it is unpacked")
    if not unpacking.eof:
        raise Unreadable("its body ends before its gzip does")
    return found


def _text(body: bytes, parameters: str) -> str:
    match = _CHARSET.search(parameters)
    charset = match[1].lower() if match else "utf-8"
    if charset not in CHARSETS:
        raise Unreadable(f"its charset {charset[:40]} is not read here")
    try:
        return body.decode(charset).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Unreadable(f"its body is not the {charset} it says it is") from None


def _fields(text: str) -> dict[str, Json]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:  # more fields, or bytes that are no UTF-8
        raise Unreadable(f"its form cannot be read: more than {MOST_FIELDS} fields, or not UTF-8") from None
    found: dict[str, Json] = {}
    for name, value in pairs:
        before = found.get(name)
        found[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return found


def _json(text: str, what: str) -> Json:
    try:
        value = _DECODER.decode(text)
        if _HALF_ESCAPED.search(text):  # half a sign means nothing, and cannot be written down
            whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            value = _DECODER.decode(whole)
    except _Refused as refused:
        raise Unreadable(f"{what} {refused}") from None
    except RecursionError:
        raise Unreadable(f"{what} is nested more than {DEEPEST} levels deep") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"{what} is not JSON (line {error.lineno}, column {error.colno})") from None
    except ValueError:
        raise Unreadable(f"{what} holds a number that is too long") from None
    if _is_deep(value):
        raise Unreadable(f"{what} is nested more than {DEEPEST} levels deep")
    return value


class _Refused(Exception):
    """JSON that is none, or says two things at once."""


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _Refused(f'holds the key "{twice[:100]}" twice, so it is not known which one counts')
    return found


def _no_number(written: str) -> Json:
    raise _Refused(f"holds {written[:40]}, which is no number")


def _finite(written: str) -> float:
    number = float(written)
    return number if math.isfinite(number) else _no_number(written)


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [part for one in level if isinstance(one, dict | list) for part in _parts(one)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _parts(value: dict[str, Json] | list[Json]) -> list[Json]:
    return list(value.values()) if isinstance(value, dict) else value


# --- the sender's own name for what happened ------------------------------------------------------------------------

_ID_HEADERS = {"standard": "webhook-id", "github": "x-github-delivery"}
_ID_FIELDS = {"stripe": "id", "slack": "event_id"}


def id_of(scheme: str, headers: Mapping[str, str], body: Json, digest: str) -> str:
    """The delivery's id where its trigger names none: the sender's own, else the digest of the body."""
    given = headers.get(_ID_HEADERS.get(scheme, ""), "").strip()
    field = body.get(_ID_FIELDS.get(scheme, "")) if isinstance(body, dict) else None
    return given or (field if isinstance(field, str) and field else digest)
