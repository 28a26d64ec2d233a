"""What breaks around the engine: a service that is not there, a secret, a connection, a disk, a defect of our own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import outside
from runner.core import events as e
from runner.engine import carrier, embedded
from runner.engine.carrier import Carrier
from runner.engine.driven import Rest
from runner.errors import SecretMissing, StoreUnwritable
from runner.store.facts import RunFilter
from tests.cases.ground import connector, first, flow, intents, kinds_of, opened, until
from tests.support.says import Say, failing, late
from tests.support.smtp_service import SmtpScript

TRIP = flow(
    "trip",
    """  - id: reserve
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 1 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
""",
    on_failure="review",
)
OWN = flow(
    "own",
    """  - id: deal
    do: shop.deal
    with: { note: x }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: own
    do: records.create
    with: { collection: people, name: "${{ inputs.name }}" }
    compensate: { none: It only counts. }
  - id: after
    do: shop.log
    with: { note: "${{ steps.own.id }}" }
    compensate: { none: It only counts. }
""",
)
LETTERS = flow(
    "letters",
    """  - id: letters
    do: mail.send
    timeout: 3000 ms
    retry: { tries: 3, pause: 20 ms, growth: none }
    with: { to: [one@acme.example, two@acme.example], subject: Hello, text: Hello }
    unattended: It only says hello.
    compensate: { none: It only says hello. }
""",
)
BEARER = "auth: { bearer: token }\n"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "AFTER_FAULT", 0.05)


# --- services, secrets, connections --------------------------------------------------------------------------------


async def test_a_service_that_is_not_there_is_a_failure_with_nothing_sent(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        await ground.shop.stop()
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.at_step, view.stands) == ("needs_person", "reserve", 0)
        assert "cannot be connected to" in view.waiting_for
        assert kinds_of(engine.events(view.run)).count("CallNotSent") == 4
        await ground.shop.start()
        assert (await engine.order(view.run, "retry")).status == "succeeded"
        assert ground.effects() == ["/reserve", "/charge"]
        engine.holds(view.run)


async def test_a_secret_that_is_missing_is_told_and_can_be_set_while_the_engine_runs(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP, text=connector(auth=BEARER)) as ground:
        ground.connect("token: { secret: SHOP_TOKEN }")
        secrets = ground.folder / ".env"
        ground.shop.script("POST /charge", Say(status=503, json={}, headers={"Retry-After": "0.3"}, done=False))
        async with ground.engine() as engine:
            with pytest.raises(SecretMissing, match='the secret "SHOP_TOKEN" is not set'):
                await engine.start("trip", "k1", name="Aya")
            assert len(engine.store.runs(RunFilter())) == 0, "what cannot be sent is not begun"
            secrets.write_text("SHOP_TOKEN=tok-1234567890\n")
            run = await engine.start("trip", "k1", name="Aya")
            await engine.until(run, "waiting")
        secrets.unlink()
        async with ground.engine() as engine:
            view = await engine.rest(run)
            assert (view.status, view.at_step, ground.asked("/charge")) == ("needs_person", "charge", 1)
            assert 'the secret "SHOP_TOKEN" is not set' in view.waiting_for
            secrets.write_text("SHOP_TOKEN=tok-0987654321\n")
            assert (await engine.order(run, "retry")).status == "succeeded"
            engine.holds(run)
        assert [seen.headers["authorization"][-10:] for seen in ground.shop.requests] == [
            "1234567890", "1234567890", "0987654321",
        ]  # fmt: skip


async def test_a_connection_that_is_gone_between_two_attempts_is_told_and_not_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground:
        ground.shop.script("POST /charge", failing(500))
        lines = ground.folder / "connections.yaml"
        whole = lines.read_text()
        text = TRIP.replace("amount: 1 }\n", "amount: 1 }\n    retry: { tries: 3, pause: 200 ms, growth: none }\n")
        ground.write(text)
        async with ground.engine() as engine:
            run = await engine.start("trip", "k1", name="Aya")
            await until(lambda: "TimerSet" in kinds_of(engine.events(run)))
        lines.write_text("\n".join(line for line in whole.split("\n") if not line.startswith("shop:")))
        async with ground.engine() as engine:
            view = await engine.rest(run)
            assert (view.status, view.at_step) == ("needs_person", "charge")
            lines.write_text(whole)
            assert (await engine.order(run, "happened", output={"id": "charge-1", "note": "x"})).status == "succeeded"
            engine.holds(run)
            told = [one for one in engine.events(run) if isinstance(one, e.CallNotSent)]
            assert {one.summary for one in told} == {
                'connections.yaml has no usable line "shop", and this run needs it'
            }
        assert ground.effects() == ["/reserve", "/charge"] or ground.effects() == ["/reserve"]


# --- our own defects -----------------------------------------------------------------------------------------------


async def test_a_defect_loses_no_answer_that_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "AFTER_DEFECT", 100)
    broken: list[int] = []
    advance = vars(carrier)["advance"]

    def advancing(*args: Any, **words: Any) -> Any:
        if any(isinstance(one, e.CallApplied) for one in words["reported"]) and not broken:
            broken.append(1)
            raise RuntimeError("a planted defect")
        return advance(*args, **words)

    monkeypatch.setattr(carrier, "advance", advancing)
    script = SmtpScript(after_dot=["ok", "delay 300"])
    async with opened(tmp_path, LETTERS, script=script) as ground, ground.engine() as engine:
        run = await engine.start("letters", "k1", name="Aya")
        await engine.until(run, "succeeded")
        assert broken
        assert kinds_of(engine.events(run)).count("CallApplied") == 2
        assert "CallUnknown" not in kinds_of(engine.events(run)), "what was on its way got its answer"
        assert sorted(ground.post.copies.values()) == [1, 1]
        engine.holds(run)
    assert "cannot be driven on" in caplog.text


async def test_who_watches_a_run_waits_while_the_store_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that watches was told that the run rests, was handed one that runs, and ended with the code of defects."""
    refusals = [1, 1]
    carry = Carrier.carry

    async def carrying(engine: Carrier, *args: Any) -> Rest:
        if refusals:
            refusals.pop()
            raise StoreUnwritable("locked by another program for over 5 s")
        return await carry(engine, *args)

    monkeypatch.setattr(Carrier, "carry", carrying)
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        run = await engine.start("trip", "k1", name="Aya")
        assert (await engine.driver.follow(run, lambda: None)).status == "succeeded"
        assert not refusals


