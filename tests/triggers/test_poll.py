"""Polls: a run for each item that was not there before, whatever the service answers in between."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.clock import SECOND, MachineClock, iso
from runner.core import events as e
from runner.language.check import incoming
from runner.store.arrivals import cursor, troubles
from runner.triggers import poll
from runner.triggers.listing import triggers_of
from runner.triggers.poll import Polls, place_of
from tests.cases.ground import Engine, Ground, connector, opened
from tests.cases.processes import environment, put_away
from tests.support.processes import ROOT
from tests.support.says import HELD, Say, failing
from tests.triggers.ground import arrivals, serving, starts
from tests.triggers.test_mailbox import until

LISTS = """  contacts:
    reads: true
    input: { since: text or empty }
    request: { get: /contacts, query: { since: "${{ input.since }}" } }
    output: { items: { list: { id: text, name: text or empty } }, next: text or empty }
    timeout: 1000 ms
  paged:
    reads: true
    input: {}
    request: { get: /contacts }
    pages: { of: items, cursor: "${{ response.json.next }}", query: after, most: 4 }
    output: { items: { list: { id: text } } }
  several:
    reads: true
    input: {}
    request: { get: /contacts }
    output: { one: list, other: list }
"""
FRESH = starts("fresh", '  - poll: shop.contacts\n    every: 10 s\n    fill: { name: "${{ item.name }}" }\n')
OFTEN = FRESH.replace("10 s", "60 ms")


@asynccontextmanager
async def polling(folder: Path, flow: str = FRESH, **more: str) -> AsyncIterator[tuple[Ground, Engine, Polls]]:
    """A project whose poll is made by hand: `ask`."""
    async with opened(folder, flow, text=connector(more=LISTS)) as ground:
        for line in more.values():
            ground.connect(line)
        async with ground.engine() as engine:
            await engine.driver.triggers.active.look()
            yield ground, engine, Polls(engine.driver.triggers)


async def ask(engine: Engine, polls: Polls) -> None:
    """One poll, as the room makes it."""
    (armed,) = engine.driver.triggers.active.all("poll")
    place = place_of(armed)
    await polls.take(place, armed, await polls._begin(place, armed))


def put(ground: Ground, *numbers: int) -> None:
    for number in numbers:
        ground.shop.world.put(f"/contacts/{number}", {"name": f"n{number}"})


def started(engine: Engine) -> list[str]:
    return sorted(row.id for row in arrivals(engine, status=["started"], limit=500))


async def test_what_is_there_first_starts_nothing_and_what_comes_then_once(tmp_path: Path) -> None:
    async with polling(tmp_path) as (ground, engine, polls):
        put(ground, 1, 2)
        await ask(engine, polls)
        assert arrivals(engine) == []
        put(ground, 3, 4)
        ground.shop.world.put("/contacts/1", {"name": "changed, and not new"})
        for _ in range(3):
            await ask(engine, polls)
        assert started(engine) == ["3", "4"]
        rows = arrivals(engine)
        assert len(rows) == 2
        assert {row.source for row in rows} == {"poll:shop.contacts"}
        assert engine.state(rows[0].run).inputs["name"] in ("n3", "n4")
        gone = ground.shop.world.collections["/contacts"].pop("2")
        await ask(engine, polls)
        ground.shop.world.collections["/contacts"]["2"] = gone
        await ask(engine, polls)
        assert len(arrivals(engine)) == 2, "an item that was away comes back, and is none that is new"


async def test_an_empty_answer_forgets_nothing(tmp_path: Path) -> None:
    async with polling(tmp_path) as (ground, engine, polls):
        put(ground, *range(30))
        await ask(engine, polls)
        ground.shop.script("GET /contacts", Say(json={"items": []}), Say(status=404, json={}))
        for _ in range(3):
            await ask(engine, polls)
        assert arrivals(engine) == []


async def test_after_a_restore_nobody_knows_what_was_taken(tmp_path: Path) -> None:
    async with polling(tmp_path) as (ground, engine, polls):
        put(ground, 1)
        await ask(engine, polls)
        put(ground, 2)
        await engine.store.site(e.Restored(at=MachineClock().now(), by="person:me", data={"answer": "go on"}))
        await ask(engine, polls)
        put(ground, 3)
        await ask(engine, polls)
        assert {row.id: row.status for row in arrivals(engine)} == {"2": "refused", "3": "started"}


async def test_the_list_of_triggers_says_what_is_wrong(tmp_path: Path) -> None:
    async with polling(tmp_path) as (ground, engine, _):
        (armed,) = engine.driver.triggers.active.all("poll")
        await engine.driver.triggers.say_trouble(place_of(armed), "shop.contacts: it is closed")
        listed = list(triggers_of(ground.project(), engine.store, ""))
        assert [(row.name, row.problem) for row in listed] == [("shop.contacts", "shop.contacts: it is closed")]


async def test_items_are_known_by_what_the_flow_says(tmp_path: Path) -> None:
    flow = FRESH.replace(
        "    fill", '    seen_by: ${{ item.name }}\n    with: { since: "${{ trigger.at }}" }\n    fill'
    )
    async with polling(tmp_path, flow) as (ground, engine, polls):
        none = Say(json={"items": []})
        twins = [{"id": "7", "name": "x"}, {"id": "8", "name": "x"}, {"id": "9"}, {"id": "10", "name": "y"}]
        ground.shop.script("GET /contacts", none, always=Say(json={"items": twins}))
        before = MachineClock().now()
        await ask(engine, polls)
        await ask(engine, polls)
        await ask(engine, polls)
        rows = {row.id: row for row in arrivals(engine)}
        assert sorted(row.status for row in rows.values()) == ["conflict", "started", "started", "unreadable"]
        assert (rows["x"].status, rows["y"].status) == ("started", "started")
        (nameless,) = (row for row in rows.values() if row.status == "unreadable")
        assert "item.name" in nameless.why
        assert json.loads(nameless.content) == {"item": {"id": "9"}}
        (twin,) = (row for row in rows.values() if row.status == "conflict")
        assert twin.why == "two items of one answer are x by seen_by, and differ; only the first counts"
        asked = [seen.query["since"] for seen in ground.shop.requests if seen.path == "/contacts"]
        assert asked == sorted(asked)
        assert asked[0] < iso(before)


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (failing(503), "shop.contacts: "),
        (Say(json={"items": "none"}), "shop.contacts"),
        (Say(json={}), "shop.contacts"),
        (Say(json=[]), "shop.contacts"),
        (Say(raw=b"<html>"), "shop.contacts: "),
        (Say(status=429, json={}, headers={"Retry-After": "7"}), "shop.contacts: "),
    ],
)
async def test_an_answer_that_is_none_takes_nothing_and_says_so(tmp_path: Path, say: Say, why: str) -> None:
    async with polling(tmp_path) as (ground, engine, polls):
        await ask(engine, polls)
        put(ground, 1)
        (armed,) = engine.driver.triggers.active.all("poll")
        before = engine.store.ask(cursor(place_of(armed)))
        ground.shop.script("GET /contacts", say)
        with pytest.raises(poll.Failed, match=why) as caught:
            await ask(engine, polls)
        assert caught.value.after == (7 * SECOND if say.status == 429 else 0)
        assert "\n" not in str(caught.value)
        assert engine.store.ask(cursor(place_of(armed))) == before
        await ask(engine, polls)
        assert started(engine) == ["1"]


async def test_too_many_items_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "MOST_ITEMS", 10)
    async with polling(tmp_path) as (ground, engine, polls):
        put(ground, *range(11))
        with pytest.raises(poll.Failed, match="answered with 11 items; at most 10 are taken"):
            await ask(engine, polls)


async def test_a_list_in_pages_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    pages: list[dict[str, Any]] = [
        {"items": [{"id": "1"}, {"id": "2"}], "next": "b"}, {"items": [{"id": "3"}, {"id": "4"}], "next": None},
    ]  # fmt: skip
    flow = FRESH.replace("shop.contacts", "shop.paged").replace("item.name", "item.id")
    async with polling(tmp_path, flow) as (ground, engine, polls):
        await ask(engine, polls)
        ground.shop.script("GET /contacts", *[Say(json=page) for page in pages])
        await ask(engine, polls)
        assert started(engine) == ["1", "2", "3", "4"]
        pages[1]["items"] = [{"id": "5"}, {"id": "6"}, {"id": "7"}]
        ground.shop.script("GET /contacts", *[Say(json=page) for page in pages])
        with pytest.raises(poll.Failed, match="shop.paged has more than the 4 items it may list, so nothing was taken"):
            await ask(engine, polls)
        assert started(engine) == ["1", "2", "3", "4"]


async def test_a_poll_stands_in_its_connections_line(tmp_path: Path) -> None:
    async with polling(tmp_path, FRESH, limit="at_once: 1, rate: 2 per 1 s") as (ground, engine, polls):
        await ask(engine, polls)
        begun = asyncio.get_running_loop().time()
        for _ in range(3):
            await ask(engine, polls)
        assert asyncio.get_running_loop().time() - begun > 0.9
        assert engine.driver.engine.limits.usage()["shop"]["waiting"] == 0
        engine.driver.engine.limits.hold("connection:shop", "person:tom")
        waits = asyncio.create_task(ask(engine, polls))
        await until(lambda: engine.store.ask(troubles))
        assert "held by person:tom" in next(iter(engine.store.ask(troubles).values()))
        asked = ground.asked("/contacts", "GET")
        await asyncio.sleep(0.1)
        assert ground.asked("/contacts", "GET") == asked
        engine.driver.engine.limits.release("connection:shop")
        await waits
        assert ground.asked("/contacts", "GET") == asked + 1


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls come more often than a flow may say, and are tried again sooner."""
    monkeypatch.setattr(incoming, "SHORTEST", 10)
    monkeypatch.setattr(poll, "FIRST_PAUSE", 40)


