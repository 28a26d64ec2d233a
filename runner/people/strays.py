"""Tells whoever owns a flow that something came to it which led to no run: it was refused, or could not be read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from runner.clock import DAY, HOUR, Clock
from runner.contract import digest
from runner.language.bundle import Bundle
from runner.people.desk import ProjectDesk
from runner.people.notify import Notifier
from runner.people.post import Post
from runner.store.arrivals import cursor, move, strays
from runner.store.sql import SqlStore
from runner.tongue import _, several, speaking

log = logging.getLogger("amends.people")
EVERY = 30.0
"""Seconds between two looks."""


class Trigger(Protocol):
    """A trigger that is on, with what arrivals call it (`webhook:orders`)."""

    @property
    def bundle(self) -> Bundle: ...
    @property
    def source(self) -> str: ...


class Strays:
    """One message an hour for each trigger of a live flow, with how many there were."""

    def __init__(
        self, notifier: Notifier, post: Post, desk: ProjectDesk, store: SqlStore, clock: Clock,
        triggers: Callable[[], Iterable[Trigger]],
    ) -> None:  # fmt: skip
        self._notifier = notifier
        self._post = post
        self._desk = desk
        self._store = store
        self._clock = clock
        self._triggers = triggers

    async def watch(self) -> None:
        """Looks again and again."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("nobody can be told of what led to no run; it is tried again")
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Tells what has not been told. What is more than a day old is not told any more."""
        now = self._clock.now()
        for trigger in self._triggers():
            bundle, source = trigger.bundle, trigger.source
            name = f"told:{bundle.flow.id}:{source}"
            newest, _space, told_at = self._store.ask(cursor(name)).partition(" ")
            if bundle.flow.mode == "draft" or (told_at and now - int(told_at) < HOUR):
                continue
            since = max(int(newest or 0), now - DAY)
            count, last = self._store.ask(strays(bundle.flow.id, source, since))
            if count and await self._tell(bundle, source, count, newest):
                await self._store.write(move(name, f"{last} {now}", now))

    async def _tell(self, bundle: Bundle, source: str, count: int, before: str) -> bool:
        """Whether somebody was told, or can never be: else it is tried again."""
        flow, staff, now = bundle.flow, self._desk.staff(), self._clock.now()
        found = []
        for person in staff.behind([flow.owner], now) or staff.behind([staff.admin], now):
            for channel in self._post.channels(person):
                with speaking(self._post.language(person)):
                    subject = several(
                        "{count} arrival led to no run: {title}", "{count} arrivals led to no run: {title}", count,
                        title=flow.title,
                    )  # fmt: skip
                    text = "\n\n".join((
                        _("What came to {source} did not fit the inputs of the flow, or could not be read. It is kept.",
                          source=source.replace(":", " ")),
                        _("The page says why, and has it taken again when the flow was put right. The next message of "
                          "this kind comes in an hour at the earliest."),
                    ))  # fmt: skip
                    key = digest(["strays", flow.id, source, before, person.id])
                    link = f"{self._notifier.pages}/arrivals"
                    sent = await self._post.tell(channel, person, subject, text, key, link=link)
                if sent.result != "applied":
                    log.warning("%s could not be told by %s: %s", person.id, channel, sent.summary or sent.reason)
                found.append(sent)
        return any(
            each.result == "applied"
            or (each.result == "refused" and each.reason not in ("unavailable", "rate_limited"))
            for each in found
        )
