"""Mails as programs of all ages write them: every line of the tables is read as its writer meant it, or not at all."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.triggers.charsets import decode, words
from runner.triggers.mails import LARGEST_TEXT, MOST_FILES, Unreadable, as_text, read_head, read_mail
from tests.support.cpu import spent


def encoded(text: str, charset: str, *, cut: int = 0) -> str:
    """Encoded words that are broken over lines, each with `cut` bytes of the text."""
    data = text.encode(charset)
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]
    return "\r\n ".join(f"=?{charset}?B?{base64.b64encode(piece).decode()}?=" for piece in pieces)


SUBJECT = "【重要】二〇二六年十二月分のご請求書をお送りいたします（株式会社アメンズ）"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("order 7", "order 7"),
        (encoded(SUBJECT, "utf-8"), SUBJECT),
        (encoded(SUBJECT, "utf-8", cut=10), SUBJECT),  # signs are cut in two, as some programs do
        (encoded(SUBJECT, "iso-2022-jp"), SUBJECT),
        (encoded(SUBJECT, "shift_jis", cut=7), SUBJECT),
        (encoded("①㈱髙﨑", "cp932").replace("cp932", "Shift_JIS"), "①㈱髙﨑"),
        (encoded("訂單確認", "big5"), "訂單確認"),
        ("=?UTF-8?Q?caf=C3=A9_au_lait?= =?UTF-8?Q?_please?=", "café au lait please"),
        ("Re: =?utf-8?q?caf=C3=A9?= no 7", "Re: café no 7"),
        ("=?utf-8*en?q?hello?=", "hello"),
        ("=?utf-8?b?44GC44GE?", "=?utf-8?b?44GC44GE?"),  # never ends
        ("=?utf-8?b?!!!?=", "=?utf-8?b?!!!?="),
        ("=?utf-8?b?44GC44GE44?=", "あい�"),  # padding and half a sign are lost
        ("=?martian?q?hello?=", "hello"),
        ("\x1b$B4A;z\x1b(B", "漢字"),
        ("漢字".encode().decode("ascii", "surrogateescape"), "漢字"),
        ("bad\udcff byte", "bad� byte"),
        ("folded\r\n\tand folded\r\n again", "folded\tand folded again"),
    ],
)
def test_header_words(written: str, read: str) -> None:
    assert words(written) == read


@pytest.mark.parametrize(
    ("data", "charset", "read"),
    [
        ("日本語〜①㈱".encode("cp932"), "Shift_JIS", "日本語～①㈱"),
        (b"\x1b$BF|K\\8l\x1b(B and \x1b$B-!\x1b(I1\x1b(B", "ISO-2022-JP", "日本語 and ①ｱ"),
        (b"\x1b$BF|K\\\nplain", "iso-2022-jp", "日本\nplain"),  # nobody said that the line ends in ASCII
        ("日本語ｱ".encode("euc-jp") + b"\xad\xa1", "euc-jp", "日本語ｱ①"),
        (b"\x93quoted\x94", "iso-8859-1", "“quoted”"),
        ("é".encode(), "us-ascii", "é"),
        ("é".encode(), "", "é"),
        (b"\x1b$BF|K\\\x1b(B", "", "日本"),
        ("漢字".encode("gb18030"), "gb2312", "漢字"),
        ("\ufeffhi".encode(), "utf-8", "hi"),
        ("漢".encode(), "shift_jis-unknown", "漢"),
    ],
)
def test_charsets(data: bytes, charset: str, read: str) -> None:
    assert decode(data, charset) == read


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        (b"\xff\xfe\xfd", "utf-8"),
        (b"\x81 \xff", "shift_jis"),
        (b"\xe9t\xe9", ""),
        (b"\xff", "unicode_escape"),
        (b"\xff", "hex"),
    ],
)
def test_what_is_in_no_charset_is_not_guessed(data: bytes, charset: str) -> None:
    with pytest.raises(ValueError, match="is not the .* it says it is"):
        decode(data, charset)


def test_every_sign_of_jis_is_read_as_python_reads_it_but_for_the_six_that_windows_has_otherwise() -> None:
    other: list[str] = []
    for row in range(0x21, 0x7F):
        for cell in range(0x21, 0x7F):
            data = b"\x1b$B" + bytes((row, cell)) + b"\x1b(B"
            try:
                sign = data.decode("iso2022_jp")
            except UnicodeDecodeError:
                continue
            euc = decode(bytes((row | 0x80, cell | 0x80)), "euc-jp")
            assert decode(data, "iso-2022-jp") == euc
            other += [sign] if sign != euc else []
    assert "".join(other) == "〜‖−¢£¬"


# --- whole mails ---------------------------------------------------------------------------------------------------


def mail(*lines: str | bytes) -> bytes:
    return b"\r\n".join(line.encode() if isinstance(line, str) else line for line in lines)


HEAD = (
    "From: Aya <Aya@ACME.example>",
    "To: orders@acme.example, =?utf-8?b?44GC?= <a@b.example>",
    "Message-ID: <1@x>",
    "Subject: s",
)


def parts(kind: str, *several: Sequence[str | bytes], end: bool = True) -> bytes:
    lines: list[str | bytes] = [*HEAD, "MIME-Version: 1.0", f'Content-Type: multipart/{kind}; boundary="=b"', ""]
    for part in several:
        lines += ["--=b", *part]
    return mail(*lines, *(["--=b--", ""] if end else []))


PDF = base64.b64encode(b"%PDF-1.7").decode()


def attached(*named: str) -> list[str | bytes]:
    return ["Content-Type: application/pdf", "Content-Transfer-Encoding: base64", *named, "", PDF]


def test_a_plain_mail() -> None:
    found = read_mail(mail(*HEAD, "In-Reply-To: <0@x>", "References: <root@x> <0@x>", "", "Hello,", "two  lines"))
    assert found.names == {
        "from": "Aya@acme.example", "to": ["orders@acme.example", "a@b.example"], "subject": "s", "message_id": "<1@x>",
        "thread": "<root@x>", "text": "Hello,\ntwo  lines", "html": "", "attachments": [],
    }  # fmt: skip
    assert found.id == "<1@x>"


def test_text_beside_html_and_html_alone() -> None:
    html = ["Content-Type: text/html; charset=utf-8", "", "<p>Hi <b>Aya</b></p><p>zwei &amp; drei</p>"]
    both = read_mail(parts("alternative", ["Content-Type: text/plain", "", "plain"], html)).names
    assert (both["text"], both["html"].strip()) == ("plain", html[-1])
    assert read_mail(parts("alternative", html)).names["text"] == "Hi Aya\n\nzwei & drei"
    meta = mail(*HEAD, "Content-Type: text/html", "", b"<meta charset=shift_jis>" + "日本".encode("cp932"))
    assert read_mail(meta).names["text"] == "日本"


@pytest.mark.parametrize(
    ("named", "name", "kind"),
    [
        (('Content-Disposition: attachment; filename="bill.PDF"',), "bill.PDF", "pdf"),
        (("Content-Disposition: attachment; filename*=UTF-8''%E8%AB%8B%E6%B1%82%E6%9B%B8.pdf",), "請求書.pdf", "pdf"),
        (
            ("Content-Disposition: attachment;", " filename*0*=ISO-2022-JP''%1B%24B%40A%35a%3Dq%1B%28B;", ' filename*1=".pdf"'),
            "請求書.pdf", "pdf",
        ),
        ((f'Content-Disposition: attachment; filename="{encoded("請求書", "shift_jis")}.pdf"',), "請求書.pdf", "pdf"),
        ((f"Content-Type: application/pdf; name={encoded('請求書.pdf', 'utf-8')}",), "請求書.pdf", "pdf"),
        (("Content-Disposition: attachment; filename=\"..\\\\..\\\\/etc/pass\u202ewd.pdf\"",), "passwd.pdf", "pdf"),
        (("Content-Disposition: attachment",), "application-1.pdf", "pdf"),
        (("Content-Disposition: attachment; filename=README",), "README", "pdf"),
    ],
)  # fmt: skip
def test_names_of_files(named: tuple[str, ...], name: str, kind: str) -> None:
    own_type = any(line.startswith("Content-Type") for line in named)
    part = attached(*named)[1:] if own_type else attached(*named)
    (file,) = read_mail(parts("mixed", ["Content-Type: text/plain", "", "see"], part)).files
    assert (file.name, file.kind, file.content) == (name, kind, b"%PDF-1.7")


def test_a_mail_within_a_mail_is_a_file() -> None:
    inner = mail("Subject: inner", "Content-Type: text/plain", "", "inside")
    found = read_mail(
        parts("mixed", ["Content-Type: text/plain", "", "outer"], ["Content-Type: message/rfc822", "", inner])
    )
    (file,) = found.files
    assert (found.names["text"], file.kind) == ("outer", "eml")
    assert b"inside" in file.content


def test_parts_between_files_are_one_text() -> None:
    text = ["Content-Type: text/plain", ""]
    found = read_mail(parts("mixed", [*text, "one"], attached(), [*text, "two"], ["Content-Type: text/csv", "", "a,b"]))
    assert found.names["text"] == "one\ntwo"
    assert [file.kind for file in found.files] == ["pdf", "csv"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (mail(*HEAD, "Content-Type: text/plain; charset=shift_jis", "", b"\x81 \xff"), "its text is not the shift_jis it says it is"),
        (parts("mixed", attached(), end=False), "it ends before its last part does"),
        (parts("mixed", [*attached()[:-1], PDF[:-3] + "!"]), "one of its parts is not the base64 it says it is"),
        (parts("mixed", *([attached()] * (MOST_FILES + 1))), f"it has more than {MOST_FILES} files"),
        (mail(*HEAD, "", "x" * (LARGEST_TEXT + 1)), f"its text has more than {LARGEST_TEXT:,} characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why_and_what_is_known(raw: bytes, why: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_mail(raw)
    assert str(caught.value) == why
    assert caught.value.known["subject"] == "s"


def test_a_mail_that_is_nested_without_end_is_no_harm() -> None:
    raw = mail(*HEAD)
    for number in range(3_000):
        raw += f'\r\nContent-Type: multipart/mixed; boundary="{number}"\r\n\r\n--{number}'.encode()
    with pytest.raises(Unreadable):
        read_mail(raw)


def test_the_same_mail_by_another_way_is_the_same() -> None:
    one, other = (mail(f"Received: from {way}", *HEAD, "", "text") for way in ("a", "b"))
    assert read_mail(one).digest == read_mail(other).digest != read_mail(mail(*HEAD, "", "texts")).digest


def test_a_mail_without_an_id_is_known_by_its_header() -> None:
    heads = [mail("From: a@b.example", f"Subject: {n}") for n in (1, 2)]
    ids = [read_head(head + b"\r\n\r\nbody").id for head in heads]
    assert ids[0] == read_head(heads[0]).id == read_head(heads[0] + b"\r\n\r\n").id != ids[1]
    assert ids[0].startswith("sha256:")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for made in (raw, mail(*HEAD, "Content-Type: multipart/mixed; boundary=b", "", "--b", raw, "--b--")):
        try:
            "".join(str(value) for value in read_mail(made).names.values()).encode()
        except Unreadable as error:
            str(error.known).encode()


# --- HTML ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<html><head><title>t</title><style>p{}</style></head><body>a<br>b<script>var x='<p>'</script></body>",
            "a\nb",
        ),
        ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1 2\n\n3"),
        ("a &lt;b&gt; &nbsp;c<!-- no -->d", "a <b> cd"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<head><title>no end<body>shown", "shown"),
        ("<style>no end", "no end"),
        ("<p>begun <a href='x", "begun"),
    ],
)
def test_html_as_text(html: str, text: str) -> None:
    assert as_text(html) == text


@pytest.mark.parametrize("evil", ["<", "<!--", "<script>", "<style></style>", "<a b=", "&#", "</", "<title><body"])
def test_html_that_is_made_to_hurt_takes_no_time(evil: str) -> None:
    with spent() as cpu:
        as_text(evil * (LARGEST_TEXT // len(evil)))
    assert cpu.seconds < 5


def test_brackets_without_end_are_no_address_and_no_harm() -> None:
    head = read_head(b"From: " + b"(" * 20_000 + b"\r\nTo: a@b.test\r\nSubject: S\r\n\r\n")
    assert (head.known["from"], head.known["to"], head.known["subject"]) == ("", ["a@b.test"], "S")
