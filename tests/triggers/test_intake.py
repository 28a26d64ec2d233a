"""What comes to a trigger starts its run once, or it stands there why it did not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runner.core import events as e
from runner.errors import StoreUnwritable
from runner.store.arrivals import MOST_CONTENT, Arrived, cursor
from runner.store.facts import RunFilter
from runner.store.log import SITE
from runner.triggers.intake import UNTOLD, Coming
from tests.cases.ground import Engine
from tests.triggers.ground import arrivals, served, starts, take

ORDERS = starts("orders", "  - event: order.came\n    id: ${{ event.no }}\n    only_if: ${{ event.kind == 'paid' }}\n")
NEWEST = starts(
    "newest", "  - event: stock.changed\n    entity: ${{ event.sku }}\n    order_by: ${{ event.at }}\n    fill: { name: \"${{ event.sku }}\" }\n"
)  # fmt: skip


def paid(no: str, name: str = "Ada") -> dict[str, str]:
    return {"no": no, "kind": "paid", "name": name}


def facts(engine: Engine, kind: type[e.SiteEvent]) -> list[e.SiteEvent]:
    return [row.event for row in engine.store.log(SITE) if isinstance(row.event, kind)]


async def test_an_event_is_one_run_however_often_it_comes(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (ground, engine):
        first = await take(engine, "event", "order.came", "d1", event=paid("7"))
        again = await take(engine, "event", "order.came", "d1", event=paid("7"))
        assert [(one.status, one.is_new) for one in (*first, *again)] == [("started", True), ("started", False)]
        assert first[0].run == again[0].run
        run = await engine.rest(first[0].run)
        assert (run.status, run.run_key) == ("succeeded", "7")
        started = next(event for event in engine.events(run.run) if isinstance(event, e.RunStarted))
        assert started.trigger["event"] == "order.came"
        assert started.trigger["id"] == "7"
        assert ground.effects() == ["/log"]
        (row,) = arrivals(engine)
        assert (row.source, row.id, row.status, row.run, row.content) == (
            "event:order.came", "7", "started", run.run, "",
        )  # fmt: skip


async def test_many_at_once_are_one_run(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        told = [take(engine, "event", "order.came", "d", event=paid(str(n % 5))) for n in range(100)]
        took = [one for several in await asyncio.gather(*told) for one in several]
        assert len({one.run for one in took}) == 5
        assert sum(one.is_new for one in took) == 5
        assert len(engine.store.runs(RunFilter())) == 5


async def test_two_flows_start_from_one_event(tmp_path: Path) -> None:
    other = starts("mirror", "  - event: order.came\n    id: ${{ event.no }}\n")
    async with served(tmp_path, ORDERS, other) as (_, engine):
        took = await take(engine, "event", "order.came", "d", event={**paid("7"), "kind": "open"})
        assert [(one.flow, one.status) for one in took] == [("mirror", "started"), ("orders", "ignored")]
        (ignored,) = facts(engine, e.DeliveryIgnored)
        assert ignored.name == "orders"
        assert "only_if says no" in str(ignored.data["why"])


async def test_the_same_id_with_other_content_is_kept_and_told(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        (first,) = await take(engine, "event", "order.came", "d", event=paid("7"))
        for _ in range(2):
            (other,) = await take(engine, "event", "order.came", "d", event=paid("7", "Eve"))
            assert (other.status, other.run) == ("conflict", first.run)
        kept, _ = sorted(arrivals(engine), key=lambda row: row.status)
        assert kept.id.startswith("7#")
        assert '"Eve"' in kept.content
        assert first.run in kept.why
        assert len(facts(engine, e.DeliveryConflict)) == 1
        assert len(engine.store.runs(RunFilter())) == 1


async def test_what_does_not_fit_is_kept_and_may_come_again(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (ground, engine):
        (wrong,) = await take(engine, "event", "order.came", "d", event={"no": "7", "kind": "paid"})
        assert wrong.status == "refused"
        assert "name" in wrong.why
        assert '"no":"7"' in arrivals(engine)[0].content
        ground.write(starts("orders", "  - event: order.came\n    id: ${{ event.no }}\n    fill: { name: none }\n"))
        assert await engine.driver.triggers.active.look()
        (mended,) = await take(engine, "event", "order.came", "d", event={"no": "7", "kind": "paid"})
        assert (mended.status, mended.is_new) == ("started", True)
        assert [row.status for row in arrivals(engine)] == ["started"]


async def test_what_does_not_fit_and_is_personal_is_not_quoted(tmp_path: Path) -> None:
    inputs = (
        "{ name: text, mail: { email: null, personal: true }, of: { list: { age: { number: null, personal: true } } } }"
    )
    flow = starts("orders", "  - event: order.came\n    id: ${{ event.no }}\n", inputs=inputs)
    async with served(tmp_path, flow) as (_, engine):
        for no, event, why in (
            (
                "1",
                {"mail": "eve at home", "of": [{"age": "old"}], "name": 7},
                "name: must be a text, not 7; mail: UNTOLD; of: UNTOLD",
            ),
            ("2", {"name": "Ada", "of": []}, "mail: is required and has no value"),
        ):
            (took,) = await take(engine, "event", "order.came", "d", event={"no": no, **event})
            assert (took.status, took.why) == ("refused", why.replace("UNTOLD", UNTOLD))
        told = " ".join(str(fact.data) for fact in facts(engine, e.DeliveryIgnored))
        assert UNTOLD in told
        assert "at home" not in told


async def test_an_expression_without_a_value_is_no_run(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        (took,) = await take(engine, "event", "order.came", "d9", event={"kind": "paid"})
        assert took.status == "refused"
        assert "event.no" in took.why
        assert arrivals(engine)[0].id == "d9"


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ((1, 3, 2, 3), ["started", "started", "superseded", "started"]),
        (("2026-11-29T10:00:00+09:00", "2026-11-29T00:30:00+00:00"), ["started", "superseded"]),
        (("v1", "v3", "v2"), ["started", "started", "superseded"]),
    ],
)
async def test_an_older_event_of_an_entity_is_set_aside(
    tmp_path: Path, positions: tuple[object, ...], expected: list[str]
) -> None:
    async with served(tmp_path, NEWEST) as (_, engine):
        took: list[Arrived] = []
        for n, at in enumerate(positions):
            took += await take(engine, "event", "stock.changed", f"d{n}", event={"sku": "A", "at": at})
        assert [one.status for one in took] == expected
        (other,) = await take(engine, "event", "stock.changed", "other", event={"sku": "B", "at": positions[0]})
        assert other.status == "started"
        late = [row for row in arrivals(engine) if row.status == "superseded"]
        assert all(row.content and "newer" in row.why for row in late)


async def test_a_page_and_its_cursor_are_kept_together(tmp_path: Path) -> None:
    flow = starts("fresh", '  - event: shop.fresh\n    fill: { name: "${{ event.id }}" }\n')
    async with served(tmp_path, flow) as (_, engine):
        (armed,) = engine.driver.triggers.active.all("event")
        intake = engine.driver.triggers.intake
        page = [(armed, Coming(id=f"i{n}", digest=f"{n}", names={"event": {"id": f"i{n}"}})) for n in range(20)]
        took = await intake.take_all(page, cursor=("poll:x", "20"))
        assert all(one.status == "started" for one in took)
        assert engine.store.ask(cursor("poll:x")) == "20"
        again = await intake.take_all(page, cursor=("poll:x", "21"))
        assert not any(one.is_new for one in again)
        assert engine.store.ask(cursor("poll:x")) == "21"


async def test_a_short_disk_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        monkeypatch.setattr(engine.store, "_floor", 1 << 60)
        with pytest.raises(StoreUnwritable, match="no new run is started"):
            await take(engine, "event", "order.came", "d", event=paid("7"))
        assert not arrivals(engine)


async def test_a_page_goes_on_behind_the_last_one_even_within_one_millisecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = starts("mirror", "  - event: order.came\n    id: ${{ event.no }}\n")
    async with served(tmp_path, ORDERS, other) as (_, engine):
        now = engine.driver.triggers.clock.now()
        monkeypatch.setattr(engine.driver.triggers.clock, "now", lambda: now)
        for number in range(5):
            await take(engine, "event", "order.came", "d", event=paid(str(number)))
        seen: list[tuple[str, str]] = []
        place = None
        while rows := arrivals(engine, limit=3, before=place):
            seen += [(row.flow, row.id) for row in rows]
            place = (rows[-1].at, rows[-1].flow, rows[-1].source, rows[-1].id)
        assert sorted(seen) == sorted((flow, str(number)) for flow in ("mirror", "orders") for number in range(5))
        assert {row.at for row in arrivals(engine)} == {now}


async def test_kept_content_is_bounded(tmp_path: Path) -> None:
    async with served(tmp_path, ORDERS) as (_, engine):
        await take(engine, "event", "order.came", "d", event={"kind": "paid", "no": "1", "x": "y" * 100_000})
        assert len(arrivals(engine)[0].content) == MOST_CONTENT
