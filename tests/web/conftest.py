"""The console of a fresh project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.web.console import Console
from tests.web.ground import console_at, make_project


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with console_at(make_project(tmp_path / "shop")) as made:
        yield made
