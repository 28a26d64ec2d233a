"""Mailboxes: each new mail once, by its Message-ID and its place in the mailbox, for every flow that waits for it.

Where a mailbox stands is committed with the runs it started, flow by flow: `{"place", "validity", "flows": {flow:
{"began", "since", "uid"}}, "moved"}`. A flow takes what comes after it was first seen (`since`), never what was there
before. When the server has numbered the mailbox anew (UIDVALIDITY), or it has moved, the last day is looked at again
and known mails are left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from runner.clock import DAY, HOUR, MINUTE, SECOND
from runner.errors import AmendsError, NotPossible
from runner.store.arrivals import cursor, restored_after
from runner.triggers.active import Armed
from runner.triggers.beside import one_for_each
from runner.triggers.intake import Coming
from runner.triggers.mails import LARGEST, Mail, Unreadable, read_head, read_mail
from runner.triggers.parts import RESTORED, STANDS_BY, Parts

log = logging.getLogger("amends.triggers")
WAIT = MINUTE
"""Between two looks where the server does not tell of new mail by itself."""
FIRST_PAUSE, LONGEST_PAUSE = 2 * SECOND, 10 * MINUTE
BACK = DAY
"""How far a mailbox that was numbered anew is looked at again, before it was last looked at."""


class Box(Protocol):
    """An open mailbox. Everything raises ConnectionError with a sentence."""

    validity: int
    next_uid: int

    async def after(self, uid: int) -> list[int]:
        """The uids above this one."""

    async def arrived(self, since: int) -> list[int]:
        """The uids of mails that the server took in since then (ms)."""

    async def head(self, uid: int) -> bytes | None:
        """A mail's header; None where it is gone."""

    async def mail(self, uid: int, largest: int) -> tuple[int, bytes] | None:
        """Its size, and the mail, or its header alone if it is larger than that; None where it is gone."""

    async def mark_seen(self, uid: int) -> None:
        """As if somebody had read it."""

    async def wait(self, seconds: float) -> None:
        """Until something may have come."""

    async def close(self) -> None:
        """Breaks off."""


class Opens(Protocol):
    """A connection that a mailbox stands behind."""

    mark_seen: bool
    from_programs: bool

    @property
    def place(self) -> str:
        """Which mailbox it is."""

    async def open(self) -> Box:
        """Raises ConnectionError with a sentence, SecretMissing."""


@dataclass(kw_only=True)
class _Stand:
    """Where a mailbox stands. `moved` is when that was committed last, ms."""

    place: str
    validity: int
    flows: dict[str, dict[str, Any]]
    moved: int

    def written(self) -> str:
        return json.dumps(asdict(self))


