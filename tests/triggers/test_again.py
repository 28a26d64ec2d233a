"""What led to no run is taken again by a person, from the command line and on its page; lists tell what came."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from runner.contract import Json
from runner.core import events as e
from runner.errors import NotFound, NotPossible
from runner.store.facts import RunFilter
from runner.store.log import SITE
from runner.triggers.listing import NOT_SERVED, triggers_of
from runner.web import arrivals as pages
from runner.web.console import Console
from tests.cases.ground import Engine, opened
from tests.cli.terminal import Running, Terminal
from tests.support.ports import free_port
from tests.triggers.ground import arrivals, prove, served, starts, take
from tests.web.ground import Browser, console_at

ORDERS = starts("orders", "  - webhook: orders\n    id: ${{ body.no }}\n")
MENDED = starts("orders", '  - webhook: orders\n    id: ${{ body.no }}\n    fill: { name: "${{ body.who }}" }\n')
TOM = "person:tom"


async def retake(engine: Engine, arrival: str, reason: str = "The flow is mended.", flow: str = "") -> str:
    took = await engine.driver.take_again(arrival, flow, TOM, reason)
    return took.status


async def test_what_did_not_fit_is_taken_when_the_flow_was_mended(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (ground, engine):
        await take(engine, "webhook", "orders", "d", body={"no": "7", "who": "Ada"}, headers={})
        assert await retake(engine, "7") == "refused"
        ground.write(MENDED)
        assert await retake(engine, "7") == "started"
        (row,) = arrivals(engine)
        run = await engine.rest(row.run)
        assert (row.status, row.content, run.status) == ("started", "", "succeeded")
        started = next(event for event in engine.events(row.run) if isinstance(event, e.RunStarted))
        assert (started.inputs, started.trigger["by"], started.starter) == ({"name": "Ada"}, TOM, TOM)
        facts = [fact.event for fact in engine.store.log(SITE) if isinstance(fact.event, e.DeliveryRetaken)]
        assert [(fact.by, fact.data["status"]) for fact in facts] == [(TOM, "refused"), (TOM, "started")]
        assert facts[1].data["reason"] == "The flow is mended."
        with pytest.raises(NotPossible, match=f"7 is started and led to run {row.run}; what can be taken again is"):
            await retake(engine, "7")


async def test_what_had_no_id_of_its_own_then_is_the_event_that_it_is(tmp_path: Path) -> None:
    """The sender sends it once more too: one run."""
    wrong = ORDERS.replace("body.no", "body.number")
    async with served(tmp_path, wrong) as (ground, engine):
        content: dict[str, Json] = {"body": {"no": "7", "name": "Ada"}, "headers": {}}
        for name in ("d1", "d2"):
            await take(engine, "webhook", "orders", name, **content)
        assert [(row.id, row.status) for row in arrivals(engine)] == [("d2", "refused"), ("d1", "refused")]
        ground.write(ORDERS)
        for name in ("d1", "d2"):
            assert await retake(engine, name) == "started"
        await take(engine, "webhook", "orders", "d3", **content)
        (row,) = arrivals(engine)
        assert (row.id, row.status, engine.store.run(row.run).run_key) == ("7", "started", "7")
        assert len(engine.store.runs(RunFilter())) == 1


async def test_a_conflict_becomes_an_event_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        for name in ("Ada", "Eve"):
            await take(engine, "webhook", "orders", "d", body={"no": "7", "name": name}, headers={})
        (odd,) = [row for row in arrivals(engine) if row.status == "conflict"]
        assert await retake(engine, odd.id[:6]) == "started"
        found = engine.store.runs(RunFilter())
        assert sorted(run.run_key for run in found) == ["7", odd.id]
        assert [row.status for row in arrivals(engine)] == ["started", "started"]


async def test_what_cannot_be_taken_again_says_why(tmp_path: Path) -> None:
    other = starts("mirror", "  - webhook: orders\n    id: ${{ body.no }}\n")
    async with served(tmp_path, ORDERS, other) as (ground, engine):
        await take(engine, "webhook", "orders", "d", body={"no": "7"}, headers={})
        await take(engine, "webhook", "orders", "d", body={"no": "8", "x": "y" * 100_000}, headers={})
        for name, flow, reason, said in (
            ("7", "", "So.", '"7" is not one arrival alone; name one of its flows with --flow: mirror, orders'),
            ("9", "", "So.", 'nothing came with the id "9"'),
            ("7", "orders", " ", "say why it is taken again, in one sentence"),
            ("8", "orders", "So.", "only the beginning of 8 was kept; have it sent again"),
        ):
            with pytest.raises((NotPossible, NotFound), match=said):
                await retake(engine, name, reason, flow)
        ground.write(ORDERS.replace("webhook: orders", "webhook: moved"))
        with pytest.raises(NotPossible, match="flow orders has no webhook orders any more"):
            await retake(engine, "7", "So.", "orders")


async def test_the_triggers_are_listed(tmp_path: Path) -> None:
    daily = starts(
        "daily", "  - schedule: every day at 09:00\n    zone: Asia/Tokyo\n", inputs="{ name: text or empty }"
    )
    async with opened(tmp_path, ORDERS, daily) as ground:
        prove(ground)
        before = list(triggers_of(ground.project(), None, "https://acme.test/"))
        assert [(one.flow, one.kind, one.place, one.problem) for one in before] == [
            ("daily", "schedule", "every day at 09:00 Asia/Tokyo", NOT_SERVED),
            ("orders", "webhook", "https://acme.test/hooks/orders", NOT_SERVED),
        ]
    async with served(tmp_path / "more", ORDERS, daily) as (ground, engine):
        await take(engine, "webhook", "orders", "d", body={"no": "7"}, headers={})
        ground.write(ORDERS.replace("webhook: orders", "webhook: moved").replace("- id: log", "- idd: log"))
        await engine.driver.triggers.active.look()
        _, orders = triggers_of(ground.project(), engine.store, "https://acme.test")
        assert (orders.place, orders.last and orders.last.status) == ("https://acme.test/hooks/orders", "refused")
        assert "idd" in orders.problem


def shop(folder: Path) -> Path:
    """A project whose own tables are the outside."""
    (folder / "flows").mkdir(parents=True)
    steps = "  - id: note\n    do: records.create\n    with: { collection: n, text: a }\n    compensate: cancel\n"
    flow = starts("orders", "  - webhook: orders\n    id: ${{ body.no }}\n", steps=steps)
    (folder / "flows" / "orders.yaml").write_text(flow.replace("owner: person:me", "owner: person:tom"))
    (folder / "amends.yaml").write_text("project: shop\nzone: UTC\n")
    (folder / "people.yaml").write_text("people:\n  tom: { name: Tom Ito, mail: tom@acme.test, role: admin }\n")
    line = "sender: { connector: webhook, scheme: hmac, header: X-Sum, secret: { secret: SENDER } }\n"
    (folder / "connections.yaml").write_text(line)
    (folder / ".env").write_text("SENDER=the-secret-of-it\n")
    return folder


async def came(console: Console, delivery: str, **more: str) -> None:
    triggers = console.driver.triggers
    await triggers.active.look()
    engine = Engine(console.driver)
    await take(engine, "webhook", "orders", delivery, body={"no": delivery, **more}, headers={})


async def test_the_page_goes_on_to_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 1)
    async with console_at(shop(tmp_path / "shop")) as console:
        now, names = console.now, ["2<b>", "3&c", "1"]
        monkeypatch.setattr(console.driver.triggers.clock, "now", lambda: now)
        for name in names:
            await came(console, name)
        browser = Browser(console)
        await browser.sign_in(TOM)
        seen, place = [], "/arrivals?flow=orders"
        while place:
            shown = unescape((await browser.get(place)).text)
            seen += [name for name in names if f"<strong>{name}</strong>" in shown]
            older = re.search(r'href="(/arrivals\?[^"]*before=[^"]*)"', shown)
            place = older[1] if older else ""
        assert seen == ["3&c", "2<b>", "1"]


async def test_the_page_tells_what_came_and_takes_it_again(tmp_path: Path) -> None:
    async with console_at(shop(tmp_path / "shop")) as console:
        await came(console, "1", name="Ada")
        await came(console, "2<b>")
        await console.driver.hooks.take("orders", {}, b"{}")
        browser = Browser(console)
        assert (await browser.get("/arrivals")).status_code == 303
        await browser.sign_in(TOM)
        shown = (await browser.get("/arrivals")).text
        run = console.store.runs(RunFilter())[0].run
        for text in (
            f"{console.public_url}/hooks/orders", f'href="/runs/{run}"', "taken", "does not fit the flow",
            "name: is required and has no value", "2&lt;b&gt;", "Turned away since the start: 1.", "it has no X-Sum",
        ):  # fmt: skip
            assert text in shown, text
        refused = (await browser.get("/arrivals?status=refused&flow=orders")).text
        assert ("2&lt;b&gt;" in refused, run in refused) == (True, False)
        place = "/arrivals/one?flow=orders&source=webhook%3Aorders&id=2%3Cb%3E"
        one = (await browser.get(place)).text
        assert "reveal=1" in one
        assert '"no"' not in one
        assert "&#34;no&#34;: &#34;2&lt;b&gt;&#34;" in (await browser.get(f"{place}&reveal=1")).text
        file = console.amends.folder / "flows" / "orders.yaml"
        file.write_text(file.read_text().replace("inputs: { name: text }", "inputs: { name: text or empty }"))
        pressed = await browser.press(place, reason="The name may be left out now.")
        assert pressed.status_code == 303
        assert pressed.headers["location"].startswith("/runs/")
        assert len(console.store.runs(RunFilter())) == 2


async def test_after_it_got_its_own_id_the_list_is_shown(tmp_path: Path) -> None:
    async with console_at(shop(tmp_path / "shop")) as console:
        file = console.amends.folder / "flows" / "orders.yaml"
        right = file.read_text()
        file.write_text(right.replace("body.no", "body.number"))
        await came(console, "d1", no="7")
        file.write_text(right)
        await console.driver.triggers.active.look()
        browser = Browser(console)
        await browser.sign_in(TOM)
        pressed = await browser.press("/arrivals/one?flow=orders&source=webhook%3Aorders&id=d1", reason="Mended.")
        assert (pressed.status_code, pressed.headers["location"]) == (303, "/arrivals")
        assert "<strong>7</strong>" in (await browser.get("/arrivals")).text


def deliver(port: int, body: bytes, key: bytes = b"the-secret-of-it") -> int:
    sign = {"x-sum": hmac.new(key, body, hashlib.sha256).hexdigest()}
    return httpx.post(f"http://127.0.0.1:{port}/hooks/orders", content=body, headers=sign, timeout=20).status_code


def test_the_commands_tell_what_came_and_take_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shop(tmp_path / "shop")
    terminal = Terminal(folder, capsys)
    said = terminal.type("triggers", "list")
    assert (said.code, "http://127.0.0.1:8484/hooks/orders" in said.out, NOT_SERVED in said.out) == (0, True, True)
    assert terminal.type("triggers", "arrivals").out == "Nothing came yet.\n"
    port = free_port()
    with Running("serve", "--port", str(port), folder=folder) as serving:
        assert deliver(port, b'{"no": "1"}') == 200
        assert deliver(port, b'{"no": "2"}', key=b"wrong") == 401
        listed = json.loads(terminal.type("triggers", "list", "--json").out)
        assert (listed[0]["last"]["status"], listed[0]["turned_away"]["count"]) == ("refused", 1)
        told = terminal.type("triggers", "arrivals", "--status", "refused").out
        assert "webhook:orders" in told
        assert "amends triggers show 1" in told
        shown = terminal.type("triggers", "show", "1").out
        assert "refused, name: is required and has no value" in shown
        assert "--reveal shows them" in shown
        assert '"no": "1"' in terminal.type("triggers", "show", "1", "--reveal").out
        again = terminal.type("triggers", "retry", "1", "--reason", "Once more.", "--by", TOM)
        assert (again.code, "it was taken again and is refused" in again.err) == (2, True)
        file = folder / "flows" / "orders.yaml"
        file.write_text(file.read_text().replace("inputs: { name: text }", "inputs: { name: text or empty }"))
        again = terminal.type("triggers", "retry", "1", "--reason", "Mended.", "--by", TOM)
        assert (again.code, again.out.startswith("Started: run ")) == (0, True), again.err
        assert serving.end().code == 0
    (row,) = json.loads(terminal.type("triggers", "arrivals", "--json").out)
    assert (row["status"], row["run_status"], row["run"] in again.out) == ("started", "succeeded", True)
    wrong = terminal.type("triggers", "arrivals", "--status", "lost")
    assert wrong.err.startswith(
        'amends: "lost" is nothing that becomes of an arrival; there are started, joined, ignored'
    )
