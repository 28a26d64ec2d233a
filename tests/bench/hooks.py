"""Webhooks under kills: many senders, each delivery sent until it is answered 2xx, while the server is killed (-9).

`python -m tests.bench hooks` is the long form: 10,000 deliveries of 500 events by 20 senders, five kills, 1,000 forged
and 500 stale ones among them. There must be one run for each event, and none for anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select

from runner.app import Amends
from runner.store.arrivals import listed
from runner.store.tables import records as records_table
from tests.cli.terminal import Running, Said
from tests.support.ports import free_port

KEY = b"the-secret-of-the-shop"
FLOW = """\
flow: orders
title: An order that was paid
owner: person:me
mode: live
run_key: ${{ trigger.id }}
trigger:
  webhook: orders
  signed_by: shop
  id: ${{ body.no }}
inputs: { no: text }
steps:
  - id: noted
    do: records.create
    with: { collection: orders, no: "${{ inputs.no }}" }
    compensate: cancel
"""
RECORDS = select(records_table.c.data).where(records_table.c.collection == "orders")
PATIENCE = 60.0
"""Seconds in which a delivery must be answered, kills included."""


@dataclass(kw_only=True)
class Storm:
    """What is sent, and what was seen. Times are s."""

    deliveries: int
    events: int
    senders: int
    kills: int
    forged: int
    stale: int
    gently: bool = False
    """The server is asked to end (SIGTERM) instead of being killed."""
    acknowledged: set[str] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    """Deliveries whose connection broke, so that they were sent again."""
    slowest: float = 0.0
    took: float = 0.0
    runs: int = 0
    wrong: list[str] = field(default_factory=list)


def make_project(folder: Path) -> None:
    """A project with one hook; its own tables are the outside."""
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text("project: shop\nzone: UTC\n", encoding="utf-8")
    (folder / "flows" / "orders.yaml").write_text(FLOW, encoding="utf-8")
    line = "shop: { connector: webhook, scheme: standard, secret: { secret: SHOP_HOOK } }\n"
    (folder / "connections.yaml").write_text(line, encoding="utf-8")
    (folder / ".env").write_text(f"SHOP_HOOK=whsec_{base64.b64encode(KEY).decode()}\n", encoding="utf-8")


def request(no: str, *, key: bytes = KEY, age: int = 0) -> bytes:
    """A delivery as it goes over the wire."""
    body = json.dumps({"no": no}).encode()
    at = str(int(time.time()) - age)
    made = base64.b64encode(hmac.digest(key, b"%s.%s.%s" % (no.encode(), at.encode(), body), "sha256")).decode()
    head = (
        f"POST /hooks/orders HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nwebhook-id: {no}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: v1,{made}\r\n\r\n"
    )
    return head.encode() + body


class Sender:
    """One client with one connection, which it opens anew when it breaks."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, sent: bytes) -> int:
        """The status that a delivery was answered with. Raises OSError, EOFError where it was not."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        sent = sent.replace(b"host: 127.0.0.1\r\n", b"host: 127.0.0.1:%d\r\n" % self._port)
        try:
            self._writer.write(sent)
            await self._writer.drain()
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await self._reader.readexactly(int(length or 0))
            return int(head.split()[1])
        except (OSError, EOFError):
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def deliver(storm: Storm, sender: Sender, sent: tuple[str, str], end: float) -> None:
    """Sends one delivery until it is answered for good."""
    kind, no = sent
    while time.monotonic() < end:
        made = request(no, key=b"not-the-secret" if kind == "forged" else KEY, age=1200 * (kind == "stale"))
        began = time.monotonic()
        try:
            status = await sender.send(made)
        except (OSError, EOFError):
            storm.lost += 1
            await asyncio.sleep(0.05)
            continue
        storm.slowest = max(storm.slowest, time.monotonic() - began)
        storm.answers[status] += 1
        if status == 200:
            storm.acknowledged.add(no)
        if status != 503:
            return
        await asyncio.sleep(0.05)
    storm.wrong.append(f"{no} was not answered within {PATIENCE:g} s")


async def play(storm: Storm, folder: Path, seed: int) -> None:
    """Sends everything, and kills the server at even distances on the way."""
    chance = random.Random(seed)
    waiting = [("right", f"evt-{number % storm.events}") for number in range(storm.deliveries)]
    waiting += [("forged", f"forged-{number}") for number in range(storm.forged)]
    waiting += [("stale", f"stale-{number}") for number in range(storm.stale)]
    chance.shuffle(waiting)
    marks = [len(waiting) * number // (storm.kills + 1) for number in range(storm.kills, 0, -1)]
    port, is_due = free_port(), asyncio.Event()
    serving = [await asyncio.to_thread(Running, "serve", "--port", str(port), folder=folder)]

    async def send() -> None:
        sender = Sender(port)
        while waiting:
            await deliver(storm, sender, waiting.pop(), time.monotonic() + PATIENCE)
            if marks and len(waiting) <= marks[0]:
                is_due.set()
        sender.close()

    async def kill() -> None:
        while marks:
            await is_due.wait()
            if storm.gently:
                storm.wrong += ended_badly(await asyncio.to_thread(serving[-1].end))
            else:
                serving[-1].process.kill()
                await asyncio.to_thread(serving[-1].process.communicate)
            marks.pop(0)
            is_due.clear()
            serving.append(await asyncio.to_thread(Running, "serve", "--port", str(port), folder=folder))

    began = time.monotonic()
    try:
        await asyncio.gather(kill(), *(send() for _ in range(storm.senders)))
        storm.took = time.monotonic() - began
        await asyncio.to_thread(rest, folder)
        storm.wrong += ended_badly(await asyncio.to_thread(serving[-1].end))
    finally:
        with serving[-1]:
            pass


def ended_badly(said: Said) -> list[str]:
    """What was wrong with the end of a server that was asked to end."""
    is_good = said.code == 0 and "Traceback" not in said.err
    return [] if is_good else [f"the server ended with {said.code}: {said.err[-400:]}"]


def rest(folder: Path) -> None:
    """Waits until every run has ended."""
    with closing(Amends.open(folder)) as amends:
        end = time.monotonic() + PATIENCE
        while amends.store.open_runs() and time.monotonic() < end:
            time.sleep(0.1)


def judge(storm: Storm, folder: Path) -> None:
    """Looks at what is there now, and says everything that is wrong."""
    with closing(Amends.open(folder)) as amends:
        found, expected = amends.every_run(), {f"evt-{number}" for number in range(storm.events)}
        rows = amends.store.ask(listed(limit=storm.events * 2))
        made = amends.store.ask(lambda connection: [json.loads(row) for row in connection.execute(RECORDS).scalars()])
        faults = amends.store.verify()
    storm.runs = len(found)
    keys, records = Counter(run.run_key for run in found), Counter(str(row["no"]) for row in made)
    for what, wrong in (
        ("events with more than one run", [key for key, count in keys.items() if count > 1]),
        ("acknowledged events without a run", storm.acknowledged - set(keys)),
        ("events without a run", expected - set(keys)),
        ("runs of what was never proved", set(keys) - expected),
        ("runs that did not succeed", [run.run for run in found if run.status != "succeeded"]),
        ("events with more or less than one record", [no for no in expected if records[no] != 1]),
        ("arrivals that are no more than that", [row.id for row in rows if row.status != "started"]),
        ("faults of the action log", [str(fault) for fault in faults]),
    ):
        if wrong:
            storm.wrong.append(f"{len(wrong)} {what}: {', '.join(sorted(wrong)[:3])}")
    if storm.answers[401] != storm.forged + storm.stale:
        storm.wrong.append(f"{storm.answers[401]} deliveries were turned away, not {storm.forged + storm.stale}")


def played(storm: Storm, seed: int = 0) -> Storm:
    """The storm over a project of its own, and what was seen."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shop"
        make_project(folder)
        asyncio.run(play(storm, folder, seed))
        judge(storm, folder)
    return storm


def told(storm: Storm) -> str:
    """The figures in one line."""
    sent = storm.deliveries + storm.forged + storm.stale
    return (
        f"{sent:,} deliveries of {storm.events} events, {storm.senders} senders, {storm.kills} kills: {storm.runs} runs, "
        f"{len(storm.acknowledged)} events acknowledged, {storm.answers[401]:,} turned away, {storm.lost} sent again after a "
        f"broken connection, {storm.answers[503]} after 503; {storm.took:.1f} s, {sent / storm.took:.0f} a second, the "
        f"slowest answer {storm.slowest * 1000:.0f} ms"
    )


def main(arguments: Sequence[str]) -> int:
    """Prints the figures, and whatever was wrong."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench hooks", description="Webhooks under kills.")
    for name, usual in (("deliveries", 10_000), ("events", 500), ("senders", 20), ("kills", 5), ("forged", 1_000)):
        asked.add_argument(f"--{name}", type=int, default=usual)
    asked.add_argument("--stale", type=int, default=500)
    storm = played(Storm(**vars(asked.parse_args(arguments))))
    print(told(storm))
    for wrong in storm.wrong:
        print(f"wrong: {wrong}", file=sys.stderr)
    return 1 if storm.wrong else 0