async def test_who_watches_a_run_that_meets_a_defect_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carrying(engine: Carrier, *args: Any) -> Rest:
        raise RuntimeError("a planted defect")

    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        monkeypatch.setattr(Carrier, "carry", carrying)
        run = await engine.start("trip", "k1", name="Aya")
        assert (await engine.driver.follow(run, lambda: None)).status == "queued"


async def test_a_connector_that_raises_has_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        outside = engine.driver.outside
        connect = outside.connector

        class Raising:
            def __getattr__(self, name: str) -> Any:
                return getattr(connect(self.bundle, "shop"), name)

            async def send(self, *args: Any, **words: Any) -> Any:
                await connect(self.bundle, "shop").send(*args, **words)
                raise KeyError("a planted defect")

            def __init__(self, bundle: Any) -> None:
                self.bundle = bundle

        monkeypatch.setattr(outside, "connector", lambda bundle, name: Raising(bundle))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.at_step) == ("needs_person", "reserve")
        assert view.waiting_for == "The connector broke off: KeyError."
        assert len(ground.made("/reserve")) == 1
        engine.holds(view.run)


async def test_one_run_that_cannot_be_read_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "AFTER_DEFECT", 100)
    broken = [1]
    restore = vars(outside)["restore"]
    async with opened(tmp_path, TRIP, OWN) as ground:
        ground.shop.script("POST /charge", Say(status=503, json={}, headers={"Retry-After": "0.5"}, done=False))
        async with ground.engine() as engine:
            bad = await engine.start("trip", "k1", name="Aya")
            digest = (await engine.until(bad, "waiting")).bundle

        def restoring(wanted: str, texts: Any) -> Any:
            if wanted == digest and broken:
                raise RuntimeError("a planted defect")
            return restore(wanted, texts)

        monkeypatch.setattr(outside, "restore", restoring)
        async with ground.engine() as engine:
            assert (await engine.run("own", "k2", name="Aya")).status == "succeeded"
            await until(lambda: f"run {bad} cannot be driven on" in caplog.text)
            broken.clear()
            await engine.until(bad, "succeeded")
            engine.holds(bad)