class Mailboxes:
    """Looks into every mailbox that a flow waits at, each in its own time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._looked: set[str] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Takes mails as long as it is held."""
        async with one_for_each(self._parts.active, self._wanted, self._watch):
            yield

    def _wanted(self) -> set[str]:
        return {armed.name for armed in self._parts.active.all("mail")}

    async def _watch(self, name: str) -> None:
        pause = FIRST_PAUSE
        while True:
            self._looked.discard(name)
            try:
                if not await self._is_on_duty(name):
                    await asyncio.sleep(STANDS_BY)
                    continue
                await self._begin_flows(name)
                await self._session(name)
            except (AmendsError, ConnectionError) as error:
                await self._parts.say_trouble(f"mail:{name}", str(error))
            except Exception:
                log.exception("the mailbox %s cannot be looked into; it is tried again", name)
            pause = FIRST_PAUSE if name in self._looked else pause
            await asyncio.sleep(pause / SECOND)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _is_on_duty(self, name: str) -> bool:
        """One engine looks into a mailbox, for all."""
        return await self._parts.store.take_on(f"mail:{name}")

    async def _session(self, name: str) -> None:
        """One connection, until it breaks or its line in connections.yaml is another."""
        parts = self._parts
        connection: Any = parts.connect(name)
        if not hasattr(connection, "open"):
            raise NotPossible(f'"{name}" is no mailbox; a mail trigger needs a connection to imap')
        opens: Opens = connection
        box = await opens.open()
        try:
            while parts.connect(name) is connection and await self._is_on_duty(name):
                await self.take(name, box, opens)
                self._looked.add(name)
                await parts.say_trouble(f"mail:{name}", "")
                await box.wait(WAIT / SECOND)
        finally:
            await box.close()

    # -- where it stands --

    def _stand(self, name: str) -> _Stand:
        said = self._parts.store.ask(cursor(f"mail:{name}"))
        return _Stand(**json.loads(said)) if said else _Stand(place="", validity=0, flows={}, moved=0)

    async def _begin_flows(self, name: str) -> _Stand:
        """Notes which flows wait here, and since when: also while the server cannot be reached."""
        stand, now = self._stand(name), self._parts.clock.now()
        flows: dict[str, dict[str, Any]] = {}
        for armed in self._parts.active.on("mail", name):
            began, known = self._parts.active.since(armed), stand.flows.get(armed.flow)
            is_known = known is not None and known["began"] == began
            flows[armed.flow] = known if known and is_known else {"began": began, "since": now, "uid": None}
        if flows != stand.flows:
            stand.flows = flows
            await self._parts.intake.take_all([], cursor=(f"mail:{name}", stand.written()))
        return stand

    # -- taking --

    async def take(self, name: str, box: Box, opens: Opens) -> None:
        """Takes every mail that is new. Raises ConnectionError, StoreError."""
        stand = await self._begin_flows(name)
        again = bool(self._parts.store.ask(restored_after(stand.moved)))
        before = stand.written()
        is_known = (stand.place, stand.validity) == (opens.place, box.validity)
        if not is_known and any(place["uid"] is not None for place in stand.flows.values()):
            await self._look_back(name, box, opens, stand)
        stand.place, stand.validity = opens.place, box.validity
        for place in stand.flows.values():
            if place["uid"] is None:
                came = await box.arrived(place["since"])
                place["uid"] = min([box.next_uid, *came]) - 1
        low = min((place["uid"] for place in stand.flows.values()), default=None)
        for uid in await box.after(low) if low is not None else ():
            armed = [one for one in self._parts.active.on("mail", name) if self._is_ahead(stand, one, uid)]
            for place in stand.flows.values():
                place["uid"] = max(place["uid"], uid)
            is_open = again and uid < box.next_uid
            await self._take_one(name, box, opens, uid, armed, (f"mail:{name}", stand.written()), is_open=is_open)
        now = self._parts.clock.now()
        if again or stand.written() != before or now - stand.moved > HOUR:
            stand.moved = now
            await self._parts.intake.take_all([], cursor=(f"mail:{name}", stand.written()))

    def _is_ahead(self, stand: _Stand, armed: Armed, uid: int) -> bool:
        return armed.flow in stand.flows and uid > stand.flows[armed.flow]["uid"]

    async def _look_back(self, name: str, box: Box, opens: Opens, stand: _Stand) -> None:
        """Looks at the last day of a mailbox whose mails have new numbers. Those that were taken are known by their
        ids; those that are older than their flow, by their own date too, stay what they are."""
        since = {flow: max(place["since"], stand.moved - BACK) for flow, place in stand.flows.items()}
        uids = [uid for uid in await box.arrived(min(since.values())) if uid < box.next_uid]
        log.warning("the mailbox %s is numbered anew; its last %d mails are looked at again", name, len(uids))
        for uid in uids:
            head = await box.head(uid)
            written = read_head(head).written if head is not None else None
            armed = [
                one
                for one in self._parts.active.on("mail", name)
                if one.flow in since and (written is None or written >= since[one.flow])
            ]
            await self._take_one(name, box, opens, uid, armed, None, is_open=False)
        for place in stand.flows.values():
            place["uid"] = box.next_uid - 1

    async def _take_one(
        self, name: str, box: Box, opens: Opens, uid: int, armed: Sequence[Armed], place: tuple[str, str] | None,
        *, is_open: bool,
    ) -> None:  # fmt: skip
        """One mail, with its place in one transaction. `is_open`: nobody knows whether it was taken before."""
        found = await box.mail(uid, LARGEST) if armed else None
        several: list[tuple[Armed, Coming]] = []
        if found is not None:
            coming, mail = await asyncio.to_thread(_coming, *found, opens.from_programs)
            if mail is not None and any(self._parts.intake.wants(one, coming) for one in armed):
                for file in mail.files:
                    await asyncio.to_thread(self._parts.store.artifacts.put, file.content)
            if is_open and not coming.status:
                coming = replace(coming, status="refused", why=RESTORED)
            several = [(one, coming) for one in armed]
        await self._parts.intake.take_all(several, cursor=place)
        if found is not None and opens.mark_seen:
            await box.mark_seen(uid)


def _coming(size: int, raw: bytes, from_programs: bool) -> tuple[Coming, Mail | None]:
    """What a mail is for its flows; a mail that may start something comes with its files."""
    head = read_head(raw)
    if head.loop or (head.by_program and not from_programs):
        why = head.loop or "a program wrote it (Auto-Submitted); from_programs: true at the connection takes such mails"
        return _without_run(head.id, head.known, "ignored", f"{why}, so it starts nothing"), None
    if size > LARGEST:
        why = f"it has {size:,} bytes, and at most {LARGEST:,} are read"
        return _without_run(head.id, head.known, "unreadable", why), None
    try:
        mail = read_mail(raw)
    except Unreadable as error:
        return _without_run(head.id, error.known, "unreadable", str(error)), None
    return Coming(id=mail.id, digest=mail.digest, names=mail.names), mail


def _without_run(mail_id: str, known: Mapping[str, Any], status: str, why: str) -> Coming:
    return Coming(id=mail_id, digest="", names=known, status=status, why=why)
