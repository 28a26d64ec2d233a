"""Anchors of the action log, kept outside: in a file elsewhere, with people, at a time-stamping authority."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from runner.clock import DAY, Clock
from runner.contract import canonical
from runner.errors import AmendsError
from runner.language.project import Project
from runner.people.desk import ProjectDesk
from runner.people.post import Post
from runner.store.arrivals import cursor, move
from runner.store.notary import Noted, sign
from runner.store.signing import open_signer
from runner.store.sql import SqlStore
from runner.tongue import _, speaking

log = logging.getLogger("amends.anchors")
FIRST, AGAIN = 60.0, 3600.0
"""Seconds after the start until the first look whether a day is over, and between two looks."""
NAME = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchored:
    """An anchor as one line, where it was kept, and what went wrong with that, a sentence each."""

    line: str
    kept: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


class Anchors:
    """Makes anchors where amends.yaml says so (`anchors`), each day and when somebody asks."""

    def __init__(
        self, store: SqlStore, post: Post, desk: ProjectDesk, clock: Clock, project: Callable[[], Project]
    ) -> None:
        self._store = store
        self._post = post
        self._desk = desk
        self._clock = clock
        self._project = project

    async def watch(self) -> None:
        """Until it is cancelled: one anchor a day, where there is a place for it."""
        pause = FIRST
        while True:
            await asyncio.sleep(pause)
            pause = AGAIN
            try:
                last = int(self._store.ask(cursor(NAME)) or 0)
                is_due = self._project().settings.anchors is not None and self._clock.now() - last >= DAY
                if is_due and await self._store.take_on("anchors"):
                    done = await self.make()
                    for sentence in done.wrong:
                        log.error("the action log was not anchored everywhere: %s", sentence)
            except (AmendsError, OSError) as error:
                log.error("the action log could not be anchored: %s", error)

    async def make(self) -> Anchored:
        """Ties every chain in, signs where the log ends then, and hands that to all who are to keep it."""
        project, now = self._project(), self._clock.now()
        await self._store.checkpoint()
        noted = sign(self._store.noted(now), open_signer(project.folder / ".amends"))
        places, kept, wrong = project.settings.anchors, list[str](), list[str]()
        if places is None:
            return Anchored(line=noted.line)
        if places.timestamp:
            try:
                stamping = importlib.import_module("runner.stamping")
                stamped = await stamping.stamp(places.timestamp, canonical(noted.statement))
                noted = replace(noted, timestamp=b64encode(stamped).decode())
                kept.append(places.timestamp)
            except ModuleNotFoundError:
                wrong.append("a time-stamp needs an extra: pip install 'amends[timestamp]'")
            except OSError as error:
                wrong.append(str(error))
        if places.file:
            path = project.folder / places.file
            try:
                await asyncio.to_thread(_append, path, noted.line)
                kept.append(str(path))
            except OSError as error:
                wrong.append(f"{path} cannot be written: {error.strerror}")
        if places.tell:
            await self._tell(places.tell, noted, now, kept, wrong)
        if not wrong:
            await self._store.write(move(NAME, str(now), now))
        return Anchored(line=noted.line, kept=tuple(kept), wrong=tuple(wrong))

    async def _tell(self, who: str, noted: Noted, now: int, kept: list[str], wrong: list[str]) -> None:
        for person in self._desk.staff().behind([who], now):
            with speaking(self._post.language(person)):
                subject = _("The action log ends at entry {seq}", seq=noted.seq)
                text = _(
                    "Keep this message: it shows later that the log was not made anew. `amends log verify --anchors "
                    "FILE` compares it."
                )
                sent = await self._post.mail(person, subject, f"{text}\n\n{noted.line}", f"anchor-{noted.head}")
            if sent.result == "applied":
                kept.append(person.mail)
            else:
                wrong.append(f"{person.id} could not be told: {sent.summary or sent.reason}")


def _append(path: Path, line: str) -> None:
    """One line at the end of the file, on the disk when this returns. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
