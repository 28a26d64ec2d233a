"""Webhooks through their door: what is proved is kept and answered, and of anything else nothing is kept."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from runner.app import Amends
from runner.clock import SECOND, MachineClock
from runner.core import events as e
from runner.errors import StoreUnwritable
from runner.store.facts import RunFilter
from runner.store.log import SITE
from runner.triggers.bodies import LARGEST
from runner.web import hooks
from runner.web.application import served as application
from runner.web.console import Console
from tests.cases.ground import Engine, Ground, opened
from tests.triggers.ground import SECRET, arrivals, serving, starts
from tests.triggers.ground import served as ground_with
from tests.triggers.test_signatures import headers as signed_as

ORDERS = starts("orders", "  - webhook: orders\n    id: ${{ body.no }}\n")
PLAIN = starts("plain", "  - webhook: plain\n")
KEY = SECRET


@asynccontextmanager
async def door(engine: Engine, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The application in front of an engine, as a sender reaches it."""
    amends = Amends.open(folder)
    console = Console(amends, engine.driver, public_url="http://127.0.0.1:8484", port=8484)
    transport = httpx.ASGITransport(app=application(console), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484") as client:
        yield client
    amends.close()


@asynccontextmanager
async def hooked(tmp_path: Path, *flows: str) -> AsyncIterator[tuple[Ground, Engine, httpx.AsyncClient]]:
    async with ground_with(tmp_path, *flows) as (ground, engine), door(engine, ground.folder) as client:
        yield ground, engine, client


def summed(body: bytes, key: str = KEY, kind: str = "application/json") -> dict[str, str]:
    return {"x-sum": hmac.new(key.encode(), body, hashlib.sha256).hexdigest(), "content-type": kind}


async def send(client: httpx.AsyncClient, name: str, body: bytes, **more: str) -> httpx.Response:
    return await client.post(f"/hooks/{name}", content=body, headers={**summed(body), **more})


def runs(engine: Engine) -> int:
    return len(engine.store.runs(RunFilter(limit=1000)))


async def test_a_delivery_starts_a_run_and_the_same_again_joins_it(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (ground, engine, client):
        body = b'{ "no": "7",\n "name" : "Ad\\u00e1" }'
        for _ in range(3):
            answer = await send(client, "orders", body)
            assert (answer.status_code, answer.text) == (200, "Taken.\n")
        (row,) = arrivals(engine)
        assert (row.status, row.id, row.digest) == ("started", "7", hashlib.sha256(body).hexdigest())
        assert (await engine.rest(row.run)).status == "succeeded"
        assert ground.effects() == ["/log"]
        started = next(event for event in engine.events(row.run) if isinstance(event, e.RunStarted))
        assert started.inputs == {"name": "Adá"}


async def test_the_same_id_with_another_body_is_kept_and_reported(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        for name in ("Ada", "Eve", "Eve"):
            body = json.dumps({"no": "7", "name": name}).encode()
            assert (await send(client, "orders", body)).status_code == 200
        assert sorted(row.status for row in arrivals(engine)) == ["conflict", "started"]
        (odd,) = arrivals(engine, status=("conflict",))
        assert "Eve" in odd.content
        assert runs(engine) == 1
        assert [row.type for row in engine.store.log(SITE)].count("DeliveryConflict") == 1


async def test_what_is_not_proved_leaves_nothing_but_a_count(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        body = b'{"no":"7","name":"Ada"}'
        before = engine.store.about()["bytes"]
        for wrong in ({"x-sum": "0" * 64}, {"x-sum": ""}, summed(body, "another-secret"), summed(body + b" ")):
            answer = await send(client, "orders", body, **wrong)
            assert (answer.status_code, answer.text) == (401, "This is not accepted.\n")
            assert SECRET not in answer.text
        assert arrivals(engine) == []
        assert runs(engine) == 0
        assert engine.store.about()["bytes"] == before
        told = engine.driver.hooks.turned_away["orders"]
        assert (told.count, told.why) == (4, "its signature is not one that our secret makes")
        assert (await send(client, "orders", body)).status_code == 200


async def test_a_forgers_noise_is_logged_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        caplog.clear()
        for _ in range(50):
            await send(client, "orders", b"{}", **{"x-sum": "00"})
        assert [record.message for record in caplog.records if "turned" in record.message] == [
            "the hook orders turned a delivery away (1 since the start): its signature is not one that our secret makes"
        ]
        assert engine.driver.hooks.turned_away["orders"].count == 50


async def test_answers_tell_no_names(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        unknown = await send(client, "nowhere", b"{}")
        assert (unknown.status_code, unknown.text) == (404, "There is nothing here.\n")
        for name in ("orders", "nowhere"):
            looked = await client.get(f"/hooks/{name}")
            assert (looked.status_code, looked.text) == (405, "This does not work here.\n")
            assert looked.headers["allow"] == "POST"
        assert engine.driver.hooks.turned_away == {}


async def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        body = b"[" + b"1," * (LARGEST // 2)
        assert (await send(client, "orders", body + b"1]")).status_code == 413

        async def in_pieces() -> AsyncIterator[bytes]:
            for _ in range(300):
                yield b"x" * 10_000

        answer = await client.post("/hooks/orders", content=in_pieces(), headers=summed(body))
        assert answer.status_code == 413
        assert arrivals(engine) == []
        assert engine.driver.hooks.turned_away == {}


async def test_bodies_of_every_kind_reach_the_flow(tmp_path: Path) -> None:
    """J1: forms, JSON inside a form, charsets."""
    for number, (kind, body) in enumerate(
        (
            ("application/x-www-form-urlencoded", b"no=F1&name=Ada+L."),
            ("application/x-www-form-urlencoded", b"payload=%7B%22no%22%3A%22F2%22%2C%22name%22%3A%22Ada%22%7D"),
            ("Application/JSON; Charset=UTF-8", '{"no":"F3","name":"佐藤"}'.encode()),
        )
    ):
        async with hooked(tmp_path / str(number), ORDERS) as (_, engine, client):
            assert (
                await client.post("/hooks/orders", content=body, headers=summed(body, kind=kind))
            ).status_code == 200
            (row,) = arrivals(engine)
            assert (row.status, row.id) == ("started", f"F{number + 1}")


async def test_case_j1_the_bytes_that_came_are_what_is_proved(tmp_path: Path) -> None:
    """Odd spacing and key order, escapes, `1.0`, packed bodies, an old time, two signatures: each as its sender signed it."""
    flow = starts(
        "plain", "  - webhook: plain\n    signed_by: standard\n", inputs="{ name: text, price: number or empty }"
    )
    async with hooked(tmp_path, flow) as (_, engine, client):
        now = MachineClock().now()
        bodies = (
            b'{ "price" :1.0 ,"name":"Ad\\u00e1"\r\n}\n', gzip.compress(b'{"name":"Ada"}'), '{"name":"\\/書"}'.encode()
        )  # fmt: skip
        for number, body in enumerate(bodies):
            sign = signed_as("standard", body, key="secret-of-the-sender", at=now) | {
                "content-type": "application/json"
            }
            more = {"content-encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
            sign = renamed(sign, f"msg_{number}", body, now)
            both = {**sign, **more, "webhook-signature": f"v1,AAAA {sign['webhook-signature']} v1a,BBBB"}
            assert (await client.post("/hooks/plain", content=body, headers=both)).status_code == 200
            again = json.dumps(json.loads(gzip.decompress(body) if more else body)).encode()
            assert (await client.post("/hooks/plain", content=again, headers=both)).status_code == 401
        assert {row.status for row in arrivals(engine)} == {"started"}
        assert runs(engine) == len(bodies)


def renamed(sign: dict[str, str], name: str, body: bytes, now: int) -> dict[str, str]:
    """The same delivery under another id of its own."""
    text = b"%s.%d.%s" % (name.encode(), now // SECOND, body)
    made = base64.b64encode(hmac.new(b"secret-of-the-sender", text, hashlib.sha256).digest()).decode()
    return {**sign, "webhook-id": name, "webhook-signature": f"v1,{made}"}


async def test_case_j2_pairs_at_the_same_time_are_one_run_each(tmp_path: Path) -> None:
    """What the server's death does to it is played in tests/crash/test_hooks.py."""
    async with hooked(tmp_path, ORDERS) as (ground, engine, client):
        bodies = [json.dumps({"no": str(number), "name": "Ada"}).encode() for number in range(50)]
        answers = await asyncio.gather(*(send(client, "orders", body) for body in bodies for _ in range(2)))
        assert {answer.status_code for answer in answers} == {200}
        assert runs(engine) == 50
        for row in arrivals(engine, limit=100):
            assert (await engine.rest(row.run)).status == "succeeded"
        assert len(ground.effects()) == 50


async def test_a_sender_that_dawdles_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        monkeypatch.setattr(hooks, "SLOWEST", 0.2)

        async def slowly() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b" "
                await asyncio.sleep(0.1)

        began = time.monotonic()
        assert (await client.post("/hooks/orders", content=slowly(), headers=summed(b""))).status_code == 408
        assert time.monotonic() - began < 2
        monkeypatch.setattr(hooks, "MOST_HELD", 10)
        full = await send(client, "orders", b'{"no":"7","name":"Ada"}')
        assert (full.status_code, full.headers["retry-after"]) == (503, "30")
        assert arrivals(engine) == []
        assert hooks._Reading.held == 0


async def test_what_is_authentic_and_cannot_be_read_is_kept(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        for _ in range(2):
            assert (await send(client, "orders", b'{"no": "7",')).status_code == 200
        (row,) = arrivals(engine)
        assert (row.status, row.why) == ("unreadable", "its body is not JSON (line 1, column 12)")
        assert json.loads(row.content)["raw"] == '{"no": "7",'
        assert runs(engine) == 0


async def test_what_does_not_fit_is_kept_and_its_headers_hold_no_secret(tmp_path: Path) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        hidden = {"authorization": "Bearer of-somebody", "proxy-authorization": "Basic b2Y=", "cookie": "a=b"}
        more = {**hidden, "x-more": "seen"}
        assert (await send(client, "orders", b'{"no": "7"}', **more)).status_code == 200
        (row,) = arrivals(engine)
        assert (row.status, row.why) == ("refused", "name: is required and has no value")
        kept = json.loads(row.content)
        assert kept["body"] == {"no": "7"}
        assert kept["headers"]["x-more"] == "seen"
        assert not hidden.keys() & set(kept["headers"])


async def test_what_cannot_be_kept_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hooked(tmp_path, ORDERS) as (_, engine, client):
        body = b'{"no":"7","name":"Ada"}'

        async def full(*_: object) -> None:
            raise StoreUnwritable("no room is left")

        monkeypatch.setattr(engine.store, "arrive", full)
        answer = await send(client, "orders", body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        monkeypatch.undo()
        assert (await send(client, "orders", body)).status_code == 200
        assert runs(engine) == 1


async def test_a_secret_that_is_not_there_is_our_mistake_and_the_next_one_is_taken_up(tmp_path: Path) -> None:
    """Secrets are read when a delivery comes; while one is changed, the old one counts beside it."""
    async with hooked(tmp_path, ORDERS) as (ground, engine, client):
        body, lines, env = b'{"no":"7","name":"Ada"}', ground.folder / "connections.yaml", ground.folder / ".env"
        line = "sender: { connector: webhook, scheme: hmac, header: X-Sum, secret: { secret: SENDER"
        rotated = lines.read_text().replace(line + " }", line + "_2 }, old_secret: { secret: SENDER }")
        lines.write_text(rotated)
        await asyncio.sleep(1.1)
        answer = await send(client, "orders", body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        assert 'the secret "SENDER_2" is not set' in engine.driver.hooks.turned_away["orders"].why
        env.write_text(f"SENDER={SECRET}\nSENDER_2=the-new-secret\n")
        await asyncio.sleep(1.1)
        for key in (SECRET, "the-new-secret"):
            assert (await client.post("/hooks/orders", content=body, headers=summed(body, key))).status_code == 200
        assert (await client.post("/hooks/orders", content=body, headers=summed(body, "neither"))).status_code == 401
        assert runs(engine) == 1


@pytest.mark.parametrize(
    ("scheme", "body", "more", "name"),
    [
        ("standard", b'{"name":"Ada"}', {}, "msg_1"),
        ("github", b'{"name":"Ada"}', {"x-github-delivery": "72d3162e", "x-github-event": "push"}, "72d3162e"),
        ("stripe", b'{"name":"Ada","id":"evt_1"}', {}, "evt_1"),
        ("slack", b'{"name":"Ada","event_id":"Ev1"}', {}, "Ev1"),
        ("sender", b'{"name":"Ada"}', {}, hashlib.sha256(b'{"name":"Ada"}').hexdigest()),
    ],
)
async def test_each_scheme_and_its_own_id(
    scheme: str, body: bytes, more: dict[str, str], name: str, tmp_path: Path
) -> None:
    flow = starts("plain", f"  - webhook: plain\n    signed_by: {scheme}\n")
    async with hooked(tmp_path, flow) as (_, engine, client):
        now, key = MachineClock().now(), "secret-of-the-sender" if scheme == "standard" else SECRET
        sign = summed(body) if scheme == "sender" else signed_as(scheme, body, key=key, at=now)
        for _ in range(2):
            assert (await client.post("/hooks/plain", content=body, headers={**sign, **more})).status_code == 200
        (row,) = arrivals(engine)
        assert (row.id, row.status) == (name, "started")
        if scheme in ("standard", "stripe", "slack"):
            stale = signed_as(scheme, body, key=key, at=now - 1200 * SECOND)
            assert (await client.post("/hooks/plain", content=body, headers=stale)).status_code == 401
            assert "it is signed, but 120" in engine.driver.hooks.turned_away["plain"].why


async def test_the_handshakes_that_senders_describe(tmp_path: Path) -> None:
    hooks = [starts(one, f"  - webhook: {one}\n    signed_by: {one}\n") for one in ("slack", "github")]
    async with hooked(tmp_path, *hooks) as (_, engine, client):
        body = b'{"token":"x","challenge":"3eZbrw1aBm2r","type":"url_verification"}'
        sign = signed_as("slack", body, key=SECRET, at=MachineClock().now())
        answer = await client.post("/hooks/slack", content=body, headers=sign)
        assert (answer.status_code, answer.text) == (200, "3eZbrw1aBm2r")
        assert answer.headers["content-type"].startswith("text/plain")
        forged = await client.post("/hooks/slack", content=body, headers={**sign, "x-slack-signature": "v0=00"})
        assert "3eZbrw1aBm2r" not in forged.text
        assert arrivals(engine) == []
        ping = {**signed_as("github", b"{}", key=SECRET), "x-github-event": "ping", "x-github-delivery": "p1"}
        assert (await client.post("/hooks/github", content=b"{}", headers=ping)).status_code == 200
        (row,) = arrivals(engine)
        assert (row.status, row.why) == ("ignored", "it is GitHub's ping, which says that the hook is there")


async def test_one_hook_with_two_senders_starts_the_flow_of_each(tmp_path: Path) -> None:
    other = starts("other", "  - webhook: orders\n    signed_by: github\n    id: ${{ body.no }}\n")
    async with hooked(tmp_path, ORDERS, other) as (_, engine, client):
        body = b'{"no":"7","name":"Ada"}'
        assert (await send(client, "orders", body)).status_code == 200
        assert [row.flow for row in arrivals(engine)] == ["orders"]
        assert engine.driver.hooks.turned_away == {}
        both = {**summed(body), **signed_as("github", body, key=SECRET)}
        assert (await client.post("/hooks/orders", content=body, headers=both)).status_code == 200
        assert sorted(row.flow for row in arrivals(engine)) == ["orders", "other"]


async def test_a_draft_may_be_tried_without_a_signature(tmp_path: Path) -> None:
    flow = ORDERS.replace("    signed_by: sender\n", "")
    async with hooked(tmp_path, flow.replace("mode: live", "mode: draft")) as (ground, engine, client):
        body = b'{"no":"7","name":"Ada"}'
        assert (await client.post("/hooks/orders", content=body)).status_code == 200
        (row,) = arrivals(engine)
        assert (await engine.rest(row.run)).status == "drafted"
        ground.write(flow)
        await engine.driver.triggers.active.look()
        kept = engine.driver.triggers.active.flows["orders"]
        assert kept.problem == "flows/orders.yaml:7: whoever knows this hook's address can start runs"
        assert ground.effects() == []


async def test_case_r2_an_edit_leaves_no_ghost(tmp_path: Path) -> None:
    """Edited, restarted, renamed, taken away: at each moment one version answers, and in the end none."""
    second = starts("orders", "  - webhook: orders\n    id: ${{ body.no }}\n    fill: { name: second }\n")

    async def came(ground: Ground, engine: Engine, name: str, no: str) -> int:
        await engine.driver.triggers.active.look()
        async with door(engine, ground.folder) as client:
            return (await send(client, name, json.dumps({"no": no, "name": "first"}).encode())).status_code

    async with opened(tmp_path, ORDERS) as ground:
        async with serving(ground) as engine:
            assert await came(ground, engine, "orders", "1") == 200
            ground.write(second)
            assert await came(ground, engine, "orders", "2") == 200
        async with serving(ground) as engine:
            assert await came(ground, engine, "orders", "3") == 200
            ground.write(second.replace("webhook: orders", "webhook: moved"))
            assert await came(ground, engine, "orders", "4") == 404
            assert await came(ground, engine, "moved", "5") == 200
            (ground.folder / "flows" / "orders.yaml").unlink()
            assert await came(ground, engine, "moved", "6") == 404
            found = engine.store.runs(RunFilter())
            assert sorted(str(engine.state(run.run).inputs["name"]) for run in found) == ["first", *["second"] * 3]