@pytest.mark.usefixtures("often")
async def test_it_polls_by_itself_says_what_is_wrong_and_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path, OFTEN, text=connector(more=LISTS)) as ground:
        put(ground, 1)
        async with serving(ground) as engine:
            await until(lambda: ground.asked("/contacts", "GET") > 2)
            ground.shop.script("GET /contacts", *[failing(503)] * 3)
            await until(lambda: engine.store.ask(troubles))
            ((place, why),) = engine.store.ask(troubles).items()
            assert place.startswith("poll:shop.contacts:fresh:")
            assert why.startswith("shop.contacts: ")
            put(ground, 2)
            await until(lambda: ground.shop.world.effects and not engine.store.ask(troubles))
            ground.shop.script("GET /contacts", HELD)
            asked = ground.asked("/contacts", "GET")
            await until(lambda: ground.asked("/contacts", "GET") == asked + 1)
            await asyncio.sleep(0.3)
            assert ground.asked("/contacts", "GET") == asked + 1, "a poll never overlaps itself"
            ground.shop.release()
            ground.write(OFTEN.replace("shop.contacts", "shop.contacts\n    with: { since: anew }"))
            put(ground, 3)
            await until(lambda: any(seen.query.get("since") == "anew" for seen in ground.shop.requests))
        count = ground.shop.request_count
        await asyncio.sleep(0.2)
        assert ground.shop.request_count == count, "it stops with the engine"


