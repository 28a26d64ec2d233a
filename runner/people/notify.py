"""Sends what stands in the outbox, beside the engine: no run ever waits for it.

A message is marked as sent after it is out. Whoever is killed in between sends it once more, under the same Message-ID
and with the same link. What cannot be sent is tried again for two days; an address that is refused is not, and then the
admin is told, unless the person could be told by another channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from runner.clock import DAY, MINUTE, Clock
from runner.contract import Outcome
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import State
from runner.engine.past import read_state
from runner.errors import SequenceConflict, StoreUnwritable
from runner.language.bundle import Bundle
from runner.language.calendar import after
from runner.language.people import ME, People
from runner.language.project import Project
from runner.people.desk import ProjectDesk
from runner.people.letters import Letter, Matter, letter_about
from runner.people.post import Post
from runner.people.told import (
    ESCALATE,
    Staff,
    asks_to_see,
    escalate_at,
    is_telling,
    meant,
    needs_people,
    next_ones,
    patience,
)
from runner.store import notices, outbox
from runner.store.facts import AlreadyReported, LogEnd
from runner.store.messages import OF_GATES, Message, Outgoing
from runner.store.pages import pages_of
from runner.store.sql import SqlStore
from runner.tongue import _, speaking

log = logging.getLogger("amends.people")
LONGEST_PAUSE = 15 * MINUTE
GIVES_UP = 2 * DAY
LONGEST_SLEEP = 60.0
AMONG_OTHERS = 5.0
"""Seconds until the outbox is looked at again, where other engines write to it too."""
PATIENCE = 10.0
"""Seconds that a command waits for its messages to go out before it ends."""
GRACE = 5.0
"""Seconds that a message under way gets when the engine stops."""


class Notifier:
    """`project` is asked each time, `bundle` gives a pinned one, `wake` is told of each run that something was reported
    about. `address` is where people reach the pages, where this process shows them."""

    def __init__(
        self, store: SqlStore, post: Post, desk: ProjectDesk, clock: Clock, *, project: Callable[[], Project],
        bundle: Callable[[str], Bundle], wake: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.address = ""
        self._store = store
        self._post = post
        self._desk = desk
        self._clock = clock
        self._project = project
        self._bundle = bundle
        self._wake = wake
        self._rings = asyncio.Event()
        self._sending = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._people: People | None = None
        self._known: tuple[str, State, LogEnd] | None = None
        self._down_until: dict[str, int] = {}

    @property
    def pages(self) -> str:
        """Where people reach the pages now."""
        project = self._project()
        return (self.address or pages_of(project.folder, project.settings)).rstrip("/")

    # -- when --

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """Facts were committed: somebody may have to be told."""
        if any(needs_people(self._bundle(state.bundle), state, event) for event in filter(is_telling, events)):
            self._rings.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sends what is due as long as it is held; a message that is on its way then gets GRACE seconds."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._stopping.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE), self._sending:
                    pass
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def send_soon(self) -> None:
        """What is due, as far as it can be sent in a short time: before a command ends."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.send_due()
        except TimeoutError:
            log.warning("the mail server does not answer; `amends serve` sends what is left")
        except StoreUnwritable as refused:
            log.warning("messages are left for `amends serve`: %s", refused)

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            self._rings.clear()
            pause = longest = AMONG_OTHERS if self._store.is_shared else LONGEST_SLEEP
            try:
                await self.send_due()
                await self.look_over()
                coming = self._store.ask(outbox.next_due)
                if coming is not None:
                    pause = min(max((coming - self._clock.now()) / 1000, 0.05), longest)
            except Exception:
                log.exception("messages cannot be sent; it is tried again in %g s", pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._rings.wait()

    async def send_due(self) -> None:
        """Tries everything that is due once; where several engines run, one of them does."""
        async with self._sending:
            if not await self._store.take_on("messages"):
                return
            self._project()
            while not self._stopping.is_set() and (rows := self._store.ask(outbox.due(self._clock.now()))):
                newer = {_place(row) for row in rows if row.kind == "reminder"}
                for row in rows:
                    if self._stopping.is_set():
                        return
                    if row.kind == "asked" and _place(row) in newer:
                        await self._settle(row, "dropped")
                    else:
                        await self._handle(row)

    # -- one message --

    async def _read(self, run: str) -> tuple[State, LogEnd]:
        """Where a run stands, read apart from the engine's loop; of the last one only what is new since."""
        known = self._known[1:] if self._known is not None and self._known[0] == run else None
        state, end = await asyncio.to_thread(read_state, self._store, run, known)
        self._known = (run, state, end)
        return state, end

    async def _handle(self, row: Outgoing) -> None:
        state, end = await self._read(row.run)
        if row.kind == ESCALATE:
            await self._pass_on(row, state, end)
        elif not _matters(state, row, self._clock.now()):
            await self._settle(row, "dropped")
        elif self._down_until.get(row.channel, 0) > self._clock.now():
            await self._settle(row, "due", due=self._down_until[row.channel])
        else:
            await self._send(row, state)

    async def _send(self, row: Outgoing, state: State) -> None:
        people, post = self._project().people.people, self._post
        person = people.get(row.person.partition(":")[2])
        if person is None or row.channel not in post.channels(person):
            await self._fail(row, "there is no such address any more")
            return
        locator = ""
        if row.about in state.handoffs:
            name = f"{notices.HANDOFF}{row.about}"
            told = await self._store.write(notices.tell(row.run, name, 1, [row.person], self._clock.now()))
            locator = told[row.person]
        with speaking(post.language(person)):
            letter = await asyncio.to_thread(self._letter, row, state, locator)
        key = f"notice/{row.run}/{row.about}/{row.round}/{row.kind}/{row.person}"
        sent = await post.tell(row.channel, person, letter.subject, letter.text, key, link=letter.link)
        if sent.result == "applied":
            await self._note(row)
        elif sent.result == "refused" and sent.reason not in ("unavailable", "rate_limited"):
            await self._fail(row, sent.summary)
        else:
            await self._put_off(row, sent)

    def _letter(self, row: Outgoing, state: State, locator: str) -> Letter:
        bundle, personal = self._bundle(state.bundle), self._store.personal(row.run)
        settings, people = self._project().settings, self._project().people.people
        question = ""
        if row.kind in OF_GATES:
            asked = self._store.log(row.run, after=state.gates[row.about].opened_seq - 1, limit=1)[0].event
            question = str(asked.shown.get("question", "")) if isinstance(asked, e.ApprovalRequested) else ""
            told = self._store.ask(notices.of_run(row.run, row.about, row.round))
            locator = next((one.locator for one in told if one.person == row.person), "")

        def name(person: str) -> str:
            known = people.get(person.partition(":")[2])
            return known.name if known is not None else _("whoever has the terminal") if person == ME else person

        return letter_about(
            Matter(
                title=bundle.flow.title, state=state, address=self.pages,
                zone=settings.zone, name=name, veil=personal.text if personal is not None else str, question=question,
                locator=locator, is_to_be_seen=asks_to_see(bundle, state),
            ),
            row,
        )  # fmt: skip

    async def _note(self, row: Outgoing) -> None:
        """It is out, and the log says so."""
        event = e.NoticeSent(
            at=self._clock.now(), about=row.about, to=row.person, by=row.channel, round=row.round, kind=row.kind
        )
        try:
            await self._store.report(row.run, event, messages=(replace(row, status="sent", tries=row.tries + 1),))
        except AlreadyReported:
            await self._settle(row, "sent")
        self._wake(row.run)

    async def _put_off(self, row: Outgoing, sent: Outcome) -> None:
        now = self._clock.now()
        if now - row.at > GIVES_UP:
            await self._fail(row, sent.summary)
            return
        due = now + min(MINUTE << min(row.tries, 10), LONGEST_PAUSE)
        if sent.result == "not_sent" and row.channel == "mail":
            self._down_until["mail"] = min(due, now + MINUTE)
        log.warning("a message to %s could not be sent yet: %s", row.person, sent.summary)
        said = row.said if row.kind == "unreached" else sent.summary
        await self._settle(row, "due", due=due, tries=row.tries + 1, said=said)

    async def _fail(self, row: Outgoing, why: str) -> None:
        """It can never go out so: the admin is told, unless the person was or may be told in another way."""
        log.error("%s cannot be told by %s: %s", row.person, row.channel, why)
        staff, now = self._desk.staff(), self._clock.now()
        beside = [one for one in self._store.ask(outbox.of_run(row.run)) if _place(one) == _place(row)]
        others = [one for one in beside if one.channel != row.channel and one.status in ("due", "sent")]
        told: list[Message] = []
        if row.kind != "unreached" and not others:
            admins = [one for one in staff.behind([staff.admin], now) if f"person:{one.id}" != row.person]
            unreached = staff.messages(admins, row.about, "unreached", now, row.round)
            told = [replace(one, said=f"{row.person} {why}") for one in unreached]
        said = row.said if row.kind == "unreached" else why
        await self._settle(row, "failed", others=told, said=said)

    async def _settle(self, row: Outgoing, status: str, others: Sequence[Message] = (), **changes: Any) -> None:
        changes["status"] = status
        await self._store.write(outbox.settle(replace(row, **changes), others))

    # -- too few --

    async def look_over(self) -> None:
        """Where the people have changed: an open approval that lacks some now is passed on at once, or that is said."""
        people = self._project().people
        if people == self._people:
            return
        for run, about in dict.fromkeys((one.run, one.about) for one in self._store.ask(notices.open_for())):
            while await self._fill_up(run, about):
                pass
        self._people = people

    async def _fill_up(self, run: str, name: str) -> bool:
        """One step towards enough people; whether another may follow."""
        state, end = await self._read(run)
        bundle, now = self._bundle(state.bundle), max(self._clock.now(), state.at)
        if self._desk.left_for(bundle, state, name, now) is None:
            return False
        words = None if name.endswith(UNDO) else bundle.step(name).approval
        if state.gates[name].half and words is not None:
            event = e.Escalated(at=now, step=name, about=name, to=words.escalate_to)
            told = self._desk.messages(bundle, state, (event,))
            with contextlib.suppress(SequenceConflict):
                await self._store.report(run, event, end.seq, messages=told)
                self._wake(run)
            return True
        staff = self._desk.staff()
        people = meant(staff, state, (state.owner, staff.admin), now)
        short = staff.messages(people, name, "short", now, state.gates[name].round)
        await self._store.write(outbox.add(run, short))
        return False

    # -- silence --

    async def _pass_on(self, row: Outgoing, state: State, end: LogEnd) -> None:
        """Nobody has said that they look at it: the next in line is told."""
        while True:
            if not _is_silent(state, row.about):
                await self._settle(row, "dropped")
                return
            bundle, staff, now = self._bundle(state.bundle), self._desk.staff(), max(self._clock.now(), state.at)
            asked = state.handoffs.get(row.about)
            owner = asked.owner if asked is not None else ""
            line = next_ones(staff, bundle, state, owner) if owner else (bundle.flow.on_failure.escalate_to,)
            level = _reachable(staff, line, row.round, now)
            if level is None:
                await self._settle(row, "dropped")
                return
            told = staff.messages(staff.behind([line[level]], now), row.about, "escalated", now, level + 1)
            if _reachable(staff, line, level + 1, now) is not None:
                due = after(now, patience(staff, bundle, state, owner), staff.calendar)
                told.append(escalate_at(row.about, level + 1, now, due))
            event = e.Escalated(at=now, step=asked.step if asked is not None else "", about=row.about, to=line[level])
            try:
                await self._store.report(row.run, event, end.seq, messages=(replace(row, status="sent"), *told))
            except SequenceConflict:
                state, end = await self._read(row.run)
                continue
            self._wake(row.run)
            return


def _place(row: Outgoing) -> tuple[str, str, int, str]:
    return (row.run, row.about, row.round, row.person)


def _reachable(staff: Staff, line: Sequence[str], start: int, at: int) -> int | None:
    """The first of those from `start` on behind whom somebody can be told."""
    return next((level for level in range(start, len(line)) if staff.behind([line[level]], at)), None)


def _is_silent(state: State, about: str) -> bool:
    """Whether nobody has said yet that they look at a hand-off, or have seen how the run ended."""
    asked = state.handoffs.get(about)
    if not about:
        return not state.seen_by
    return asked is not None and not (asked.choice or asked.acknowledged_by or state.has_ended)


def _matters(state: State, row: Outgoing, now: int) -> bool:
    """Whether what a message is about is still so."""
    if row.kind in OF_GATES:
        gate = state.gates.get(row.about)
        if gate is None or gate.status != "open" or gate.round != row.round or now >= gate.due:
            return False
        return all(yes.by != row.person for yes in gate.yes)
    if row.kind == "unreached" or not row.about:
        return row.kind != "escalated" or not state.seen_by
    asked = state.handoffs.get(row.about)
    is_open = asked is not None and not asked.choice and not state.has_ended
    return is_open and asked is not None and (row.kind == "told" or not asked.acknowledged_by)
