"""Killed workers and a killed server, in short; the long form is `python -m tests.trust temporal_kills`."""

from __future__ import annotations

import asyncio

import pytest

from tests.trust.temporal_kills import options, play, standing


@pytest.mark.crash
@pytest.mark.timeout(150)
def test_killed_workers_and_a_killed_server_lose_and_repeat_nothing() -> None:
    with standing("", options(["--sagas", "6", "--kills", "2", "--servers", "1"])) as storm:
        assert asyncio.run(play(storm)) == []
        assert (storm.killed, storm.servers_killed) == (2, 1)
        assert len(storm.service.ledger()["by_key"]) >= 30
