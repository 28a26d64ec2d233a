"""What is added at the send: files of the artifact store in a multipart body, and a certificate of ours."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from email.parser import BytesParser
from email.policy import HTTP
from email.policy import default as reading
from pathlib import Path
from typing import Any

import pytest

from connectors import ai, calendar
from connectors.declarative import kind_from_text, shipped
from runner.contract import Outcome
from runner.errors import RequestError, SettingsError
from tests.connectors.httpserver import Got, HttpServer, answer, http_server
from tests.connectors.mailserver import certificate
from tests.connectors.tools import Lent

STORE = """
connector: store
title: Keeps papers
auth: { bearer: token }
actions:
  put:
    writes: keyed
    key: { field: reference, life: 1 day }
    input: { title: text, papers: { list: file }, cover: file or empty }
    request:
      post: /papers
      multipart: { title: "${{ input.title }}", paper: "${{ input.papers }}", cover: "${{ input.cover }}", ok: true }
    output: { id: text }
    cannot_undo: By hand.
"""


def connect(server: HttpServer, lent: Lent, **more: Any) -> Any:
    kind, problems = kind_from_text(STORE, "store.yaml")
    assert kind is not None, problems
    line = {"origin": server.origin, "allow_private": True, "token": {"secret": "TOKEN"}, **more}
    return kind.connect("store", line, lent)


def kept(lent: Lent, name: str, content: bytes, kind: str = "pdf") -> dict[str, Any]:
    return {"name": name, "size": len(content), "kind": kind, "sha256": lent.keep(content)}


async def put(store: Any, **input: Any) -> Outcome:
    request = store.prepare("put", input, key="key-1", purpose="do")
    found: Outcome = await store.send("put", request, key="key-1", purpose="do", limit=3_000)
    await store.close()
    return found


def parts(got: Got) -> list[tuple[str, str | None, str | None, bytes]]:
    """What a strict reader finds: (field, file name, content type, content)."""
    head = f"content-type: {got.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + got.body)
    found = []
    for part in message.iter_parts():
        told = part["content-disposition"].params
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        found.append((told["name"], told.get("filename"), part.get("content-type"), content))
    return found


async def test_files_go_out_in_their_order_with_the_bytes_that_were_given() -> None:
    lent = Lent(TOKEN="tok-3n")
    first, second = b"\x00\xff--amends\r\n\r\n" * 9, "日本".encode()
    async with http_server() as server:
        server.on("/papers", answer(200, {"id": "1"}))
        given = {"title": "Q3 \r\n日本", "papers": [kept(lent, "a.pdf", first), kept(lent, "b.txt", second, "txt")]}
        for _ in range(2):
            assert (await put(connect(server, lent), **given)).result == "applied"
        assert parts(server.got[0]) == [
            ("title", None, None, "Q3 \r\n日本".encode()),
            ("paper", "a.pdf", "application/pdf", first),
            ("paper", "b.txt", "text/plain", second),
            ("ok", None, None, b"true"),
            ("reference", None, None, b"key-1"),
        ]
        assert server.got[0].body == server.got[1].body
        assert server.got[0].headers["authorization"] == "Bearer tok-3n"


async def test_a_request_is_frozen_with_digests_and_not_with_bytes() -> None:
    lent = Lent(TOKEN="tok-3n")
    async with http_server() as server:
        store = connect(server, lent)
        paper = kept(lent, "a.pdf", b"one")
        one = store.prepare("put", {"title": "t", "papers": [paper]}, key="k", purpose="do")
        assert one.body["body"] == ""
        assert one.body["parts"][1] == {
            "name": "paper",
            "file": {
                "name": "a.pdf",
                "kind": "application/pdf",
                "sha256": hashlib.sha256(b"one").hexdigest(),
                "size": 3,
            },
        }
        other = store.prepare("put", {"title": "t", "papers": [kept(lent, "a.pdf", b"two")]}, key="k", purpose="do")
        assert one.hash != other.hash
        await store.close()


@pytest.mark.parametrize("name", ['a"; filename="x.exe', "a\r\nX-Evil: 1\r\n\r\nb", "../../etc/passwd", "日本\u202e.pdf", "a\x00b"])  # fmt: skip
async def test_a_file_name_is_a_name_and_nothing_else(name: str) -> None:
    lent = Lent(TOKEN="tok-3n")
    async with http_server() as server:
        server.on("/papers", answer(200, {"id": "1"}))
        await put(connect(server, lent), title="t", papers=[kept(lent, name, b"one", "x\r\ny")])
        found = parts(server.got[0])
        assert [part[0] for part in found] == ["title", "paper", "ok", "reference"]
        assert found[1][2:] == ("application/octet-stream", b"one")
        assert not set("\r\n/\\\u202e\x00") & set(found[1][1] or "\n")


async def test_a_file_that_is_not_there_or_not_what_was_given_is_not_sent() -> None:
    lent = Lent(TOKEN="tok-3n")
    async with http_server() as server:
        gone = {"name": "a.pdf", "size": 3, "kind": "pdf", "sha256": "0" * 64}
        found = await put(connect(server, lent), title="t", papers=[gone])
        assert (found.result, found.reason) == ("not_sent", "not_found")
        paper = kept(lent, "a.pdf", b"one")
        lent._files[paper["sha256"]] = b"other"
        found = await put(connect(server, lent), title="t", papers=[paper])
        assert found.summary == "store: the stored file a.pdf is not the one that was given"
        assert server.got == []


async def test_a_text_is_no_file() -> None:
    async with http_server() as server:
        with pytest.raises(RequestError):
            await put(connect(server, Lent(TOKEN="tok-3n")), title="t", papers=["a.pdf"])


def signed(folder: Path, password: str = "") -> tuple[Path, Path]:
    """(certificate of an authority, file with a certificate and its key that the authority has signed)."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    hidden = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    run(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=ours",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    )
    run("req", "-newkey", "rsa:2048", *hidden, "-subj", "/CN=amends", "-keyout", "own.key", "-out", "own.csr")
    run(
        "x509",
        "-req",
        "-in",
        "own.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-out",
        "own.crt",
    )
    own = folder / "own.pem"
    own.write_bytes((folder / "own.crt").read_bytes() + (folder / "own.key").read_bytes())
    return folder / "ca.pem", own


