"""A stage for the examples: a copy of flows/ whose connections point at real servers of the test's own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors import ai, email, http, imap, quarantine, records, webhook
from connectors.declarative import DECLARATIVE
from runner.app import Amends
from runner.contract import Json
from runner.driver import Driver
from runner.engine.starting import Wish
from runner.language.connections import Kinds
from runner.language.project import Project
from runner.people.approvals import Decision
from runner.store.facts import RunView
from tests.support.http_service import HttpService, running_http
from tests.support.replay import KEY, ReplayService, running_replay
from tests.support.smtp_service import SmtpService, running_smtp

FLOWS = Path(__file__).resolve().parents[2] / "flows"
PATIENCE = 10_000
"""ms that a run may wait for a timer before the test lets go of it."""
LIMIT = 20
"""Seconds one run may take."""


def kinds() -> Kinds:
    """The connectors of this checkout, without an installation."""
    python = {
        kind.name: kind
        for kind in (http.KIND, email.KIND, imap.KIND, webhook.KIND, ai.KIND, records.KIND, quarantine.KIND)
    }
    return Kinds(python=python, declarative=DECLARATIVE)


def copy_flows(
    folder: Path, *, backoffice: str, shop: str, smtp_port: int, token: str = "stage-token", model: str = ""
) -> Path:
    """The examples in a folder of their own, pointed at the servers. In live mode, the draft too."""
    shutil.copytree(FLOWS, folder, ignore=shutil.ignore_patterns("README.md", ".amends", ".env"))
    connections = folder / "connections.yaml"
    text = connections.read_text(encoding="utf-8")
    for before, after in (
        ("http://127.0.0.1:8601", backoffice),
        ("http://127.0.0.1:8603", shop),
        ("port: 8602", f"port: {smtp_port}"),
        ("http://127.0.0.1:8604", model or "http://127.0.0.1:8604"),
    ):
        assert before in text
        text = text.replace(before, after)
    connections.write_text(text, encoding="utf-8")
    (folder / ".env").write_text(
        f"BACKOFFICE_TOKEN={token}\nSHOP_TOKEN={token}\nAI_KEY={KEY}\nDESK_BOX={token}\n", encoding="utf-8"
    )
    return folder


def project_of(folder: Path) -> Project:
    return Project.open(folder, kinds=kinds())


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What became of a run: as lists show it, and each step's outcome."""

    view: RunView
    outputs: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The servers of one test, and the project in front of them."""

    folder: Path
    shop: HttpService
    model: ReplayService
    mail: SmtpService

    def run(self, flow: str, inputs: Mapping[str, Json], key: str = "") -> RunView:
        """Runs a flow until it rests."""
        return asyncio.run(self._run(flow, inputs, key))

    async def _run(self, flow: str, inputs: Mapping[str, Json], key: str) -> RunView:
        amends = Amends(project_of(self.folder))
        try:
            async with asyncio.timeout(LIMIT), amends.driver() as driver:
                return await play(driver, flow, inputs, key)
        finally:
            amends.close()

    def decide(self, run: str, answer: Literal["yes", "no"], by: str) -> RunView:
        """Answers the run's open approval as somebody who has looked at it, and follows it until it rests."""
        return asyncio.run(self._decide(run, answer, by))

    async def _decide(self, run: str, answer: Literal["yes", "no"], by: str) -> RunView:
        amends = Amends(project_of(self.folder))
        try:
            gates = amends.state(run)[1].gates.items()
            name, gate = next((name, gate) for name, gate in gates if gate.status == "open")
            said = Decision(approval=name, round=gate.round, hash=gate.hash, answer=answer, by=by)
            async with asyncio.timeout(LIMIT), amends.driver() as driver:
                await driver.decide(run, said)
                return await driver.follow(run, lambda: None, PATIENCE)
        finally:
            amends.close()

    def change(self, file: str, before: str, after: str) -> None:
        """Edits a file of the copy."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")

    def made(self, path: str) -> list[str]:
        """`METHOD path` of every true effect whose path begins so."""
        return [f"{each.method} {each.path}" for each in self.shop.world.effects if each.path.startswith(path)]

    def subjects(self, *people: str) -> list[str]:
        """Of the mails that flows sent; or of those to these people of people.yaml (aya, tom)."""
        ours = {"aya@shop.test", "tom@shop.test"}
        meant = {f"{name}@shop.test" for name in people}
        return [mail.subject for mail in self.mail.mails if (mail.to[0] in meant if meant else mail.to[0] not in ours)]


async def play(driver: Driver, flow: str, inputs: Mapping[str, Json], key: str = "") -> RunView:
    """Starts a run and follows it until it rests."""
    started = await driver.start(flow, Wish(given=inputs, key=key, starter="tester"))
    return await driver.follow(started.run, lambda: None, PATIENCE)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """A stage with an empty shop and an empty mailbox."""
    with running_http() as shop, running_replay() as model, running_smtp() as mail:
        copy_flows(folder, backoffice=shop.origin, shop=shop.origin, smtp_port=mail.port, model=model.origin)
        yield Stage(folder=folder, shop=shop, model=model, mail=mail)
