"""Mails as data and as bytes: addresses, headers, names of files, and the same bytes every time."""

from __future__ import annotations

import email
import email.policy
from email.header import decode_header, make_header
from typing import Any

import pytest

from connectors.letter import address, build, freeze, message_id
from runner.errors import RequestError

SENDER = ("Ops", "ops@example.com")


def frozen(key: str = "key-1", **input: Any) -> dict[str, Any]:
    return freeze(
        {"to": "aya@example.com", "subject": "Hello", "text": "Hi", **input}, sender=SENDER, reply_to="", key=key
    )


def read(letter: dict[str, Any], *contents: bytes) -> Any:
    """The mail as a strict reader sees it."""
    raw = build(letter, contents, at=1_800_000_000_000).as_bytes()
    parsed = email.message_from_bytes(raw, policy=email.policy.default)
    assert not parsed.defects
    assert all(not part.defects for part in parsed.walk())
    return parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aya@example.com", ("", "aya@example.com")),
        (" aya@example.com ", ("", "aya@example.com")),
        ("佐藤 綾 <aya@Example.COM>", ("佐藤 綾", "aya@example.com")),
        ('"Sato, Aya" <aya@example.com>', ("Sato, Aya", "aya@example.com")),
        ("Aya\r\nBcc: x <aya@example.com>", ("Aya Bcc: x", "aya@example.com")),
        ("a+b.c'd@sub.example.com", ("", "a+b.c'd@sub.example.com")),
        ("aya@例え.jp", ("", "aya@xn--r8jz45g.jp")),
        ("綾@example.com", ("", "綾@example.com")),
    ],
)
def test_addresses(text: str, expected: tuple[str, str]) -> None:
    assert address(text, "to") == expected


@pytest.mark.parametrize(
    "text",
    [
        None, "", " ", 5, "None", "aya", "aya@", "@example.com", "a@b@c.d e", "a b@example.com", "aya@exa_mple.com",
        "aya@-x.com", "aya@example..com", ".a@example.com", "a..b@example.com", "aya@example.com\r\nBcc: x@y.z",
        "aya@example.com\u2028", "aya@exam\u0085ple.com", "aya@example.com\x0b", "a\u200b@example.com", "x" * 65 + "@example.com",
        "aya@example.com, tom@example.com", "aya@example.com;tom@example.com", "<aya@example.com", "aya@" + "a." * 130 + "com",
    ],
)  # fmt: skip
def test_what_is_no_address(text: Any) -> None:
    with pytest.raises(RequestError, match="^to"):
        address(text, "to")


def test_a_frozen_letter_can_be_read() -> None:
    assert frozen(html="<p>Hi</p>", reply_to="Desk <desk@example.com>") == {
        "from": "Ops <ops@example.com>",
        "sender": "ops@example.com",
        "to": "aya@example.com",
        "recipient": "aya@example.com",
        "subject": "Hello",
        "message_id": message_id("key-1", "ops@example.com"),
        "reply_to": "Desk <desk@example.com>",
        "text": "Hi",
        "html": "<p>Hi</p>",
    }


def test_the_message_id_is_the_keys() -> None:
    assert message_id("a", "ops@example.com") == message_id("a", "ops@example.com")
    assert message_id("a", "ops@example.com") != message_id("b", "ops@example.com")
    assert frozen(key="b")["message_id"] != frozen()["message_id"]
    assert "key-1" not in frozen()["message_id"]


def test_the_same_letter_is_the_same_bytes() -> None:
    letter = frozen(html="<p>ひ</p>", attach=[{"name": "a.pdf", "kind": "pdf", "sha256": "0", "size": 1}])
    one, two = (build(letter, [b"%PDF"], at=1_000).as_bytes() for _ in range(2))
    assert one == two
    later = build(letter, [b"%PDF"], at=90_000).as_bytes()
    assert [line for line in one.split(b"\r\n") if not line.startswith(b"Date:")] == [
        line for line in later.split(b"\r\n") if not line.startswith(b"Date:")
    ]
    assert one != later


@pytest.mark.parametrize("sign", ["\r\n", "\n", "\r", "\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c"])
def test_line_breaks_in_a_subject_become_a_space(sign: str) -> None:
    letter = frozen(subject=f"Order{sign}Bcc: x@evil.test", to=f"Aya{sign}X <aya@example.com>")
    assert letter["subject"] == "Order Bcc: x@evil.test"
    assert letter["to"] == "Aya X <aya@example.com>"
    assert letter["notes"] == ["line breaks in the subject became spaces", "line breaks in the name became spaces"]
    parsed = read(letter)
    assert parsed["Subject"] == "Order Bcc: x@evil.test"
    assert parsed["Bcc"] is None


