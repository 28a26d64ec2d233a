"""The demo's four stories end as they say, and the servers' books say so too."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from runner.app import Amends
from runner.clock import MachineClock
from runner.demo import STORIES, Story, count, make_project, prove, start_servers
from runner.demo.stories import FLOW
from runner.people.operations import Order
from runner.store.facts import RunView
from tests.flows.stage import play, project_of

LIMIT = 30
"""Seconds all four stories may take together."""


async def tell(folder: Path, story: Story) -> RunView:
    """Runs one story until it rests."""
    amends = Amends(project_of(folder))
    try:
        async with amends.driver() as driver:
            return await play(driver, FLOW, story.inputs)
    finally:
        amends.close()


async def answer(folder: Path, run: str, action: str) -> RunView:
    """What the owner says about the mail, and how the run goes on."""
    amends = Amends(project_of(folder))
    try:
        async with amends.driver() as driver:
            await driver.act(run, Order(action=action, by="person:me", reason="I looked into the mailbox."))
            return await driver.follow(run, lambda: None)
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
            assert asyncio.run(tell(project, story)).status == story.end, story.name
            assert count(servers, since).effects == Counter(story.effects), story.name
            assert [mail.subject for mail in servers.mails()[before:]] == list(story.mails), story.name
        assert prove(servers)[-1] == "Duplicates: 0."
        assert servers.ledger()["faults_left"] == 0
    assert time.monotonic() - began < LIMIT


@pytest.mark.parametrize(
    ("action", "end", "paid", "subjects"),
    [
        ("happened", "succeeded", 1, ["Welcome to the Basic plan"]),
        ("did_not", "succeeded", 1, ["Welcome to the Basic plan"] * 2),
        ("compensate", "needs_person", 0, ["Welcome to the Basic plan"]),
    ],
)
def test_the_servers_come_back_and_the_owner_ends_the_last_story(
    tmp_path: Path, action: str, end: str, paid: int, subjects: list[str]
) -> None:
    """`did_not` was a wrong answer here: a person may order a second mail, the run alone never sends one."""
    project, story = tmp_path / "demo", STORIES[-1]
    with start_servers(tmp_path / "servers") as servers:
        make_project(project, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        servers.control(story.faults[0])
        run = asyncio.run(tell(project, story)).run
    with start_servers(tmp_path / "servers") as servers:
        assert asyncio.run(answer(project, run, action)).status == end
        assert count(servers).effects.get("payment.taken", 0) == paid
        assert [mail.subject for mail in servers.mails()] == subjects
