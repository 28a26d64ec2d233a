"""The demo's four stories end as they say, and the servers' books say so too."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from runner.app import Amends
from runner.clock import MachineClock
from runner.demo import STORIES, Story, count, make_project, prove, start_servers
from runner.demo.stories import FLOW
from tests.flows.stage import play, project_of

LIMIT = 30
"""Seconds all four stories may take together."""


async def tell(folder: Path, story: Story) -> str:
    """Runs one story; its status."""
    amends = Amends(project_of(folder))
    try:
        async with amends.driver() as driver:
            return (await play(driver, FLOW, story.inputs)).status
    finally:
        amends.close()


def test_the_four_stories_end_as_they_say_and_nothing_is_done_twice(tmp_path: Path) -> None:
    project = tmp_path / "demo"
    began = time.monotonic()
    with start_servers(tmp_path / "servers") as servers:
        make_project(project, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        for story in STORIES:
            since, before = MachineClock().now(), len(servers.mails())
            for fault in story.faults:
                servers.control(fault)
            assert asyncio.run(tell(project, story)) == story.end, story.name
            assert count(servers, since).effects == Counter(story.effects), story.name
            assert [mail.subject for mail in servers.mails()[before:]] == list(story.mails), story.name
        assert prove(servers)[-1] == "Duplicates: 0."
        assert servers.ledger()["faults_left"] == 0
    assert time.monotonic() - began < LIMIT
