"""Three hosts in network namespaces of their own; one is cut off from the others and healed: nothing is lost or doubled.

PostgreSQL, Temporal and the service stand outside, behind doors on the bridge that joins the hosts. Needs root, `ip` and
the right to make namespaces.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.hosts import Hosts
from tests.support.postgres import running_postgres
from tests.support.processes import HttpProcess
from tests.support.says import late
from tests.support.temporal import running_temporal
from tests.support.tls_door import tls_door
from tests.trust.figures import Figures

HOSTS = ("one", "two", "three")
NET = f"10.{100 + os.getpid() % 100}.77"


def ip(*words: str) -> None:
    """One command of iproute2. Raises CalledProcessError."""
    subprocess.run(("ip", *words), check=True, capture_output=True, timeout=20)


def name_of(host: str) -> str:
    """The namespace of a host."""
    return f"am{os.getpid()}{host}"


def why_not() -> str:
    """Why there can be no namespaces here; empty where there can."""
    if shutil.which("ip") is None:
        return "there is no `ip`"
    try:
        ip("netns", "add", name_of("try"))
        ip("netns", "del", name_of("try"))
        ip("link", "add", f"am{os.getpid()}", "type", "bridge")
        ip("link", "del", f"am{os.getpid()}")
    except subprocess.CalledProcessError as error:
        return f"namespaces may not be made here: {error.stderr.decode(errors='replace').strip()}"
    return ""


@contextlib.contextmanager
def network() -> Iterator[None]:
    """A bridge with the address NET.1, and each host on it with NET.10 and so on."""
    bridge = f"am{os.getpid()}"
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{NET}.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, host in enumerate(HOSTS):
            inside, outside = f"i{number}", f"{bridge}{number}"
            ip("netns", "add", name_of(host))
            ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name_of(host))
            ip("link", "set", outside, "master", bridge, "up")
            for words in (
                ("addr", "add", f"{NET}.{10 + number}/24", "dev", inside),
                ("link", "set", inside, "up"),
                ("link", "set", "lo", "up"),
            ):
                ip("-n", name_of(host), *words)
        yield
    finally:
        for host in HOSTS:
            with contextlib.suppress(subprocess.SubprocessError):
                ip("netns", "del", name_of(host))
        with contextlib.suppress(subprocess.SubprocessError):
            ip("link", "del", bridge)


def cut(number: int, *, off: bool) -> None:
    """The host's cable is pulled out, or put in again."""
    ip("link", "set", f"am{os.getpid()}{number}", "down" if off else "up")


def seen_from(folder: Path) -> None:
    """What a host's settings name on 127.0.0.1 it reaches on the bridge."""
    for name in ("amends.yaml", ".env", "connections.yaml"):
        file = folder / name
        file.write_text(file.read_text().replace("127.0.0.1", f"{NET}.1"))


async def play(figures: Figures, runs_at_once: int, seconds: float) -> None:
    """Runs go on while one host is cut off, and after it is healed."""
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(running_postgres(is_durable=True))
        temporal = opened.enter_context(running_temporal())
        shop = opened.enter_context(HttpProcess(keep_requests=False))
        for path in ("/reserve", "/charge"):
            shop.script(f"POST {path}", always=late(500))
        hosts = Hosts(place=place, shop=shop, database=f"{server.address}/postgres", temporal=temporal)
        async with contextlib.AsyncExitStack() as doors:
            for port in (server.port, temporal.port, shop.port):
                await doors.enter_async_context(tls_door(port, None, f"{NET}.1", port))
            workers = []
            for host in HOSTS:
                seen_from(hosts.host(host))
                prefix = ("ip", "netns", "exec", name_of(host))
                workers.append(opened.enter_context(await asyncio.to_thread(hosts.runs, host, prefix=prefix)))
            flows = ("naps",) * runs_at_once
            runs = await hosts.work_for(workers[0], *flows)
            cut(0, off=True)
            figures.say("cut off", f"one of {len(HOSTS)} hosts, {seconds:g} s, in the middle of {len(runs)} runs")
            runs += await hosts.start(*flows)
            await hosts.until(runs, "succeeded")
            figures.say("ended while it was cut off", len(runs))
            await asyncio.sleep(seconds)
            cut(0, off=False)
            before = len(runs)
            runs += await hosts.work_for(workers[0], *flows)
            await hosts.until(runs, "succeeded")
            figures.say("ended after it was healed", len(runs) - before)
            hosts.holds(runs)
            ends = Counter(view.status for view in hosts.views(runs))
        whole = len(runs)
        if ends != {"succeeded": whole}:
            figures.broken([f"the runs ended otherwise: {dict(ends)}"])
        figures.broken([f"twice: {key}" for key in hosts.twice()])
        if hosts.effects() != {"reserve": whole, "charge": whole}:
            figures.broken([f"of {whole} runs there are the effects {dict(hosts.effects())}"])
        figures.floor("effects", sum(hosts.effects().values()), 2 * whole)


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust netns`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust netns", description=__doc__)
    words.add_argument("--runs", type=int, default=40)
    words.add_argument("--seconds", type=float, default=60)
    told = words.parse_args(argv)
    if why := why_not():
        print(f"skipped: {why}")
        return 0
    figures = Figures()
    with network():
        asyncio.run(play(figures, told.runs, told.seconds))
    return figures.code
