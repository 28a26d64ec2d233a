"""What a status and a body say, before any connector has its word."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from connectors.answers import Unreadable, by_status, by_word, evidence, json_of, retry_after, say_status, text_of
from connectors.wire import Answer

NOW = 1_800_000_000_000


def said(status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ("applied", "")),
        (201, ("applied", "")),
        (204, ("applied", "")),
        (207, ("applied", "")),
        (301, ("unknown", "redirect")),
        (302, ("unknown", "redirect")),
        (304, ("unknown", "redirect")),
        (400, ("refused", "invalid")),
        (401, ("refused", "forbidden")),
        (403, ("refused", "forbidden")),
        (404, ("refused", "not_found")),
        (408, ("unknown", "timeout")),
        (409, ("unknown", "conflict")),
        (410, ("refused", "not_found")),
        (422, ("refused", "invalid")),
        (425, ("unknown", "unknown")),
        (429, ("refused", "rate_limited")),
        (451, ("refused", "invalid")),
        (500, ("unknown", "unknown")),
        (503, ("unknown", "unknown")),
        (599, ("unknown", "unknown")),
        (100, ("unknown", "unknown")),
    ],
)
def test_statuses(status: int, expected: tuple[str, str]) -> None:
    assert by_status(said(status)) == expected


def test_unavailable_is_never_concluded_from_a_status() -> None:
    assert all(by_status(said(status))[1] != "unavailable" for status in range(100, 600))


def test_words() -> None:
    for word in ("invalid", "forbidden", "not_found", "rate_limited", "unavailable"):
        assert by_word(word, undo=False) == ("refused", word)
    for word in ("already_there", "in_progress", "unknown"):
        assert by_word(word, undo=False) == ("unknown", word)  # type: ignore[arg-type]
    assert by_word("conflict", undo=False) == ("refused", "conflict")
    assert by_word("conflict", undo=True) == ("unknown", "conflict")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("2", 2_000),
        ("0", 0),
        ("1.5", 1_500),
        ("-3", 0),
        ("soon", None),
        ("nan", None),
        ("inf", 3_600_000),
        ("1e99", 3_600_000),
        ("86400", 3_600_000),
        (formatdate(NOW / 1000 + 90, usegmt=True), 90_000),
        (formatdate(NOW / 1000 - 90, usegmt=True), 0),
        ("Thu, 31 Dec 2099 23:59:59 GMT", 3_600_000),
        ("Thu, 99 Foo 2099", None),
        ("Fri, 15 Jan 2027 08:01:00", 60_000),
    ],
)
def test_retry_after(header: str, expected: int | None) -> None:
    assert retry_after(Answer(status=429, headers={"retry-after": header} if header else {}, body=b""), NOW) == expected


def test_json() -> None:
    assert json_of(said(body=b"")) is None
    assert json_of(said(body=b" \r\n")) is None
    assert json_of(said(body=b'\xef\xbb\xbf{"a": 1}')) == {"a": 1}
    assert json_of(said(body=b'["\\ud83d\\ude00", "\\ud83d x"]')) == ["\U0001f600", "\ufffd\ufffd\ufffd x"]
    for bad in (b"<html>", b"[1e999]", b'{"a": NaN}', b"{", b"\xff\xfe", b"[" * 5_000):
        with pytest.raises(Unreadable, match="is not JSON"):
            json_of(said(body=bad))


def test_text() -> None:
    assert text_of(said(body="日本".encode())) == "日本"
    assert text_of(said(body="日本".encode("shift_jis"), content_type='text/plain; charset="Shift_JIS"')) == "日本"
    for charset in ("no-such", "base64", "idna"):
        assert text_of(said(body=b"a\xff", content_type=f"text/plain; charset={charset}")) == "a\ufffd"
    text_of(said(body=rb"\ud800", content_type="text/plain; charset=raw_unicode_escape")).encode()


def test_evidence_is_short_and_redacted() -> None:
    page = b"<html><style>b{}</style><body>Sign <b>in</b>\n token=hunter2 </body>" + b"x" * 5_000
    found = evidence(
        said(200, page, content_type="text/html; charset=utf-8"), lambda text: text.replace("hunter2", "[secret]")
    )
    assert found.startswith("HTTP 200 text/html Sign in token=[secret] xxx")
    assert len(found) < 350
    cut = b"y" * 295 + b"hunter2"
    assert "hun" not in evidence(said(500, cut), lambda text: text.replace("hunter2", "[secret]"))


def test_a_redirect_names_its_target() -> None:
    url = "https://api.example.test/a"
    moved = said(302, location="https://user:pw@login.example.test/sign-in?next=secret")
    assert say_status(moved, "api.example.test", url) == (
        "api.example.test answered 302 and redirects to login.example.test; redirects are not followed here"
    )
    assert "api.example.test" in say_status(said(307, location="/b"), "api.example.test", url)
    assert "without saying where to" in say_status(said(302), "api.example.test", url)
