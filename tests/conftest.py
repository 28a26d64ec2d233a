"""What every test can rely on: no proxy, no colours, UTC, and no setting of the machine's owner."""

from __future__ import annotations

import os
import time
from collections.abc import Generator

import pytest

from tests.house import no_collector

UNWANTED = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "no_color", "force_color"}

for name in list(os.environ):
    if name.lower() in UNWANTED or name.startswith("AMENDS_"):
        del os.environ[name]
os.environ.update({"TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "COLUMNS": "120"})
time.tzset()

LONGEST = (
    "crash/test_kills.py",
    "real/test_signup.py",
    "drill/test_honesty.py",
    "store/test_contract.py",
    "real/test_tryton.py",
    "real/test_redmine.py",
    "web/test_serving.py",
    "web/test_api.py",
    "crash/test_hooks.py",
    "cases/test_keeping_cases.py",
    "lists/test_events.py",
    "bench/test_benches.py",
)
"""Files that take longest: they begin first, so that several processes end together (`--no-loadscope-reorder`)."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests are found, and all stay."""
    with no_collector():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; all others stay in their order."""
    items.sort(key=lambda item: next((at for at, file in enumerate(LONGEST) if file in item.nodeid), len(LONGEST)))
