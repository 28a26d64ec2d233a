"""Mailboxes against a real Dovecot: each mail once, whatever breaks in between."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from connectors.imap import KIND
from connectors.letter import build
from runner.clock import MachineClock
from runner.core import events as e
from runner.errors import SettingsError
from runner.store.arrivals import cursor, troubles
from runner.triggers import mailbox
from runner.triggers.again import take_again
from runner.triggers.mailbox import _coming
from runner.triggers.mails import LARGEST
from runner.triggers.parts import RESTORED
from tests.cases.ground import Engine, Ground, opened
from tests.cases.processes import environment, put_away
from tests.connectors.mailserver import certificate
from tests.connectors.tools import Lent
from tests.support.dovecot import PASSWORD, Dovecot, dovecot
from tests.support.processes import ROOT
from tests.triggers.ground import arrivals, serving, starts

pytestmark = pytest.mark.real
ORDERS = starts("orders", '  mail: orders\n  fill: { name: "${{ subject }}" }\n')
FILES = starts(
    "files", "  mail: orders\n  only_if: ${{ attachments | length > 0 }}\n",
    inputs="{ subject: text, text: text, attachments: { list: file } }",
    steps=(
        "  - id: log\n    do: shop.log\n    with:\n      note: ${{ inputs.text }}\n      of: ${{ inputs.attachments[0].name }}\n"
        "    compensate: { none: It only counts. }\n"
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with dovecot() as found:
        yield found


def letter(number: object, *, subject: str = "", **headers: str) -> bytes:
    message = EmailMessage()
    message["From"] = "Aya <aya@acme.example>"
    message["Subject"] = subject or f"order {number}"
    message["Message-ID"] = f"<{number}@acme.example>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("text")
    return bytes(message)


def waits_at(ground: Ground, server: Dovecot, user: str, more: str = "") -> None:
    """Gives the project the mailbox `orders` of this user."""
    with (ground.folder / "connections.yaml").open("a") as file:
        file.write(
            f"orders: {{ connector: imap, host: 127.0.0.1, port: {server.port}, user: {user}, password: {{ secret: BOX }},"
            f" security: none, allow_insecure: true, allow_private: true{more} }}\n"
        )
    (ground.folder / ".env").write_text(f"BOX={PASSWORD}\n")


async def until(is_so: Callable[[], object], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def began(engine: Engine, flow: str = "orders") -> Callable[[], bool]:
    return lambda: f'"{flow}": {{"began"' in (said := engine.store.ask(cursor("mail:orders"))) and "null" not in said


def subjects(ground: Ground) -> list[str]:
    return sorted(str(effect.body["note"]) for effect in ground.shop.world.effects)


async def test_a_new_mail_starts_each_flow_once_and_older_ones_nothing(tmp_path: Path, server: Dovecot) -> None:
    server.deliver("aya", letter("before"), at=time.time() - 60)
    rich = EmailMessage()
    rich["Subject"], rich["Message-ID"], rich["From"] = (
        "添付の件" * 12,
        "<rich@acme.example>",
        "佐藤 <sato@acme.example>",
    )
    rich.set_content("ご査収ください。")
    rich.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="請求書 2026年11月分.pdf")
    async with opened(tmp_path, ORDERS, FILES) as ground:
        waits_at(ground, server, "aya")
        async with serving(ground) as engine:
            await until(lambda: began(engine)() and began(engine, "files")())
            at = time.monotonic()
            server.deliver("aya", letter(1), bytes(rich))
            await until(lambda: len(ground.shop.world.effects) == 3)
            assert time.monotonic() - at < mailbox.WAIT / 2_000, "the server tells of new mail, nobody polls"
            server.deliver("aya", letter(1))  # the same mail by another way
            server.deliver("aya", letter(2))
            await until(lambda: len(ground.shop.world.effects) == 4)
            assert subjects(ground) == sorted(["order 1", "order 2", "添付の件" * 12, "ご査収ください。\n"])
            (started,) = arrivals(engine, flow="files", status=["started"])
            assert (started.id, started.source) == ("<rich@acme.example>", "mail:orders")
            (file,) = engine.state(started.run).inputs["attachments"]
            assert (file["name"], file["size"], file["kind"]) == ("請求書 2026年11月分.pdf", 8, "pdf")
            assert engine.store.artifacts.get(file["sha256"]) == b"%PDF-1.7"
            assert sorted(row.id for row in arrivals(engine, flow="files")) == sorted(
                ["<1@acme.example>", "<2@acme.example>", "<rich@acme.example>"]
            )
            assert not engine.store.ask(troubles)
        assert [one.name for one in threading.enumerate() if one.name.startswith("imap-")] == []
    assert not any(b"\\Seen" in flags for flags in server.flags("aya")), "nothing is changed in the mailbox"


async def test_what_comes_while_nobody_looks_is_taken_later(tmp_path: Path, server: Dovecot) -> None:
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "bob", ", mark_seen: true")
        async with serving(ground) as engine:
            await until(began(engine))
        server.deliver("bob", *(letter(number) for number in range(5)), at=time.time() - 60)
        async with serving(ground) as engine:
            await until(lambda: len(ground.shop.world.effects) == 5)
            await until(lambda: all(b"\\Seen" in flags for flags in server.flags("bob")))
        ground.write(starts("later", '  mail: orders\n  fill: { name: "later ${{ subject }}" }\n'))
        async with serving(ground) as engine:
            await until(began(engine, "later"))
            server.deliver("bob", letter(5))
            await until(lambda: len(ground.shop.world.effects) == 7)
            assert subjects(ground) == ["later order 5", *(f"order {number}" for number in range(6))]


async def test_a_short_disk_ends_no_watch(
    tmp_path: Path, server: Dovecot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mailbox, "WAIT", 200)
    monkeypatch.setattr(mailbox, "FIRST_PAUSE", 50)
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "ivy")
        async with serving(ground) as engine:
            await until(began(engine))
            with monkeypatch.context() as short:
                short.setattr(engine.store, "_floor", 1 << 60)
                server.deliver("ivy", letter(1))
                await until(lambda: "mail:orders: " in caplog.text)
                assert arrivals(engine) == []
            await until(lambda: ground.shop.world.effects)
            assert subjects(ground) == ["order 1"]


async def test_a_mailbox_that_is_numbered_anew_starts_nothing_twice(tmp_path: Path, server: Dovecot) -> None:
    server.deliver("cyn", letter("before", Date="Mon, 01 Jun 2026 10:00:00 +0900"), at=time.time() - 60)
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "cyn")
        async with serving(ground) as engine:
            await until(began(engine))
            server.deliver("cyn", *(letter(number) for number in range(4)))
            await until(lambda: len(ground.shop.world.effects) == 4)
        server.deliver("cyn", letter("meanwhile"), letter("copied", Date="Mon, 01 Jun 2026 10:00:00 +0900"))
        server.number_anew("cyn")
        async with serving(ground) as engine:
            await until(lambda: len(ground.shop.world.effects) == 5)
            await asyncio.sleep(0.3)
            server.deliver("cyn", letter("after"))
            await until(lambda: len(ground.shop.world.effects) == 6)
            assert subjects(ground) == [*(f"order {number}" for number in range(4)), "order after", "order meanwhile"]
            assert {row.status for row in arrivals(engine)} == {"started"}


async def test_a_server_that_is_away_is_said_and_tried_again(
    tmp_path: Path, server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "FIRST_PAUSE", 50)
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "dan")
        async with serving(ground) as engine:
            await until(began(engine))
            await asyncio.to_thread(server.stop)
            try:
                await until(lambda: engine.store.ask(troubles))
                said = engine.store.ask(troubles)
            finally:
                await asyncio.to_thread(server.start)
            assert said == {"mail:orders": f"orders: 127.0.0.1:{server.port} cannot be reached or broke off"}
            server.deliver("dan", letter(1))
            await until(lambda: ground.shop.world.effects and not engine.store.ask(troubles))
            (ground.folder / ".env").write_text("BOX=wrong-horse\n")
        async with serving(ground) as engine:
            await until(lambda: engine.store.ask(troubles))
            (why,) = engine.store.ask(troubles).values()
            assert "said: " in why
            assert "wrong-horse" not in why


async def test_after_a_restore_nobody_knows_what_was_taken(tmp_path: Path, server: Dovecot) -> None:
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "ivo")
        async with serving(ground) as engine:
            await until(began(engine))
        server.deliver("ivo", letter("between"))
        async with ground.engine() as engine:
            await engine.store.site(e.Restored(at=MachineClock().now(), by="person:me", data={"answer": "go on"}))
        async with serving(ground) as engine:
            await until(lambda: arrivals(engine))
            server.deliver("ivo", letter("after"))
            await until(lambda: ground.shop.world.effects)
            assert subjects(ground) == ["order after"]
            (kept,) = arrivals(engine, status=["refused"])
            assert (kept.id, kept.why) == ("<between@acme.example>", RESTORED)
            took = await take_again(engine.driver.triggers, kept.id, "", by="person:me", reason="It was not taken.")
            await until(lambda: len(ground.shop.world.effects) == 2)
            assert (took.status, subjects(ground)) == ("started", ["order after", "order between"])


async def test_a_connection_that_is_changed_is_taken_up_while_it_serves(tmp_path: Path, server: Dovecot) -> None:
    server.deliver("jan", letter("old"), at=time.time() - 60)
    server.deliver("kim", letter("other"), at=time.time() - 60)
    async with opened(tmp_path) as ground, serving(ground) as engine:
        waits_at(ground, server, "jan")
        ground.write(ORDERS)
        await until(began(engine))
        server.deliver("jan", letter(1))
        await until(lambda: ground.shop.world.effects)
        lines = ground.folder / "connections.yaml"
        lines.write_text(lines.read_text().replace("user: jan", "user: kim"))
        await asyncio.sleep(1.1)  # settings count as fresh for a second
        server.deliver("jan", letter("elsewhere"))  # wakes whoever looks there still
        server.deliver("kim", letter(2))
        await until(lambda: "order 2" in subjects(ground))
        assert {"order 1", "order 2"} <= set(subjects(ground)) <= {"order 1", "order 2", "order elsewhere"}


async def test_mails_between_programs_start_no_loop(tmp_path: Path, server: Dovecot) -> None:
    own = {
        "from": "Ops <ops@acme.example>", "sender": "ops@acme.example", "to": "eve@acme.example",
        "recipient": "eve@acme.example", "subject": "Welcome", "message_id": "<own@acme.example>", "text": "Hi",
    }  # fmt: skip
    loops = {
        "bounce": letter("bounce", Return_Path="<>"),
        "answer": letter("answer", Auto_Submitted="auto-replied (vacation)"),
        "old": letter("old", X_Autoreply="yes"),
        "own": bytes(build(own, [], at=0)),
    }
    program = letter("program", Auto_Submitted="auto-generated")
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "eve")
        async with serving(ground) as engine:
            await until(began(engine))
            server.deliver("eve", *loops.values(), program, letter("human", Auto_Submitted="no"))
            await until(lambda: ground.shop.world.effects)
            assert subjects(ground) == ["order human"]
            why = {row.id: row.why for row in arrivals(engine) if row.status == "ignored"}
            assert set(why) == {f"<{name}@acme.example>" for name in (*loops, "program")}
            assert why["<own@acme.example>"] == "Amends wrote it itself, so it starts nothing"
            assert "from_programs: true at the connection" in why["<program@acme.example>"]
    for name, raw in loops.items():
        assert _coming(len(raw), raw, True)[0].status == "ignored", name
    assert _coming(len(program), program, True)[0].status == ""


def test_a_mail_that_is_too_large_is_kept_with_what_is_known() -> None:
    coming, mail = _coming(LARGEST + 1, letter(1), False)
    assert (mail, coming.status, coming.id) == (None, "unreadable", "<1@acme.example>")
    assert coming.why == f"it has {LARGEST + 1:,} bytes, and at most {LARGEST:,} are read"
    assert coming.names["from"] == "aya@acme.example"


async def test_a_mail_that_cannot_be_read_holds_up_nobody(tmp_path: Path, server: Dovecot) -> None:
    broken = (
        letter("broken").replace(b'charset="utf-8"', b'charset="shift_jis"').replace(b"\n\ntext", b"\n\n\x81\x20\xff")
    )
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "fay")
        async with serving(ground) as engine:
            await until(began(engine))
            server.deliver("fay", broken, letter("fine"))
            await until(lambda: ground.shop.world.effects)
            (kept,) = arrivals(engine, status=["unreadable"])
            assert (kept.id, kept.why) == ("<broken@acme.example>", "its text is not the shift_jis it says it is")
            assert '"subject":"order broken"' in kept.content


@pytest.mark.crash
async def test_killed_again_and_again_every_mail_has_exactly_one_run(tmp_path: Path, server: Dovecot) -> None:
    names = [f"gus-{number}" for number in range(60)]
    async with opened(tmp_path, ORDERS) as ground:
        waits_at(ground, server, "gus")
        async with serving(ground) as engine:
            await until(began(engine))
        server.deliver("gus", *(letter(name) for name in names))
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.triggers.serving", str(ground.folder), env=environment(), cwd=ROOT
            )
            try:
                seen = len(ground.shop.world.effects)
                await until(lambda seen=seen: len(ground.shop.world.effects) >= min(seen + 8, len(names)))  # type: ignore[misc]
                os.kill(process.pid, signal.SIGKILL)
            finally:
                await put_away(process)
        async with serving(ground) as engine:
            await until(lambda: len(ground.shop.world.effects) == len(names))
            await asyncio.sleep(0.3)
            assert subjects(ground) == sorted(f"order {name}" for name in names)
            rows = arrivals(engine, limit=100)
            assert sorted(row.id for row in rows) == sorted(f"<{name}@acme.example>" for name in names)
            assert len({row.run for row in rows}) == len(names)
            assert engine.store.verify() == []


# --- the connection ------------------------------------------------------------------------------------------------


def line(server: Dovecot, **more: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": server.port, "user": "hal", "password": {"secret": "BOX"}, "allow_private": True, **more
    }  # fmt: skip


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_it_is_encrypted_or_nothing_is_said(tmp_path: Path, server: Dovecot, security: str) -> None:
    cert, _ = certificate(tmp_path)
    lent = Lent(BOX=PASSWORD)
    with dovecot((cert, tmp_path / "key.pem")) as safe:
        port = safe.tls_port if security == "tls" else safe.port
        safe.deliver("hal", letter(1))
        for ca, said in ((str(cert), ""), ("", f"the certificate of 127.0.0.1:{port} is not one that is trusted")):
            given = line(safe, security=security, port=port) | ({"ca": ca} if ca else {})
            opening: Any = KIND.connect("orders", given, lent)
            if said:
                with pytest.raises(ConnectionError, match=said):
                    await opening.open()
                continue
            box = await opening.open()
            assert await box.after(0) == [1]
            assert isinstance(box._sock, ssl.SSLSocket)
            await box.close()
    plain: Any = KIND.connect("orders", line(server, security=security), lent)
    with pytest.raises(ConnectionError, match="no encryption" if security == "starttls" else "cannot be reached"):
        await plain.open()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"security": "none"}, "orders: security: none sends everything in clear text, passwords too"),
        ({"folder": ""}, "orders: folder must be the name of a mailbox, like INBOX"),
        ({"password": "pw"}, "orders: password holds the value itself"),
        ({"mark_read": True}, 'orders: a connection to imap has no "mark_read"; did you mean "mark_seen"?'),
        ({"host": ""}, "orders: host must be the name of a mail server, like imap.example.com"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused(more: dict[str, Any], said: str) -> None:
    given = {"host": "imap.acme.example", "user": "aya", "password": {"secret": "BOX"}, **more}
    with pytest.raises(SettingsError) as caught:
        KIND.connect("orders", given, Lent())
    assert str(caught.value).startswith(said)
