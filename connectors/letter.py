"""A mail as data and as bytes: checked addresses, clean headers, a stable Message-ID, and the same bytes every time.

A letter is frozen as its fields (attachments by their digest), not as bytes, so that people can read what will be sent
and the log does not hold every attachment. `build` makes the bytes out of exactly these fields: the boundaries come
from the Message-ID, nothing else enters but the attachments' bytes (checked against their digests) and the `Date`
header, which is added at the send like a credential because `prepare` has no clock. So a key stays bound to one
content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from email.utils import format_datetime
from typing import Any

from connectors.stored import CONTROL, LINE_BREAKS, content_of, one_line, stored_files
from runner.clock import MachineClock
from runner.contract import Json, Tools
from runner.errors import RequestError

_LOCAL = re.compile(r"^[^\s@\"(),:;<>\[\]\\]+$")
_LABEL = re.compile(r"^(?!-)[a-z0-9-]{1,63}(?<!-)$")
_NAMED = re.compile(r"^\s*(?P<name>.*?)\s*<(?P<address>[^<>]*)>\s*$", re.DOTALL)
MAILBOXES = frozenset({"from", "to", "reply-to"})
LONGEST_NAME = 300
_CODED = "=?"
"""A text that looks like a coded header would be read as one, and the line breaks in it would be written out."""
MAIL_FIELDS = dict.fromkeys(("from", "to", "subject"), "text") | dict.fromkeys(
    ("text", "html", "reply_to", "attach"), "any or empty"
)
"""What a connector file says of a mail: name to type."""
FIELDS: Mapping[str, Json] = {
    "to": "any",
    "subject": "text or empty",
    "text": "text or empty",
    "html": "text or empty",
    "template": "text or empty",
    "values": "record or empty",
    "language": "text or empty",
    "reply_to": "text or empty",
    "attach": {"list": "file", "empty": True},
}
"""What is given of a mail: name to type."""


class _Policy(EmailPolicy):
    """SMTP's policy, with names folded so that a long one that is not ASCII keeps its spaces, and a subject that looks
    coded written as the text it is."""

    def fold_binary(self, name: str, value: Any) -> bytes:
        if name.lower() == "subject" and _CODED in str(value):
            shown = Header(one_line(str(value)), "utf-8", header_name=name).encode(linesep="\r\n")
            return f"{name}: {shown}\r\n".encode()
        addresses: tuple[Address, ...] = getattr(value, "addresses", ())
        if name.lower() not in MAILBOXES or len(addresses) != 1:
            return _begun_at_once(name, super().fold_binary(name, value))
        one = addresses[0]
        if not one.display_name or one.display_name.isascii():
            return f"{name}: {one}\r\n".encode()
        shown = Header(one.display_name, "utf-8", header_name=name).encode(linesep="\r\n")
        return f"{name}: {shown}\r\n <{one.addr_spec}>\r\n".encode()


def _begun_at_once(name: str, folded: bytes) -> bytes:
    """The header with its text on its first line: one that begins on the second is read as beginning with a space."""
    head = f"{name}:".encode()
    if not folded.startswith(head + b"\r\n"):
        return folded
    line, end, rest = folded.removeprefix(head + b"\r\n").partition(b"\r\n")
    line = head + line
    at = line.rfind(b" ", len(head) + 2, SMTP.max_line_length)
    return (line if at < 0 else line[:at] + b"\r\n" + line[at:]) + end + rest


def address(text: Json, field: str) -> tuple[str, str]:
    """(name, address) of `aya@example.com` or `佐藤 綾 <aya@example.com>`. Raises RequestError.

    A non-ASCII domain becomes its ASCII form; a non-ASCII local part stays and needs a server with SMTPUTF8.
    """
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{field} is empty; a mail needs an address")
    match = _NAMED.match(text)
    name, bare = (one_line(match["name"]).strip('"'), match["address"]) if match else ("", text)
    if len(name) > LONGEST_NAME:
        raise RequestError(f"{field}: the name has more than {LONGEST_NAME} characters")
    if CONTROL.search(bare):
        raise RequestError(f"{field} holds a line break or an invisible sign; an address is one line of plain text")
    bare = bare.strip()
    local, at, domain = bare.rpartition("@")
    if not at or not _LOCAL.match(local) or local.startswith(".") or local.endswith(".") or ".." in local:
        raise RequestError(f'{field}: "{bare[:80]}" is not a mail address')
    try:
        domain = domain if domain.isascii() else domain.encode("idna").decode()
    except UnicodeError:
        domain = ""
    labels = domain.lower().split(".")
    if len(domain) > 253 or not all(_LABEL.match(label) for label in labels) or len(local.encode()) > 64:
        raise RequestError(f'{field}: "{bare[:80]}" is not a mail address')
    return name, f"{local}@{domain.lower()}"


def message_id(key: str, sender: str) -> str:
    """The Message-ID of the mail with this key: the same at every attempt, different for every key."""
    digest = hashlib.sha256(f"message:{key}".encode()).hexdigest()[:32]
    return f"<{digest}@{sender.rpartition('@')[2]}>"


def freeze(input: Mapping[str, Json], *, sender: tuple[str, str], reply_to: str, key: str) -> dict[str, Json]:
    """The letter as it is frozen: `from to reply_to subject text html attach message_id notes`. Raises RequestError."""
    to = input.get("to")
    if isinstance(to, list) and len(to) == 1:
        to = to[0]
    if isinstance(to, list):
        raise RequestError("one call sends to one address; several are one call each")
    name, recipient = address(to, "to")
    subject = _text(input, "subject")
    text, html = _text(input, "text"), _text(input, "html")
    if input.get("template") and not (text or html):
        raise RequestError("the template was not filled in, so there is nothing to send")
    if not subject.strip():
        raise RequestError("subject is empty; a mail needs one")
    if not text.strip() and not html.strip():
        raise RequestError("a mail needs text, html or a template")
    letter: dict[str, Json] = {
        "from": _shown(*sender),
        "sender": sender[1],
        "to": _shown(name, recipient),
        "recipient": recipient,
        "subject": one_line(subject),
        "message_id": message_id(key, sender[1]),
    }
    answer_to = input.get("reply_to") or reply_to
    if answer_to:
        letter["reply_to"] = _shown(*address(answer_to, "reply_to"))
    if text:
        letter["text"] = _body(text)
    if html:
        letter["html"] = _body(html)
    files = stored_files(input.get("attach"), "attach")
    if files:
        letter["attach"] = files
    broken = [what for what, value in (("subject", subject), ("name", str(to))) if LINE_BREAKS.search(value)]
    if broken:
        letter["notes"] = [f"line breaks in the {what} became spaces" for what in broken]
    return letter


def build(letter: Mapping[str, Json], contents: Sequence[bytes], *, at: int) -> EmailMessage:
    """The message. `contents` are the attachments' bytes in order, `at` is ms since the epoch for the `Date`."""
    recipient = str(letter["recipient"])
    wide = not (recipient + str(letter["sender"])).isascii()
    message = EmailMessage(policy=_Policy(linesep=SMTP.linesep, max_line_length=SMTP.max_line_length, utf8=wide))
    message["Date"] = format_datetime(datetime.fromtimestamp(at // 1000, tz=UTC))
    message["From"] = _header(str(letter["from"]))
    message["To"] = _header(str(letter["to"]))
    if letter.get("reply_to"):
        message["Reply-To"] = _header(str(letter["reply_to"]))
    subject = str(letter["subject"])
    message["Subject"] = Header(subject, "utf-8", maxlinelen=0).encode() if _CODED in subject else subject
    message["Message-ID"] = str(letter["message_id"])
    message["Auto-Submitted"] = "auto-generated"
    message["X-Mailer"] = "Amends"
    for name, subtype in (("text", "plain"), ("html", "html")):
        content = str(letter.get(name, ""))
        if content:
            add = message.add_alternative if name == "html" and letter.get("text") else message.set_content
            add(content, subtype=subtype, cte=_encoding(content))
    for file, data in zip(letter.get("attach", ()), contents, strict=True):
        main, _, sub = str(file["kind"]).partition("/")
        message.add_attachment(data, maintype=main, subtype=sub, filename=str(file["name"]))
    for number, part in enumerate(part for part in message.walk() if part.is_multipart()):
        part.set_boundary("=_" + hashlib.sha256(f"{letter['message_id']}/{number}".encode()).hexdigest()[:40])
    return message


def message_of(letter: Mapping[str, Json], tools: Tools) -> bytes:
    """The message as it leaves now, with the bytes of its attachments. Raises NotFound where one is gone."""
    contents = [content_of(tools, file) for file in letter.get("attach", ())]
    return build(letter, contents, at=MachineClock().now()).as_bytes()


def _text(input: Mapping[str, Json], name: str) -> str:
    value = input.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{name} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{name} holds half of a sign (a lone surrogate), which cannot be sent") from None
    return value


def _body(text: str) -> str:
    """Line ends as mails have them are made at the building; here they are plain newlines."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _encoding(text: str) -> str:
    """Base64 where most of it is not ASCII, else quoted-printable: never 8bit, so that no relay can change a byte."""
    return "base64" if sum(not char.isascii() for char in text) * 3 > len(text) else "quoted-printable"


def _shown(name: str, bare: str) -> str:
    return f"{name} <{bare}>" if name else bare


def _header(text: str) -> Address:
    name, bare = address(text, "address")
    local, _, domain = bare.rpartition("@")
    return Address(display_name=name, username=local, domain=domain)
