"""A pytest plugin (`-p tests.trust.on_temporal`): every engine of the tests is driven by a real Temporal cluster.

The tests are as they are; only who drives is another, and takes longer, so they wait longer. Where TESTS_TOLD names a
file, each test that begins and each that ends is a line there.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import ground, processes
from tests.trust.turning import turn

PATIENCE, BOUND, SLOW_BOUND = 180.0, 600, 3_600
"""Seconds that a test waits for something, at least; and that it may take, whatever it says itself, or a slow one."""
LOOK = 0.02
LAST = 20.0
"""Seconds that the process gets to end when its tests have."""


def pytest_configure() -> None:
    """Before any test; for the processes that tests start, too."""
    turn()
    setattr(processes, "LIMIT", PATIENCE)  # noqa: B010
    setattr(ground, "until", _waits)  # noqa: B010
    first = str(Path(__file__).with_name("turned"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (first, os.environ.get("PYTHONPATH", ""))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is about the embedded engine alone says why."""
    for item in items:
        bound = SLOW_BOUND if item.get_closest_marker("slow") else BOUND
        item.own_markers.insert(0, pytest.mark.timeout(bound).mark)
        if mark := item.get_closest_marker("embedded_only"):
            item.add_marker(pytest.mark.skip(reason=f"embedded only: {mark.args[0]}"))


def pytest_runtest_logstart(nodeid: str) -> None:
    _tell({"test": nodeid, "is": "begun"})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or not report.passed:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else _last_line(report)
        _tell({"test": report.nodeid, "is": report.outcome, "why": why, "seconds": report.duration})


def pytest_sessionfinish(exitstatus: int) -> None:
    """Also where a test that was broken off has left a thread that never ends."""
    ending = threading.Timer(LAST, os._exit, (int(exitstatus),))
    ending.daemon = True
    ending.start()


async def _waits(is_so: Callable[[], object], seconds: float = 0.0) -> None:
    """As `ground.until`, longer, and looking less often: each look asks a server."""
    async with asyncio.timeout(max(seconds, PATIENCE)):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(LOOK)


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if crash is None else str(crash.message).partition("\n")[0]


def _tell(line: dict[str, object]) -> None:
    if place := os.environ.get("TESTS_TOLD"):
        with Path(place).open("a", encoding="utf-8") as told:
            told.write(json.dumps(line) + "\n")
