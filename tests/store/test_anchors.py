"""Anchors: made on demand and each day, kept in a file, by mail and with a time-stamp; and what `log verify` says."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runner.app import Amends
from runner.people import anchoring
from runner.store.notary import Noted, read_anchors, sign
from runner.store.signing import open_signer, public_key
from runner.store.sql import open_store
from tests.cli.terminal import Terminal
from tests.store.mutations import fill_whole, rewrite
from tests.store.samples import TurnedClock
from tests.support.processes import SmtpProcess

TSA = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


FLOW = """
flow: note
title: Writes a note
owner: person:me
mode: live
run_key: ${{ inputs.name }}
inputs: { name: text }
steps:
  - id: note
    do: box.write
    with: { path: "${{ inputs.name }}.txt", text: Here. }
    compensate: cancel
"""


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A project with two runs."""
    folder = tmp_path / "project"
    for name in ("flows", "box"):
        (folder / name).mkdir(parents=True)
    (folder / "flows" / "note.yaml").write_text(FLOW)
    (folder / "amends.yaml").write_text("project: acme\n")
    (folder / "connections.yaml").write_text("box: { connector: files, folder: box }\n")
    terminal = Terminal(folder, capsys)
    for name in ("one", "two"):
        assert terminal.type("run", "note", "--input", f"name={name}").code == 0
    return terminal


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A time-stamping authority: openssl behind HTTP. Gives its address and its root certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    folder = tmp_path_factory.mktemp("tsa")
    (folder / "tsa.cnf").write_text(TSA.format(folder=folder))
    (folder / "serial").write_text("01")
    (folder / "use").write_text("extendedKeyUsage = critical, timeStamping\nkeyUsage = critical, digitalSignature\n")

    def openssl(*words: str) -> bytes:
        return subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=30).stdout

    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=r"
    )
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=Stamps")
    sign_with = ("-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-extfile", "use")
    openssl("x509", "-req", "-in", "tsa.csr", *sign_with, "-out", "tsa.pem", "-days", "9")

    class Stamps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (folder / "asked").write_bytes(self.rfile.read(int(self.headers["content-length"])))
            told = openssl("ts", "-reply", "-queryfile", "asked", "-config", "tsa.cnf")
            self.send_response(200 if self.path == "/tsr" else 500)
            self.send_header("content-type", "application/timestamp-reply")
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *told: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Stamps)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder / "root.pem"
    server.shutdown()
    thread.join()
    server.server_close()


def anchors(text: str) -> list[Noted]:
    return [noted for _, noted in read_anchors(text) if noted is not None]


def test_an_anchor_is_printed_and_the_log_is_compared_with_it(terminal: Terminal, tmp_path: Path) -> None:
    before = terminal.type("log", "verify")
    assert "Not seen without an anchor kept elsewhere" in before.out
    said = terminal.type("log", "anchor", "--to", str(tmp_path / "kept"))
    assert said.code == 0, said.err
    [noted] = anchors(said.out)
    assert noted.key == public_key(terminal.folder / ".amends") == terminal.type("log", "key").out.strip()
    assert anchors((tmp_path / "kept").read_text()) == [noted]
    after = terminal.type("log", "verify", "--anchors", str(tmp_path / "kept"))
    assert after.code == 0
    assert "1 anchor compared: the log holds them." in after.out
    assert "Not seen: what was done after the last one" in after.out


def test_history_made_anew_with_the_key_is_seen_by_the_anchor_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path, capsys)
    (tmp_path / "amends.yaml").write_text("project: acme\n")
    fill_whole(tmp_path)
    store = open_store(tmp_path, clock=TurnedClock(), writable=False)
    (tmp_path / "kept").write_text(sign(store.noted(1), open_signer(tmp_path / ".amends")).line)
    store.close()
    with closing(sqlite3.connect(terminal.folder / ".amends" / "amends.db", isolation_level=None)) as db:
        rewrite(db, random.Random(4), open_signer(terminal.folder / ".amends"))
    assert terminal.type("log", "verify").code == 0
    seen = terminal.type("log", "verify", "--anchors", str(tmp_path / "kept"))
    assert seen.code == 1
    assert "remembers another entry" in seen.out
    assert "the log was made anew since" in seen.out


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"head": "0" * 64}, "was not signed as it stands there"),
        ({"seq": 1}, "was not signed as it stands there"),
        ({"signature": "zz"}, "was not signed as it stands there"),
        ("another database", "is of another database"),
        ("further on", "which is missing"),
        ("another key", "is signed with another key"),
        ("no anchor", "cannot be read"),
    ],
)
def test_an_anchor_that_does_not_fit(terminal: Terminal, tmp_path: Path, change: object, what: str) -> None:
    [noted] = anchors(terminal.type("log", "anchor").out)
    place = terminal.folder / ".amends"
    if isinstance(change, dict):
        noted = replace(noted, **change)
    elif change == "another database":
        noted = sign(replace(noted, database="f" * 32), open_signer(place))
    elif change == "further on":
        noted = sign(replace(noted, seq=noted.seq + 9), open_signer(place))
    elif change == "another key":
        (tmp_path / "other").mkdir()
        noted = sign(noted, open_signer(tmp_path / "other"))
    line = noted.line if change != "no anchor" else noted.line.replace('"seq"', '"sek"')
    (tmp_path / "kept").write_text(f"From: amends\n\n{line}\n")
    seen = terminal.type("log", "verify", "--anchors", str(tmp_path / "kept"))
    assert seen.code == 1
    assert what in seen.out