async def test_the_service_knows_us_by_our_certificate(tmp_path: Path) -> None:
    cert, context = certificate(tmp_path)
    authority, own = signed(tmp_path, "pass-w0rd")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    async with http_server(ssl=context) as server:
        server.on("/papers", answer(200, {"id": "1"}))
        place = {"origin": f"https://127.0.0.1:{server.port}", "ca": str(cert)}
        ours = {"certificate": str(own), "certificate_password": {"secret": "PASSWORD"}}
        lent = Lent(TOKEN="tok-3n", PASSWORD="pass-w0rd")
        assert (await put(connect(server, lent, **place, **ours), title="t", papers=[])).result == "applied"
        assert (await put(connect(server, lent, **place), title="t", papers=[])).result in ("not_sent", "unknown")
        for wrong, says in ((Lent(TOKEN="tok-3n", PASSWORD="another"), "its password is another one"), (Lent(TOKEN="tok-3n"), "the secret PASSWORD is not set")):  # fmt: skip
            found = await put(connect(server, wrong, **place, **ours), title="t", papers=[])
            assert (found.result, found.reason) == ("not_sent", "forbidden")
            assert says in found.summary
        assert len(server.got) == 1
    (tmp_path / "none.pem").write_text("no certificate")
    found = await put(connect(server, lent, **{**place, "ca": str(tmp_path / "none.pem")}), title="t", papers=[])
    assert (found.result, found.summary) == (
        "not_sent",
        f"store: {tmp_path / 'none.pem'} holds no certificates to trust",
    )
    with pytest.raises(SettingsError, match="store: certificate must be a file of certificates"):
        connect(server, lent, **place, certificate="nowhere.pem")
    with pytest.raises(SettingsError, match="store: certificate_password holds the value itself"):
        connect(server, lent, **place, **{**ours, "certificate_password": "pass-w0rd"})


@pytest.mark.parametrize("kind", [ai.KIND, calendar.KIND])
async def test_every_kind_opens_our_certificate_by_its_password(kind: Any, tmp_path: Path) -> None:
    _, own = signed(tmp_path, "pass-w0rd")
    line = {"ai": {"kind": "openai", "model": "m"}, "calendar": {"calendar": "/a", "origin": "https://a.test"}}[
        kind.name
    ]
    ours = {**line, "certificate": str(own), "certificate_password": {"secret": "PASSWORD"}}
    made = kind.connect("it", ours, Lent(PASSWORD="pass-w0rd"))
    made.client.prepare(fresh=False)
    await made.close()
    with pytest.raises(RequestError, match="its password is another one"):
        kind.connect("it", ours, Lent(PASSWORD="another")).client.prepare(fresh=False)
    with pytest.raises(SettingsError, match="it: certificate_password holds the value itself"):
        kind.connect("it", {**ours, "certificate_password": "pass-w0rd"}, Lent())


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("post: /papers", "get: /papers", "a get has no body; use query"),
        ("ok: true }", "ok: true }\n      form: { a: b }", "a request has one body: json, form, multipart or mail"),
        ("${{ input.title }}", "${{ input.titl }}", 'there is no input "titl"'),
    ],
)
def test_mistakes_are_told(old: str, new: str, what: str) -> None:
    kind, problems = kind_from_text(STORE.replace(old, new), "store.yaml")
    assert kind is None
    assert what in [one.what for one in problems]


