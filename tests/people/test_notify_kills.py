"""The engine is killed between the commit and the mail, and between the mail and its mark."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.people.office import make_office
from tests.people.test_notify import FLOWS, Turned, resumed
from tests.support.smtp_service import SmtpScript, SmtpService

CHILD = """\
import asyncio, sys
from pathlib import Path
from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.store.lock import EngineLock
from tests.people.office import KINDS

async def main(folder):
    project, lock = Project.open(folder, kinds=KINDS), EngineLock(folder)
    assert lock.acquire()
    driver = OwnDriver(project, MachineClock(), lock)
    async with driver.running(settles=False):
        begun = await driver.start("asking", Wish(given={"text": "Hello"}, key="k", starter="person:root"))
        await driver.engine.rest(begun.run)
        print(begun.run, flush=True)
        await asyncio.sleep(60)

asyncio.run(main(Path(sys.argv[1])))
"""


async def killed(folder: Path, when: Callable[[], bool]) -> str:
    """Starts the run in a process of its own and kills that as soon as `when` says so; the run's id."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(folder), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert child.stdout is not None
    try:
        run = (await asyncio.wait_for(child.stdout.readline(), 30)).decode().strip()
        for _ in range(2_000):
            if when():
                break
            await asyncio.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()
    return run


@pytest.mark.crash
@pytest.mark.parametrize("where", ["before the mail", "after the mail"])
async def test_a_killed_engine_loses_no_message(tmp_path: Path, where: str) -> None:
    pause = ["delay 20000"] * 2
    script = SmtpScript(at_ehlo=pause) if where == "before the mail" else SmtpScript(after_dot=pause)
    async with SmtpService(script) as mail:
        folder = tmp_path / "it"
        project = make_office(folder, mail.port, FLOWS)
        is_there = {"before the mail": lambda: mail.connections > 0, "after the mail": lambda: len(mail.mails) > 0}
        run = await killed(folder, is_there[where])
        first = list(mail.mails)
        assert len(first) == (where == "after the mail")
        mail.tell(SmtpScript())
        async with resumed(project, mail, Turned(time.time_ns() // 1_000_000)) as office:
            await office.rest(run)
            assert {row.status for row in office.rows(run)} == {"sent"}
        copies = mail.copies
        assert sorted(copies.values()) == ([1, 1] if where == "before the mail" else [1, 2])
        again = [each for each in mail.mails if first and each.message_id == first[0].message_id]
        links = {re.findall(r"/review/(\S+)", each.body())[0] for each in again}
        assert len(links) == len(first)
