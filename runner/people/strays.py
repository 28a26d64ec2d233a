"""Tells whoever owns a flow what led to no run: arrivals that were refused, unreadable or a conflict, and slots that
were skipped one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from runner.clock import DAY, HOUR, Clock
from runner.contract import digest
from runner.language.bundle import Bundle
from runner.people.desk import ProjectDesk
from runner.people.notify import Notifier
from runner.people.post import Post
from runner.store.arrivals import LOST, cursor, move, skipped_behind, strays
from runner.store.sql import SqlStore
from runner.tongue import _, several, speaking

log = logging.getLogger("amends.people")
EVERY = 30.0
"""Seconds between two looks."""
JOINED = ("joined",)
MOST_SKIPS = 3
"""Slots that are skipped behind one run before somebody is told."""


class Trigger(Protocol):
    """A trigger that is on, with what arrivals call it (`webhook:orders`)."""

    @property
    def bundle(self) -> Bundle: ...
    @property
    def source(self) -> str: ...


class Strays:
    """Of what did not fit one message an hour for each trigger of a live flow, with how many there were; of skipped
    slots one for each run that keeps them out."""

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
                if await self._store.take_on("strays"):
                    await self.look()
            except Exception:
                log.exception("nobody can be told of what led to no run; it is tried again")
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Tells what has not been told. What is more than a day old is not told any more."""
        for trigger in self._triggers():
            if trigger.bundle.flow.mode != "draft":
                for status in (LOST, JOINED):
                    await self._look_at(trigger.bundle, trigger.source, status)
                await self._look_at_skips(trigger.bundle, trigger.source)

    async def _look_at(self, bundle: Bundle, source: str, status: Sequence[str]) -> None:
        kind = "told" if status == LOST else "joined"
        name, now = f"{kind}:{bundle.flow.id}:{source}", self._clock.now()
        newest, _space, told_at = self._store.ask(cursor(name)).partition(" ")
        if told_at and now - int(told_at) < HOUR:
            return
        since = max(int(newest or 0), now - DAY)
        count, last, run = self._store.ask(strays(bundle.flow.id, source, since, status))

        def letter() -> tuple[str, str]:
            write = _of_lost if status == LOST else _of_joined
            return write(bundle.flow.title, source.replace(":", " "), count)

        page = "/arrivals" if status == LOST else f"/runs/{run}" if run else "/arrivals?status=joined"
        if count and await self._tell(bundle, letter, ["strays", *status, source, newest], page):
            await self._store.write(move(name, f"{last} {now}", now))

    async def _look_at_skips(self, bundle: Bundle, source: str) -> None:
        run, count = self._store.ask(skipped_behind(bundle.flow.id, source))
        if count < MOST_SKIPS:
            return
        name, now = f"skips:{bundle.flow.id}:{source}", self._clock.now()
        told, _space, told_at = self._store.ask(cursor(name)).partition(" ")
        if told == run or (told_at and now - int(told_at) < DAY):
            return

        def letter() -> tuple[str, str]:
            text = "\n\n".join((
                _("{count} slots of {source} were skipped one after the other, since run {run} has not ended.",
                  count=count, source=source.replace(":", " "), run=run),
                _("Look whether that run waits for something. This is told once for each run, and once a day at most."),
            ))  # fmt: skip
            return _("Slots are skipped: {title}", title=bundle.flow.title), text

        if await self._tell(bundle, letter, ["skips", source, run], f"/runs/{run}"):
            await self._store.write(move(name, f"{run} {now}", now))

    async def _tell(
        self, bundle: Bundle, letter: Callable[[], tuple[str, str]], about: Sequence[str], page: str
    ) -> bool:
        """Whether somebody was told, or can never be: else it is tried again. `letter` is (subject, text)."""
        flow, staff, now = bundle.flow, self._desk.staff(), self._clock.now()
        found = []
        for person in staff.behind([flow.owner], now) or staff.behind([staff.admin], now):
            for channel in self._post.channels(person):
                with speaking(self._post.language(person)):
                    subject, text = letter()
                    key, link = digest([*about, flow.id, person.id]), f"{self._notifier.pages}{page}"
                    sent = await self._post.tell(channel, person, subject, text, key, link=link)
                if sent.result != "applied":
                    log.warning("%s could not be told by %s: %s", person.id, channel, sent.summary or sent.reason)
                found.append(sent)
        return any(
            each.result == "applied"
            or (each.result == "refused" and each.reason not in ("unavailable", "rate_limited"))
            for each in found
        )


def _of_lost(title: str, source: str, count: int) -> tuple[str, str]:
    subject = several(
        "{count} arrival led to no run: {title}", "{count} arrivals led to no run: {title}", count, title=title
    )
    text = "\n\n".join((
        _("What came to {source} did not fit the inputs of the flow, could not be read, or is known already "
          "with other content. It is kept.", source=source),
        _("The page says why, and has it taken again when the flow was put right. The next message of "
          "this kind comes in an hour at the earliest."),
    ))  # fmt: skip
    return subject, text


def _of_joined(title: str, source: str, count: int) -> tuple[str, str]:
    subject = several(
        "{count} arrival about a run that did not go through: {title}",
        "{count} arrivals about runs that did not go through: {title}", count, title=title,
    )  # fmt: skip
    text = "\n\n".join((
        _("What came to {source} has the key of a run that had ended without going through. Nothing was started, and "
          "whoever filled in a form was told so.", source=source),
        _("If it is still wanted, start that run anew: its page has the button where nothing of it stands. The next "
          "message of this kind comes in an hour at the earliest."),
    ))  # fmt: skip
    return subject, text