@pytest.mark.parametrize("length", range(60, 100))
def test_a_subject_of_any_length_begins_on_the_line_of_its_name(length: int) -> None:
    for word in ("a", "of a few", "employees"):
        subject = (f"{word} " * length)[:length].strip()
        raw = build(frozen(subject=subject), [], at=0).as_bytes()
        assert b"Subject: " + word.encode()[:1] in raw
        assert read(frozen(subject=subject))["Subject"] == subject
        assert max(map(len, raw.partition(b"\r\nMessage-ID")[0].split(b"\r\n"))) <= 78


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?B?DQpCY2M6IGV2ZUBldmlsLnRlc3Q=?=",
        "=?utf-8?Q?x=0D=0ABcc:_eve@evil.test?=",
        "Re: =?utf-8?Q?a=0ATo:_eve@evil.test?= 見積 " * 6,
        "is 1 =? 2",
    ],
)
def test_a_subject_that_looks_coded_is_the_text_it_is(subject: str) -> None:
    parsed = read(frozen(subject=subject))
    assert (parsed["Bcc"], len(parsed.get_all("To"))) == (None, 1)
    assert str(make_header(decode_header(parsed.as_bytes().decode().split("Subject: ")[1].split("\nMessage-ID")[0]))) in (
        subject, subject.strip()
    )  # fmt: skip


def test_long_japanese_texts_arrive_whole() -> None:
    subject = "お申し込みありがとうございます" * 5
    name = "見積書の控え（二〇二六年度）" * 4 + ".pdf"
    body = "こんにちは、佐藤様。\n.\n..二つの点\nFrom here\n" + "長い行" * 400
    letter = frozen(
        subject=subject,
        text=body,
        to="佐藤 綾子" * 8 + " <aya@example.com>",
        attach=[{"name": name, "kind": "pdf", "sha256": "0"}],
    )
    parsed = read(letter, b"%PDF-1.7\r\n\x00\xff")
    assert parsed["Subject"] == subject
    raw = build(letter, [b""], at=0).as_bytes()
    to = email.message_from_bytes(raw)["To"]
    assert str(make_header(decode_header(to))).replace("\r\n", "") == "佐藤 綾子" * 8 + " <aya@example.com>"
    assert parsed.get_body(("plain",)).get_content().replace("\r\n", "\n").rstrip("\n") == body
    attached = next(iter(parsed.iter_attachments()))
    assert (attached.get_filename(), attached.get_content_type(), attached.get_content()) == (
        name,
        "application/pdf",
        b"%PDF-1.7\r\n\x00\xff",
    )
    assert raw.isascii()
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998


def test_both_forms_of_a_text() -> None:
    parsed = read(frozen(text="plain", html="<p>rich</p>"))
    assert parsed.get_content_type() == "multipart/alternative"
    assert parsed.get_body(("plain",)).get_content().strip() == "plain"
    assert parsed.get_body(("html",)).get_content().strip() == "<p>rich</p>"
    alone = read(freeze({"to": "a@b.co", "subject": "s", "html": "<p>x</p>"}, sender=SENDER, reply_to="", key="k"))
    assert alone.get_content_type() == "text/html"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ({"name": "a.exe", "kind": "multipart/x"}, "application/octet-stream"),
        ({"name": "a", "kind": ""}, "application/octet-stream"),
        ({"name": "a.png", "kind": "png"}, "image/png"),
        ({"name": "a.csv", "kind": "text/csv"}, "text/csv"),
        ({"name": "a", "kind": "x\r\ny: z"}, "application/octet-stream"),
    ],
)
def test_kinds_of_attachments(file: dict[str, Any], kind: str) -> None:
    letter = frozen(attach=[{**file, "sha256": "0"}])
    assert letter["attach"][0]["kind"] == kind
    assert next(iter(read(letter, b"abc").iter_attachments())).get_payload(decode=True) == b"abc"


def test_names_of_attachments_are_one_line_and_no_path() -> None:
    letter = frozen(attach=[{"name": "../a\r\nX: y/b.pdf", "kind": "pdf", "sha256": "0"}])
    assert letter["attach"][0]["name"] == ".._a X: y_b.pdf"


@pytest.mark.parametrize(
    ("input", "sentence"),
    [
        ({"to": None}, "to is empty; a mail needs an address"),
        ({"to": ["a@b.co", "c@d.co"]}, "one call sends to one address; several are one call each"),
        ({"subject": ""}, "subject is empty; a mail needs one"),
        ({"subject": None}, "subject is empty; a mail needs one"),
        ({"text": "", "html": " "}, "a mail needs text, html or a template"),
        ({"text": None, "template": "welcome"}, "the template was not filled in, so there is nothing to send"),
        ({"text": 5}, "text must be a text"),
        ({"text": "\ud800"}, "text holds half of a sign (a lone surrogate), which cannot be sent"),
        ({"attach": [{"name": "x"}]}, "attach takes files, each with name, size, kind and sha256"),
        ({"reply_to": "nobody"}, 'reply_to: "nobody" is not a mail address'),
    ],
)
def test_letters_that_cannot_be_made(input: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError) as refused:
        frozen(**input)
    assert str(refused.value) == sentence