# --- a mail as a body ------------------------------------------------------------------------------------------------


async def mailed(lent: Lent, **input: Any) -> tuple[Outcome, Got | None, Any]:
    """One mail by Gmail's file: the outcome, what the service got, and the request as it was frozen."""
    text = shipped()["gmail"].replace(
        shipped()["gmail"].partition("\nauth:")[2].partition("\nsettings:")[0], " { bearer: token }"
    )
    kind, problems = kind_from_text(text, "gmail.yaml")
    assert kind is not None, problems
    async with http_server() as server:
        server.on("*", answer(200, {"id": "m_1", "threadId": "t_1"}))
        line = {"origin": server.origin, "allow_private": True, "token": {"secret": "TOKEN"}, "from": "ops@us.test"}
        gmail = kind.connect("gmail", line, lent)
        request = gmail.prepare("send_mail", input, key="key-1", purpose="do")
        outcome = await gmail.send("send_mail", request, key="key-1", purpose="do", limit=3_000)
        await gmail.close()
        return outcome, server.got[0] if server.got else None, request


async def test_h2_a_mail_through_an_api_is_built_like_any_other() -> None:
    lent = Lent(TOKEN="tok-3n")
    paper = kept(lent, "見積書" * 14 + ".pdf", b"%PDF-1.7 a page")
    subject = "長い件名" * 16 + "\u2028Bcc: thief@evil.test\r\nX: y"
    outcome, got, request = await mailed(lent, to="aya@example.test", subject=subject, text="本文\r\n.", attach=[paper])
    assert outcome.result == "applied"
    assert got is not None
    assert got.headers["content-type"] == "message/rfc822"
    assert got.query == {"uploadType": "media"}
    mail = BytesParser(policy=reading).parsebytes(got.body)
    assert mail.defects == []
    assert mail["subject"] == "長い件名" * 16 + " Bcc: thief@evil.test X: y"
    assert (mail["bcc"], mail["from"], mail["to"]) == (None, "ops@us.test", "aya@example.test")
    (attached,) = mail.iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == (paper["name"], b"%PDF-1.7 a page")
    assert mail["message-id"] == request.body["letter"]["message_id"]
    again, _, second = await mailed(lent, to="aya@example.test", subject=subject, text="本文\r\n.", attach=[paper])
    assert (again.result, second.body["letter"]) == ("applied", request.body["letter"])


async def test_h2_what_no_header_can_carry_is_refused_and_a_file_that_is_gone_is_not_sent() -> None:
    with pytest.raises(RequestError, match="line break"):
        await mailed(Lent(TOKEN="tok-3n"), to="aya@example.test\r\nBcc: thief@evil.test", subject="x", text="y")
    gone = {"name": "a.pdf", "kind": "pdf", "size": 1, "sha256": "0" * 64}
    outcome, got, _ = await mailed(Lent(TOKEN="tok-3n"), to="aya@example.test", subject="x", text="y", attach=[gone])
    assert (outcome.result, outcome.reason, got) == ("not_sent", "not_found", None)


@pytest.mark.parametrize(
    ("mail", "what"),
    [
        ('{ from: a@b.test, to: "${{ input.title }}", subjct: x, subject: y }', 'a mail has no "subjct"'),
        ("{ to: a@b.test, subject: y }", 'a mail needs "from"'),
    ],
)  # fmt: skip
def test_a_mail_has_its_fields(mail: str, what: str) -> None:
    text = STORE.partition("      multipart:")
    kind, problems = kind_from_text(
        text[0].replace("    key: { field: reference, life: 1 day }\n", "").replace("keyed", "once")
        + f"      mail: {mail}\n    cannot_undo: By hand.\n",
        "store.yaml",
    )
    assert kind is None
    assert [problem.what for problem in problems if problem.what.startswith(what)]


def test_a_mail_carries_no_key() -> None:
    text = STORE.partition("      multipart:")[0] + "      mail: { from: a@b.test, to: a@b.test, subject: y }\n"
    kind, problems = kind_from_text(text + "    cannot_undo: By hand.\n", "store.yaml")
    assert kind is None
    assert [problem.what for problem in problems] == ["the body is not a map, so it has no field for the key"]