@pytest.mark.usefixtures("often")
async def test_what_comes_while_nobody_polls_is_taken_later(tmp_path: Path) -> None:
    async with opened(tmp_path, OFTEN, text=connector(more=LISTS)) as ground:
        put(ground, 1)
        async with serving(ground) as engine:
            await until(lambda: ground.asked("/contacts", "GET") > 1)
        put(ground, 2, 3)
        async with serving(ground) as engine:
            await until(lambda: len(ground.shop.world.effects) == 2)
            assert started(engine) == ["2", "3"]


@pytest.mark.crash
async def test_killed_again_and_again_every_item_has_exactly_one_run(tmp_path: Path) -> None:
    flow = FRESH.replace("    every: 10 s\n", "")  # the other process asks as often as it can
    async with opened(tmp_path, flow, text=connector(more=LISTS)) as ground:
        async with ground.engine() as engine:
            await engine.driver.triggers.active.look()
            await ask(engine, Polls(engine.driver.triggers))
        put(ground, *range(120))
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.triggers.serving", str(ground.folder), "now", env=environment(), cwd=ROOT
            )
            try:
                seen = len(ground.shop.world.effects)
                await until(lambda seen=seen: len(ground.shop.world.effects) > seen)  # type: ignore[misc]
                os.kill(process.pid, signal.SIGKILL)
            finally:
                await put_away(process)
        async with serving(ground) as engine:
            (armed,) = engine.driver.triggers.active.all("poll")
            polls = Polls(engine.driver.triggers)
            await polls.take(place_of(armed), armed, await polls._begin(place_of(armed), armed))
            await until(lambda: len({str(effect.body["note"]) for effect in ground.shop.world.effects}) == 120)
            assert len(ground.shop.world.effects) == 120
            assert started(engine) == sorted(str(number) for number in range(120))
            assert len({row.run for row in arrivals(engine, limit=500)}) == 120
