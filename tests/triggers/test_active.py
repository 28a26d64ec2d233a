"""One active version of each flow: swapped at one instant, kept where the newer text has problems."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runner.core import events as e
from runner.store.log import SITE
from tests.cases.ground import Engine, Ground, connector, flow, opened, until
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


@asynccontextmanager
async def needing(folder: Path, *, owner: str = "person:me") -> AsyncIterator[tuple[Ground, Engine]]:
    """A project that is served, and its flow needs a secret."""
    flow = starts("orders", HOOK).replace("person:me", owner)
    async with opened(folder, flow, text=connector(auth="auth: { bearer: token }\n")) as ground:
        ground.connect("token: { secret: SHOP_TOKEN }")
        (ground.folder / ".env").write_text("SHOP_TOKEN=tok-1234567890\n", encoding="utf-8")
        (ground.folder / "people.yaml").write_text(PEOPLE.replace("ja", "en"), encoding="utf-8")
        settings = ground.folder / "amends.yaml"
        said = settings.read_text() if settings.exists() else ""
        settings.write_text(f"{said}tell_by: mail\n", encoding="utf-8")
        async with serving(ground) as engine:
            yield ground, engine


async def test_a_secret_that_is_away_for_a_moment_is_no_problem(tmp_path: Path) -> None:
    async with needing(tmp_path) as (ground, engine):
        active, env = engine.driver.triggers.active, ground.folder / ".env"
        told: list[str] = []
        active.broken.append(lambda _bundle, problem, _lacks: told.append(problem))
        said = env.read_text(encoding="utf-8")
        env.unlink()
        looking = asyncio.create_task(active.look())
        await asyncio.sleep(0.3)
        await engine.driver.pin("orders")  # the engine looks at its files meanwhile, and needs the secret
        await name_of(engine, "1")
        env.write_text(said, encoding="utf-8")
        await looking
        await active.look()
        assert (told, active.flows["orders"].problem) == ([], "")


async def test_the_owner_is_told_of_a_secret_that_is_gone_and_not_after_it_is_back(tmp_path: Path) -> None:
    async with needing(tmp_path, owner="person:aya") as (ground, engine):
        active, env = engine.driver.triggers.active, ground.folder / ".env"
        said = env.read_text(encoding="utf-8")
        env.write_text(said.replace("SHOP_TOKEN=", "NOBODY="), encoding="utf-8")
        for _ in range(2):
            await active.look()
        assert 'the secret "SHOP_TOKEN" is not set' in active.flows["orders"].problem
        await until(lambda: ground.post.mails)
        (mail,) = ground.post.mails
        assert "SHOP_TOKEN" in mail.body()
        assert "a secret that it needs is not there any more" in " ".join(mail.body().split())
        assert "the new text" not in mail.body()
        env.write_text(said, encoding="utf-8")
        await active.look()
        assert not active.flows["orders"].problem
        assert await name_of(engine, "1") == "Ada"
        assert len(ground.post.mails) == 1


async def test_half_of_a_file_is_told_to_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, starts("orders", HOOK)) as (ground, engine):
        active, file = engine.driver.triggers.active, ground.folder / "flows" / "orders.yaml"
        told: list[str] = []
        active.broken.append(lambda _bundle, problem, _lacks: told.append(problem))
        said = file.read_text(encoding="utf-8")
        file.write_text(said[: len(said) // 2], encoding="utf-8")
        looking = asyncio.create_task(active.look())
        await asyncio.sleep(0.3)
        file.write_text(said, encoding="utf-8")
        await looking
        assert (told, active.flows["orders"].problem) == ([], "")
