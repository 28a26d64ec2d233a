"""What a mail says: who wrote it, its text, its files. Pure, and guarded against mails that are made to hurt.

What cannot be read without guessing is Unreadable: a person looks at it. Only names and subjects are read softly.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import policy
from email.errors import CloseBoundaryNotFoundDefect, InvalidBase64LengthDefect
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from email.utils import getaddresses, parsedate_to_datetime
from html import unescape

from runner.contract import Json, digest
from runner.triggers.charsets import decode, words

LARGEST = 30_000_000
"""Bytes of a whole mail, files and all."""
MOST_FILES = 100
MOST_NESTED = 200
_BOUNDARY = re.compile(rb"boundary\s*=", re.IGNORECASE)
MOST_BORDERS = 20_000
"""Lines that begin like the border of a part; the library takes its time for each."""
MOST_PARTS = 1_000
LARGEST_TEXT = 500_000
"""Characters of a mail's text, and of its HTML."""
LONGEST_FIELD = 2_000

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_ID = re.compile(r"<[!-;=?-~]{1,250}>")
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


class Unreadable(Exception):
    """The mail cannot be read as it came; `str(error)` says why, `known` is what is known of it all the same."""

    def __init__(self, why: str, known: Mapping[str, Json]) -> None:
        super().__init__(why)
        self.known = known


@dataclass(frozen=True, kw_only=True, slots=True)
class Attached:
    """One file of a mail."""

    name: str
    kind: str
    content: bytes

    @property
    def told(self) -> dict[str, Json]:
        """As flows see a file: name, size in bytes, kind (its ending), sha256."""
        sha256 = hashlib.sha256(self.content).hexdigest()
        return {"name": self.name, "size": len(self.content), "kind": self.kind, "sha256": sha256}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """`names` are `from to subject text html attachments message_id thread`; `id` names the mail, with a Message-ID or
    without one."""

    id: str
    names: Mapping[str, Json]
    files: tuple[Attached, ...]

    @property
    def digest(self) -> str:
        """Of what it says, whatever way it came."""
        return digest(dict(self.names))


class _Raw(policy.Compat32):
    """Fields as they stand, raw bytes as surrogates."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


_POLICY = _Raw()


# --- the head ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What the header of a mail says. `loop` is why it must start nothing (empty: nothing is against it), `by_program`
    that a program wrote it; `written` is its own date, ms, None where it has none."""

    id: str
    known: Mapping[str, Json]
    loop: str
    by_program: bool
    written: int | None


def read_head(raw: bytes) -> Head:
    """The head of a mail, out of its header or the whole of it. Never fails."""
    head = BytesHeaderParser(policy=_POLICY).parsebytes(raw)
    own = _ids(head, "Message-ID")
    before = (*_ids(head, "References"), *_ids(head, "In-Reply-To"))
    header = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0].replace(b"\r\n", b"\n").rstrip(b"\n")
    known: dict[str, Json] = {
        "from": next(iter(_addresses(head, "From")), ""),
        "to": _addresses(head, "To"),
        "subject": _line(head, "Subject"),
        "message_id": own[0] if own else "",
    }
    mail_id = own[0] if own else f"sha256:{hashlib.sha256(header).hexdigest()}"
    known["thread"] = before[0] if before else mail_id
    automatic = _line(head, "Auto-Submitted").lower().partition(";")[0].strip()
    by_program = automatic not in ("", "no")
    return Head(id=mail_id, known=known, loop=_loop(head, automatic), by_program=by_program, written=_date(head))


def _loop(head: Message, automatic: str) -> str:
    if _line(head, "X-Mailer") == "Amends":
        return "Amends wrote it itself"
    if head.get("Return-Path", "").strip() == "<>" or head.get_content_type() == "multipart/report":
        return "it is a bounce or a receipt (an empty Return-Path, or multipart/report)"
    if automatic not in ("", "no", "auto-generated"):
        return f"it is an automatic answer (Auto-Submitted: {automatic[:40]})"
    if head.get("X-Autoreply") or head.get("X-Autorespond") or _line(head, "Precedence").lower() == "auto_reply":
        return "it is an automatic answer (X-Autoreply, X-Autorespond or Precedence: auto_reply)"
    return ""


def _line(head: Message, name: str) -> str:
    return _clean(words(str(head.get(name, ""))))[:LONGEST_FIELD]


def _clean(text: str) -> str:
    """One line, without the signs nobody can see."""
    return _UNSEEN.sub("", re.sub(r"[\r\n\t]+", " ", text)).strip()


def _ids(head: Message, name: str) -> list[str]:
    return _ID.findall(str(head.get(name, ""))[:20_000])


def _addresses(head: Message, name: str) -> list[str]:
    """The bare addresses of a field, the host in small letters."""
    try:
        found = getaddresses([re.sub(r"\r?\n(?=[ \t])", "", str(head.get(name, "")))[:20_000]])
    except (RecursionError, ValueError, LookupError):  # brackets in brackets, thousands deep
        return []
    bare = [_clean(words(address)) for _, address in found if "@" in address]
    return [f"{local}@{host.lower()}" for local, _, host in (one.rpartition("@") for one in bare)]


def _date(head: Message) -> int | None:
    try:
        return int(parsedate_to_datetime(str(head.get("Date", ""))).timestamp() * 1000)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


# --- the whole -----------------------------------------------------------------------------------------------------