@pytest.mark.embedded_only("a cluster's timers wake runs, not an alarm of ours")
@pytest.mark.parametrize("later", range(4))
async def test_an_engine_that_is_stopped_as_an_alarm_comes_stops(tmp_path: Path, later: int) -> None:
    async with opened(tmp_path, OWN) as ground, ground.engine() as engine:
        own = engine.embedded
        await asyncio.sleep(0.01)
        own._alarm.set(0)
        for _ in range(later):
            await asyncio.sleep(0)
        await asyncio.wait_for(own.stop(), 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("nth", range(1, 5))
async def test_a_commit_in_doubt_repeats_no_call_and_leaves_none_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The nth commit is kept, and an error is answered all the same."""
    async with opened(tmp_path, OWN) as ground, ground.engine() as engine:
        append, met = engine.store.append, 0

        async def appending(what: Any) -> Any:
            nonlocal met
            told = await append(what)
            met += 1
            if met == nth:
                raise StoreUnwritable("a planted error")
            return told

        monkeypatch.setattr(engine.store, "append", appending)
        run = await engine.start("own", "k1", name="Aya")
        await engine.until(run, "succeeded")
        await engine.driver.engine.rest(run)  # the commit is seen before the engine has its answer
        assert met >= 4
        assert ground.effects() == ["/deal", "/log"]
        engine.holds(run)


# --- the disk ------------------------------------------------------------------------------------------------------


class Disk:
    """A small disk of its own that can be filled to the last byte and freed again."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self) -> None:
        """Takes all that is free."""
        with self._ballast.open("wb") as out:
            room = os.statvfs(self.place)
            os.posix_fallocate(out.fileno(), 0, room.f_bavail * room.f_frsize)

    def free(self) -> None:
        self._ballast.unlink()


ON_DISK = pytest.mark.embedded_only("the disk that is full is its file's, not that of a database server")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=51m", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    yield Disk(place)
    subprocess.run(["umount", str(place)], check=True)


@ON_DISK
@pytest.mark.usefixtures("quick")
async def test_an_outcome_is_kept_until_there_is_room_and_nothing_else_is_begun(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(disk.place, TRIP, text=connector(limit=5_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", late(400))
        run = await engine.start("trip", "k1", name="Aya")
        await until(lambda: ground.asked("/reserve") == 1)
        disk.fill()
        await asyncio.sleep(0.8)
        assert ground.effects() == ["/reserve"], "no intent is durable, so no call leaves"
        assert kinds_of(engine.events(run))[-1] == "CallIntended"
        assert "free some space" in caplog.text
        with pytest.raises(StoreUnwritable, match="free some space"):
            await engine.start("trip", "k2", name="Aya")
        disk.free()
        await engine.until(run, "succeeded")
        assert first(engine.events(run), e.CallApplied).output["id"] == "reserve-1"
        assert [one.attempt for one in intents(engine.events(run), "reserve")] == [1]
        assert ground.effects() == ["/reserve", "/charge"]
        engine.holds(run)


@ON_DISK
@pytest.mark.usefixtures("quick")
async def test_our_own_tables_wait_for_room_too(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(disk.place, OWN, text=connector(limit=5_000)) as ground, ground.engine() as engine:
        met: list[int] = []
        carry_out = engine.store.carry_out

        async def carrying(*args: Any) -> Any:
            if not met:
                met.append(1)
                disk.fill()
                asyncio.get_running_loop().call_later(0.4, disk.free)
            return await carry_out(*args)

        monkeypatch.setattr(engine.store, "carry_out", carrying)
        run = await engine.start("own", "k1", name="Aya")
        await engine.until(run, "succeeded")
        assert met
        assert kinds_of(engine.events(run)).count("CallApplied") == 3
        engine.holds(run)


@ON_DISK
@pytest.mark.usefixtures("quick")
async def test_an_engine_ends_on_a_full_disk_and_the_next_one_asks(disk: Disk) -> None:
    async with opened(disk.place, TRIP, text=connector(limit=5_000)) as ground:
        text = TRIP.replace("shop.reserve", "shop.post").replace(
            "    compensate: { cancel: shop.release",
            "    unattended: x\n    accept_order: x\n    compensate: { cancel: shop.release",
        )
        ground.write(text)
        async with ground.engine() as engine:
            ground.shop.script("POST /post", late(300))
            run = await engine.start("trip", "k1", name="Aya")
            await until(lambda: ground.asked("/post") == 1)
            disk.fill()
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await engine.driver.engine.stop(grace=0.2)
            assert time.monotonic() - began < 2
        disk.free()
        async with ground.engine() as engine:
            view = await engine.rest(run)
            assert (view.status, view.at_step) == ("needs_person", "reserve")
            assert len(ground.made("/post")) == 1
            engine.holds(run)
