"""Zombies in short: each place once; the long form is `python -m tests.trust zombies`."""

from __future__ import annotations

import pytest

from tests.store.conftest import database, server
from tests.trust import zombies
from tests.trust.figures import Figures

__all__ = ["database", "server"]


@pytest.mark.timeout(240)  # leases have to run out
async def test_who_comes_back_after_its_lease_is_refused(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()
    effects = await zombies.play(range(len(zombies.PLACES)), figures, database=database, runs=2)
    assert not figures.wrong, capsys.readouterr().out
    assert effects >= len(zombies.PLACES) * 2