def read_mail(raw: bytes) -> Mail:
    """The whole of a mail. Raises Unreadable."""
    head = read_head(raw)
    if raw.count(b"\n--") > MOST_BORDERS or sum(1 for _ in _BOUNDARY.finditer(raw)) > MOST_NESTED:
        raise Unreadable("it has too many parts, or parts in parts", head.known)
    try:
        message = BytesParser(policy=_POLICY).parsebytes(raw)
        text, html, files = _contents(message)
    except ValueError as error:
        raise Unreadable(str(error), head.known) from None
    except Exception as error:  # noqa: BLE001 - a parser's defect must not keep the mails behind this one
        raise Unreadable(f"its parts cannot be told apart ({type(error).__name__})", head.known) from None
    told: list[Json] = [file.told for file in files]
    names = {**head.known, "text": text or as_text(html), "html": html, "attachments": told}
    return Mail(id=head.id, names=names, files=tuple(files))


def _contents(message: Message) -> tuple[str, str, list[Attached]]:
    """(text, html, files). Raises ValueError."""
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    files: list[Attached] = []
    for number, part in enumerate(_leaves(message)):
        if number >= MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS:,} parts")
        kind, name = part.get_content_type(), _file_name(part)
        if kind in texts and not name and part.get_content_disposition() != "attachment":
            texts[kind].append(_text(part, kind))
            continue
        files.append(_attached(part, kind, name, len(files) + 1))
        if len(files) > MOST_FILES:
            raise ValueError(f"it has more than {MOST_FILES} files")
    text, html = ("\n".join(one for one in found if one.strip()) for found in texts.values())
    if max(len(text), len(html)) > LARGEST_TEXT:
        raise ValueError(f"its text has more than {LARGEST_TEXT:,} characters")
    return text, html, files


def _leaves(message: Message) -> Iterator[Message]:
    """Every part that has no parts of its own, in order. A mail within the mail is one part."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        if any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in part.defects):
            raise ValueError("it ends before its last part does")
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            waiting.extend(_inner(part)[::-1])
        else:
            yield part


def _inner(part: Message) -> list[Message]:
    parts = part.get_payload()
    return [inner for inner in parts if isinstance(inner, Message)] if isinstance(parts, list) else []


def _content(part: Message) -> bytes:
    if part.is_multipart():  # a mail within the mail
        return b"\n".join(inner.as_bytes() for inner in _inner(part))
    data = part.get_payload(decode=True)
    if any(isinstance(defect, InvalidBase64LengthDefect) for defect in part.defects):
        raise ValueError("one of its parts is not the base64 it says it is")
    return data if isinstance(data, bytes) else b""


def _text(part: Message, kind: str) -> str:
    data, charset = _content(part), str(part.get_param("charset") or "")
    if not charset and kind == "text/html" and (meta := _META.search(data[:4_000])):
        charset = meta[1].decode()
    try:
        text = decode(data, charset)
    except ValueError as error:
        raise ValueError(f"its text {error}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _attached(part: Message, kind: str, name: str, number: int) -> Attached:
    content = _content(part)
    guessed = "eml" if kind == "message/rfc822" else (mimetypes.guess_extension(kind) or ".bin").removeprefix(".")
    if not name:
        name = f"{part.get_content_maintype()}-{number}.{guessed}"
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return Attached(name=name, kind=ending if 0 < len(ending) < 10 else guessed, content=content)


def _file_name(part: Message) -> str:
    """The name a part gives itself: RFC 2231, or encoded words as many programs write them; never a path."""
    for header, word in (("content-disposition", "filename"), ("content-type", "name")):
        given = part.get_param(word, header=header)
        if isinstance(given, tuple):
            try:
                given = decode(given[2].encode("latin-1"), given[0] or "utf-8")
            except ValueError:
                given = given[2]
        if given:
            bare = _clean(words(given)).replace("\\", "/").rpartition("/")[2].strip(" .")
            stem, dot, ending = unicodedata.normalize("NFC", bare).rpartition(".")
            return f"{stem[:100]}{dot}{ending[:100]}"
    return ""


# --- HTML ----------------------------------------------------------------------------------------------------------

_SILENT = ("script", "style", "head", "title", "template")
_OWN_LINE = frozenset(
    "address article blockquote body br dd div dl dt footer form h1 h2 h3 h4 h5 h6 header hr li ol p pre section table "
    "tr ul".split()
)
_TAG = re.compile(r"/?([A-Za-z][A-Za-z0-9]*)")


def as_text(html: str) -> str:
    """What a reader of the HTML would see, line by line. Its time grows with the length alone, however it is made."""
    lines = [" ".join(line.split()) for line in "".join(_seen(html)).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _seen(html: str) -> Iterator[str]:
    at, folded = 0, html.lower()
    body, open_ended = folded.find("<body"), set[str]()
    while (start := html.find("<", at)) >= 0:
        yield _unescaped(html[at:start])
        is_comment = html.startswith("<!--", start)
        tag, ending = _TAG.match(html, start + 1), "-->" if is_comment else ">"
        if not tag and html[start + 1 : start + 2] not in ("!", "?", "/"):
            yield "<"
            at = start + 1
            continue
        end = html.find(ending, start)
        if end < 0:  # what was begun never ends
            return
        at, name = end + len(ending), tag[1].lower() if tag else ""
        if name in _SILENT and html[start + 1] != "/":
            closed = -1 if name in open_ended else folded.find(f"</{name}", at)
            if closed < 0 or start < body < closed:  # a head that is not closed ends where the body begins
                open_ended.add(name)
                closed = max(body, at)
            at = closed
        elif tag:
            yield "\n" if name in _OWN_LINE else " " if name in ("td", "th") else ""
    yield _unescaped(html[at:])


def _unescaped(text: str) -> str:
    try:
        return unescape(text.replace("\n", " "))
    except ValueError:  # the number of a sign with thousands of digits
        return text