def test_a_key_that_is_named_counts(terminal: Terminal, tmp_path: Path) -> None:
    """The state folder was replaced: its checkpoints have another key from here on."""
    old = public_key(terminal.folder / ".amends")
    (terminal.folder / ".amends" / "log.key").unlink()
    assert terminal.type("log", "anchor").code == 0
    seen = terminal.type("log", "verify")
    assert seen.code == 1
    assert f"is signed with the key {old}, which is not this installation's" in seen.out
    assert ", only of keys that nobody has named: this log is not proved whole until they are." in seen.out
    assert "changed" not in seen.out
    told = json.loads(terminal.type("log", "verify", "--json").out)
    assert (told["holds"], {each["unknown_key"] for each in told["faults"]}) == (False, {old})
    (terminal.folder / "amends.yaml").write_text(f"project: acme\nanchors: {{ keys: ['{old}'] }}\n")
    assert terminal.type("log", "verify").code == 0


def test_it_is_kept_where_amends_yaml_says(terminal: Terminal, tmp_path: Path, authority: tuple[str, Path]) -> None:
    address, root = authority
    with SmtpProcess(tmp_path) as post:
        (terminal.folder / "amends.yaml").write_text(
            f"project: acme\ntell_by: mail\nanchors: {{ file: '{tmp_path}/kept', tell: person:aya, "
            f"timestamp: '{address}/tsr' }}\n"
        )
        (terminal.folder / "people.yaml").write_text("people:\n  aya: { name: Aya, mail: aya@acme.test }\n")
        (terminal.folder / "connections.yaml").write_text(
            f"mail: {{ connector: email, host: 127.0.0.1, port: {post.port}, security: none, "
            "allow_insecure: true, allow_private: true, from: amends@acme.test }\n"
        )
        said = terminal.type("log", "anchor", "--json")
        assert said.code == 0, said.err + said.out
        told = json.loads(said.out)
        assert told["kept"] == [f"{address}/tsr", f"{tmp_path}/kept", "aya@acme.test"]
        [mail] = post.mails()
        assert '"amends":"anchor-1"' in str(mail)
    seen = terminal.type("log", "verify", "--stamped-by", str(root))
    assert seen.code == 0, seen.out
    [noted] = anchors((tmp_path / "kept").read_text())
    (tmp_path / "kept").write_text(sign(replace(noted, at=noted.at - 1), open_signer(terminal.folder / ".amends")).line)
    seen = terminal.type("log", "verify", "--stamped-by", str(root))
    assert seen.code == 1
    assert "the time-stamp of the anchor in line 1" in seen.out


def test_what_cannot_keep_it_is_told_and_the_anchor_is_printed(terminal: Terminal, authority: tuple[str, Path]) -> None:
    (terminal.folder / "amends.yaml").write_text(
        f"project: acme\nanchors: {{ file: /proc/nothing, tell: person:me, timestamp: '{authority[0]}/none' }}\n"
    )
    said = terminal.type("log", "anchor")
    assert said.code == 1
    assert len(anchors(said.out)) == 1
    assert f"{authority[0]}/none gave no time-stamp" in said.err
    assert "/proc/nothing cannot be written" in said.err


async def test_a_running_engine_anchors_each_day(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchoring, "FIRST", 0.01)
    monkeypatch.setattr(anchoring, "AGAIN", 0.05)
    (terminal.folder / "amends.yaml").write_text(f"project: acme\nanchors: {{ file: '{tmp_path}/kept' }}\n")
    amends = Amends.open(terminal.folder)
    try:
        async with amends.driver(), asyncio.timeout(20):
            while not (tmp_path / "kept").exists():  # noqa: ASYNC110 - it is a file
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
    finally:
        amends.close()
    assert len(anchors((tmp_path / "kept").read_text())) == 1


def test_the_key_is_its_owners_alone(terminal: Terminal) -> None:
    place = terminal.folder / ".amends"
    assert (place / "log.key").stat().st_mode & 0o077 == 0
    store = open_store(terminal.folder, clock=TurnedClock(), writable=False)
    assert store.own_key == public_key(place)
    store.close()
