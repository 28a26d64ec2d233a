"""Secrets: where they are read, what a broken `.env` says, and that no form of a value gets out (case L1)."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import random
import string
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import SecretMissing, SettingsError
from runner.secrets import MOMENT, LogFilter, Secrets, parse_env, pieces_of

VALUES = {
    "plain": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "quotes": "pa\"ss'word\\with/slash",
    "newline": "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n",
    "percent": "100%41 of+it&more=yes",
    "document": '{"type": "service", "private_key": "abc\\ndef", "n": 5}',
    "japanese": "秘密の言葉とパスワード",
    "shortest": "aB3$x!",
    "spaces": "correct horse battery staple",
    "html": "<b>&amp;\"secret'</b>",
    "base64": "c2VjcmV0IHZhbHVlIGlu+/==",
}


def make(folder: Path, **values: str) -> Secrets:
    secrets = Secrets(folder, values)
    for name in values:
        secrets.value(name)
    return secrets


def encodings(value: str) -> dict[str, str]:
    """The value as libraries repeat it."""
    raw = value.encode()
    folded = "\n".join(value[at : at + 5] for at in range(0, len(value), 5))
    long64 = base64.b64encode(b"user:" + raw + b":more text behind").decode()
    return {
        "plain": value,
        "json": json.dumps(value),
        "json utf-8": json.dumps({"a": [value]}, ensure_ascii=False),
        "json in json": json.dumps(json.dumps({"a": value})),
        "json with slashes": json.dumps(value).replace("/", "\\/"),
        "url": urllib.parse.quote(value, safe=""),
        "url path": urllib.parse.quote(value),
        "url lower": urllib.parse.quote(value, safe="").replace("%2", "%2").lower() if value.islower() else value,
        "form": urllib.parse.quote_plus(value),
        "query": "https://api.example.test/x?" + urllib.parse.urlencode({"key": value}),
        "base64": base64.b64encode(raw).decode(),
        "base64 url": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "basic 1": base64.b64encode(b"u" + raw).decode(),
        "basic 2": base64.b64encode(b"u:" + raw).decode(),
        "basic 3": base64.b64encode(b"me:" + raw).decode(),
        "inside base64": long64,
        "inside base64, folded": "\r\n".join(long64[at : at + 20] for at in range(0, len(long64), 20)),
        "base64 in url": urllib.parse.quote(base64.b64encode(raw).decode(), safe=""),
        "hex": raw.hex(),
        "hex upper": raw.hex().upper(),
        "folded": folded,
        "folded in json": json.dumps(folded),
        "html": html.escape(value),
        "repr": repr(value),
    }


CASES = [(name, coding) for name, value in VALUES.items() for coding in encodings(value)]


@pytest.mark.parametrize(("name", "coding"), CASES)
def test_l1_no_coding_of_a_secret_gets_through(tmp_path: Path, name: str, coding: str) -> None:
    value = VALUES[name]
    seen = encodings(value)[coding]
    clean = make(tmp_path, TOKEN=value).redact(f"before {seen} after")
    assert "[secret TOKEN]" in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert value.strip() not in clean
    assert seen not in clean
    rest = clean.replace("[secret TOKEN]", "")
    assert not any(value[at : at + 6] in rest for at in range(len(value) - 5) if value[at : at + 6].strip("- \n"))


ADDRESSES = {
    "https://hooks.chat.example/services/T000AAAA/B000BBBB/XXabcXXdefXXghiXXjklXX": ("XXabcXXdefXXghiXXjklXX", "/services/T000AAAA/B000BBBB/XXabcXXdefXXghiXXjklXX"),
    "postgresql://amends:s3cret!pw@db.acme.example:5432/acme_orders_2026?sslmode=verify-full": ("s3cret!pw",),
    "mysql://amends@db.acme.example/orders?password=hunter22x": ("hunter22x",),
    "https://tom:p%40ssw0rd@files.example/": ("p%40ssw0rd",),
    "slack://TokenAxxxxxxxx12/TokenBxxxxxxxx12345": ("/TokenBxxxxxxxx12345", "TokenAxxxxxxxx12", "TokenBxxxxxxxx12345"),
    "tgram://123456789:abcdefg_hijkABCDEF/123": ("abcdefg_hijkABCDEF",),
    "https://acme.example/hook?sig=abc.123#k": ("/hook?sig=abc.123#k", "abc.123"),
}  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_l1_the_secret_pieces_of_an_address_are_secret_by_themselves(tmp_path: Path, address: str) -> None:
    pieces = ADDRESSES[address]
    assert sorted(pieces_of(address)) == sorted(pieces)
    secrets = make(tmp_path, URL=address)
    assert secrets.redact(f"to {address} now") == "to [secret URL] now"
    for piece in pieces:
        for name, seen in encodings(piece).items():
            clean = secrets.redact(f"before {seen} after")
            assert "[secret URL]" in clean, (name, clean)
            assert piece not in clean
    assert "p@ssw0rd" not in make(tmp_path, URL="https://tom:p%40ssw0rd@files.example/").redact("as tom, p@ssw0rd")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://amends:amends@localhost/amends", "postgresql://postgres:postgres@db/orders", "postgresql://u:password@h/x",
        "https://api.acme.example/v1", "https://api.acme.example/incoming-notifications/", "postgresql://u@h/acme_orders_2026",
        "mysql://tom:123456@h/x", "no address: at all", "https://",
    ],
)  # fmt: skip
def test_l1_short_and_common_pieces_of_an_address_stay(tmp_path: Path, address: str) -> None:
    assert pieces_of(address) == ()
    text = "amends of localhost: postgres, password, orders, acme_orders_2026, /v1, api.acme.example, 123456 JPY"
    assert make(tmp_path, URL=address if len(address) > 8 else "https://x").redact(text) == text


def test_l1_a_text_without_the_secret_stays_as_it_is(tmp_path: Path) -> None:
    secrets = make(tmp_path, TOKEN=VALUES["plain"])
    text = 'a "long" %41 text\n with \\u3042 and &amp; more'
    assert secrets.redact(text) == text
    assert Secrets(tmp_path, {}).redact(text) == text


def test_l1_redaction_keeps_the_rest_letter_by_letter(tmp_path: Path) -> None:
    secrets = make(tmp_path, TOKEN="topsecretvalue")
    assert secrets.redact('{"a": "x\\n%41 topsecretvalue &lt; 終"}') == '{"a": "x\\n%41 [secret TOKEN] &lt; 終"}'
    assert secrets.redact("topsecretvaluetopsecretvalue") == "[secret TOKEN][secret TOKEN]"


def test_l1_a_very_short_secret_is_refused(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, {"PIN": "12"})
    with pytest.raises(SecretMissing, match=r'^the secret "PIN" has only 2 characters: .*use a longer one$'):
        secrets.value("PIN")
    assert secrets.redact("12 of 12") == "12 of 12"


def test_l1_records_and_numbers_are_cleaned_too(tmp_path: Path) -> None:
    secrets = make(tmp_path, TOKEN="topsecretvalue", NUMBER="987654321")
    seen = secrets.redact_value(
        {"topsecretvalue": ["x topsecretvalue", {"n": 987654321, "m": 5}], "t": True, "z": None}
    )
    assert seen == {"[secret TOKEN]": ["x [secret TOKEN]", {"n": "[secret NUMBER]", "m": 5}], "t": True, "z": None}


def test_l1_library_logs_and_tracebacks_are_cleaned(tmp_path: Path) -> None:
    secrets = make(tmp_path, TOKEN="topsecretvalue")
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep()
    LogFilter(secrets).install(handler)
    log = logging.getLogger("some.library")
    log.addHandler(handler)
    log.propagate = False
    try:
        log.warning("GET %s", "https://x.test/?key=topsecretvalue", stack_info=True)
        try:
            raise ValueError("topsecretvalue in an error")
        except ValueError:
            log.exception("failed with %r", {"token": "topsecretvalue"})
        log.error("broken %d", "topsecretvalue")
    finally:
        log.removeHandler(handler)
    written = "\n".join(lines)
    assert len(lines) == 3
    assert "topsecretvalue" not in written
    assert written.count("[secret TOKEN]") >= 3
    assert "Traceback" in written
    assert logging.getLogger("httpx").level == logging.getLogger("aiohttp").level == logging.WARNING


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet=string.ascii_letters + string.digits + "-_%+/=\"'\\&<> é", min_size=8, max_size=40),
    st.integers(0, 2**32),
)
def test_l1_random_secrets_in_random_codings(value: str, seed: int) -> None:
    if len("".join(value.split())) < 8:
        return
    secrets = Secrets(Path("nowhere"), {"TOKEN": value})
    secrets.value("TOKEN")
    coding, seen = random.Random(seed).choice(sorted(encodings(value).items()))
    clean = secrets.redact(f"[{seen}]")
    assert "[secret TOKEN]" in clean, coding


def test_a_missing_secret_says_where_it_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SecretMissing) as caught:
        Secrets(tmp_path, {}).value("CRM_TOKEN")
    assert str(caught.value) == (
        'the secret "CRM_TOKEN" is not set: put a line CRM_TOKEN=… into .env in the project folder, '
        "or set it in the environment"
    )


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A_TOKEN=from the file\nB_TOKEN=only in the file\n", encoding="utf-8")
    secrets = Secrets(tmp_path, {"A_TOKEN": "from outside"})
    assert secrets.value("A_TOKEN") == "from outside"
    assert secrets.value("B_TOKEN") == "only in the file"
    assert secrets.names_used == ("A_TOKEN", "B_TOKEN")
    assert secrets.known() == ("A_TOKEN", "B_TOKEN")
    assert secrets.declare(["A_TOKEN", "C_TOKEN"]) == ("C_TOKEN",)


def test_a_changed_secret_stays_redacted_in_both_forms(tmp_path: Path) -> None:
    environment = {"TOKEN": "first-secret-value"}
    secrets = Secrets(tmp_path, environment)
    secrets.value("TOKEN")
    environment["TOKEN"] = "second-secret-value"
    assert secrets.value("TOKEN") == "second-secret-value"
    assert secrets.redact("first-secret-value second-secret-value") == "[secret TOKEN] [secret TOKEN]"


def test_what_was_read_stays_in_use_while_the_file_is_written(tmp_path: Path) -> None:
    """Whoever writes it anew takes it away, empties it, or has written half of it, for a moment."""
    file = tmp_path / ".env"
    file.write_text("A_TOKEN=first-value\n", encoding="utf-8")
    secrets = Secrets(tmp_path, {})
    assert secrets.value("A_TOKEN") == "first-value"
    for half in (None, "", "B_TOKEN=other-value\n", "A_TOKEN='first"):
        file.unlink() if half is None else file.write_text(half, encoding="utf-8")
        secrets.reload()
        assert secrets.value("A_TOKEN") == "first-value", half
        with pytest.raises((SecretMissing, SettingsError)):
            secrets.require("A_TOKEN")
    file.write_text("A_TOKEN=second-value\n", encoding="utf-8")
    secrets.require("A_TOKEN")
    secrets.reload()
    assert secrets.value("A_TOKEN") == "second-value"


def test_what_was_taken_out_of_the_file_is_gone_after_a_moment(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A_TOKEN=first-value\n", encoding="utf-8")
    secrets = Secrets(tmp_path, {})
    assert secrets.value("A_TOKEN") == "first-value"
    file.write_text("B_TOKEN=other-value\n", encoding="utf-8")
    secrets.reload()
    os.utime(file, (0, file.stat().st_mtime - MOMENT))
    with pytest.raises(SecretMissing, match="A_TOKEN"):
        secrets.value("A_TOKEN")
    file.write_text("A_TOKEN=first-value\n", encoding="utf-8")
    assert secrets.value("A_TOKEN") == "first-value", "what was missing is looked for each time"


def test_a_file_of_every_kind_of_line() -> None:
    text = (
        '# a comment\r\n\r\nexport A=plain value\r\nB=\'single $X \\n\'\nC="two\\nlines \\"and\\" \\\\"  # why\n'
        "D=\"over\nlines\"\nE=\nF=a=b=c\nG = 'x'\nH=a#b\n"
    )
    assert parse_env(text) == {
        "A": "plain value",
        "B": "single $X \\n",
        "C": 'two\nlines "and" \\',
        "D": "over\nlines",
        "E": "",
        "F": "a=b=c",
        "G": "x",
        "H": "a#b",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A=topsecret\nA=topsecret", ".env:2 sets A a second time"),
        ("topsecret", ".env:1 is not NAME=value: a name has letters, digits and _, and no spaces"),
        ("\nMY KEY=topsecret", ".env:2 is not NAME=value: a name has letters, digits and _, and no spaces"),
        ("A='topsecret", ".env:1 A opens a quote and never closes it"),
        ("A='topsecret' more", ".env:1 A goes on behind its closing quote"),
        (
            'A="top\\secret"',
            ".env:1 A has a \\ that means nothing in double quotes: write \\\\, or use 'single quotes'",
        ),
        (
            "A=topsecret # x",
            ".env:1 A has a # behind its value: put the value in quotes, or the comment on its own line",
        ),
    ],
)
def test_a_broken_file_names_the_line_and_never_the_value(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_env(text)
    assert str(caught.value) == sentence


def test_a_file_that_is_no_text_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe\x00topsecret")
    with pytest.raises(SettingsError, match=r"^\.env cannot be read: it must be a text file in UTF-8$"):
        Secrets(tmp_path, {}).value("A")
