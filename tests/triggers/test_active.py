"""One active version of each flow: swapped at one instant, kept where the newer text has problems."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from runner.core import events as e
from runner.store.log import SITE
from tests.cases.ground import Engine, Ground, flow, opened, until
from tests.triggers.ground import served, serving, starts, take

HOOK = "  - event: order.came\n    id: ${{ event.no }}\n"


def versions(engine: Engine) -> list[tuple[str, bool, bool]]:
    """What the log says of the flows: (flow, has a version, has a problem)."""
    told = (row.event for row in engine.store.log(SITE))
    return [
        (event.name, bool(event.data["bundle"]), bool(event.data["problem"]))
        for event in told
        if isinstance(event, e.FlowActivated)
    ]


async def name_of(engine: Engine, no: str) -> str:
    """What a run that starts now writes."""
    (took,) = await take(engine, "event", "order.came", no, event={"no": no, "name": "Ada"})
    await engine.rest(took.run)
    started = next(event for event in engine.events(took.run) if isinstance(event, e.RunStarted))
    return str(started.inputs["name"])


def mend(ground: Ground, fill: str) -> None:
    ground.write(starts("orders", f"{HOOK}    fill: {{ name: {fill} }}\n"))


async def test_a_changed_flow_takes_over_and_a_broken_one_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, starts("orders", HOOK)) as (ground, engine):
        active = engine.driver.triggers.active
        caplog.set_level(logging.INFO, "amends.triggers")
        assert await name_of(engine, "1") == "Ada"
        assert not await active.look()
        mend(ground, "Bob")
        assert await active.look()
        assert re.fullmatch(r"flow orders: version [0-9a-f]{8} is in use now", caplog.messages[-1])
        assert await name_of(engine, "2") == "Bob"
        mend(ground, '"${{ nowhere.at_all }}"')
        assert await active.look()
        assert await name_of(engine, "3") == "Bob"
        assert "flows/orders.yaml:" in active.flows["orders"].problem
        mend(ground, "Eve")
        assert await active.look()
        assert await name_of(engine, "4") == "Eve"
        assert not active.flows["orders"].problem
        assert versions(engine) == [
            ("orders", True, False), ("orders", True, False), ("orders", True, True), ("orders", True, False),
        ]  # fmt: skip


async def test_the_last_good_version_is_there_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, starts("orders", HOOK)) as ground:
        async with serving(ground) as engine:
            assert await name_of(engine, "1") == "Ada"
        mend(ground, '"${{ nowhere.at_all }}"')
        async with serving(ground) as engine:
            assert await name_of(engine, "2") == "Ada"
            assert versions(engine)[-1] == ("orders", True, True)


async def test_a_flow_whose_file_is_gone_starts_no_more(tmp_path: Path) -> None:
    async with served(tmp_path, starts("orders", HOOK), flow("by_hand", "  - { id: s, emit: x.y }\n")) as (
        ground,
        engine,
    ):
        active = engine.driver.triggers.active
        assert [*active.flows] == ["orders"]
        (ground.folder / "flows" / "orders.yaml").unlink()
        assert await active.look()
        assert not active.all()
        assert not await take(engine, "event", "order.came", "d", event={"no": "1"})
        assert versions(engine)[-1] == ("orders", False, False)


async def test_a_flow_that_was_never_fit_is_not_on(tmp_path: Path) -> None:
    broken = starts("orders", f'{HOOK}    fill: {{ name: "${{{{ nowhere.at_all }}}}" }}\n')
    async with served(tmp_path, broken) as (_, engine):
        active = engine.driver.triggers.active
        assert not active.all()
        assert active.flows["orders"].problem


async def test_what_follows_is_told_of_a_change(tmp_path: Path) -> None:
    async with served(tmp_path, starts("orders", HOOK)) as (ground, engine):
        told: list[int] = []
        engine.driver.triggers.active.changed.append(lambda: told.append(1))
        mend(ground, "Bob")
        await engine.driver.triggers.active.look()
        await engine.driver.triggers.active.look()
        assert told == [1]


PEOPLE = "people:\n  aya: { name: Aya Sato, mail: aya@acme.test, language: ja }\n"


async def test_the_owner_is_told_of_a_text_that_is_not_used(tmp_path: Path) -> None:
    flow = starts("orders", HOOK).replace("person:me", "person:aya")
    async with opened(tmp_path, flow) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        settings = ground.folder / "amends.yaml"
        said = settings.read_text() if settings.exists() else ""
        settings.write_text(f"{said}tell_by: mail\n", encoding="utf-8")
        async with serving(ground) as engine:
            broken = starts("orders", f'{HOOK}    fill: {{ name: "${{{{ nowhere.at_all }}}}" }}\n')
            ground.write(broken)
            for _ in range(2):
                await engine.driver.triggers.active.look()
            await until(lambda: ground.post.mails)
            (mail,) = ground.post.mails
            assert "flows/orders.yaml:" in mail.body()
            assert "問題のなかった直前の版" in mail.body()
