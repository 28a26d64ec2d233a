"""Polls: a read action asked again and again, and a run for each item of its list that was not there before.

What was seen is committed with the runs it made: `{"began", "since", "asked", "seen"}`. The first answer starts
nothing, it says what is there already. One poll is one request; it never overlaps itself, and stands in the
connection's line like any call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from runner.clock import MINUTE, SECOND, iso
from runner.contract import Action, Connector, Json, Outcome, digest
from runner.errors import AmendsError, EvaluationError, NotPossible
from runner.language.clauses import duration
from runner.language.expressions import evaluate
from runner.language.fields import listed_field
from runner.store.arrivals import cursor, restored_after
from runner.triggers.active import Armed
from runner.triggers.beside import one_for_each
from runner.triggers.intake import Coming
from runner.triggers.parts import RESTORED, STANDS_BY, Parts

log = logging.getLogger("amends.triggers")
EVERY = "10 min"
"""Where the trigger does not say."""
FIRST_PAUSE, LONGEST_PAUSE = 15 * SECOND, 15 * MINUTE
BACK = MINUTE
"""How much earlier than the last poll `trigger.at` is in `with`: the service's clock may be behind ours."""
SPREAD = SECOND
"""Over how long the polls of a start are spread."""
MOST_ITEMS = 10_000
"""Items of one answer, and of what is remembered beyond the last one."""
PORTION = 50


class Failed(AmendsError):
    """The poll has no answer that can be used; `after` is how long the service wants to be left alone, ms."""

    def __init__(self, why: str, after: int = 0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(kw_only=True)
class _Stand:
    """Where a poll stands. `began`: of its flow; `since`: when the poll was first seen; `asked`: when it was last
    answered (ms); `seen`: what was in the list, the newest last."""

    began: int
    since: int
    asked: int = 0
    seen: list[str] = field(default_factory=list)

    def written(self) -> str:
        return json.dumps(asdict(self))


def place_of(armed: Armed) -> str:
    """The name of a poll's cursor; one that asks something else is another poll."""
    return f"poll:{armed.name}:{armed.flow}:{digest(armed.said.get('with', {}))[:12]}"


class Polls:
    """Asks for everything that flows poll, each in its own time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rings: dict[str, asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Polls as long as it is held."""
        async with one_for_each(self._parts.active, self._wanted, self._go_on):
            yield

    def _wanted(self) -> set[str]:
        wanted = {place_of(armed) for armed in self._parts.active.all("poll")}
        for place in wanted:
            self._rings.setdefault(place, asyncio.Event()).set()  # how often may have changed
        return wanted

    def _armed(self, place: str) -> Armed:
        return next(one for one in self._parts.active.all("poll") if place_of(one) == place)

    async def _go_on(self, place: str) -> None:
        failures, left_alone, stand = 0, 0, None
        await self._sleep(place, random.randrange(SPREAD))
        while True:
            armed, now = self._armed(place), self._parts.clock.now()
            try:
                if not await self._parts.store.take_on(place):  # one engine polls, for all
                    stand = None
                    await self._sleep(place, STANDS_BY * SECOND)
                    continue
                stand = stand or await self._begin(place, armed)
                if stand.began != self._parts.active.since(armed):
                    stand = None
                    continue
                if (due := self._due(armed, stand, failures, left_alone)) > now:
                    await self._sleep(place, due - now)
                    continue
                await self.take(place, armed, stand)
                failures, left_alone = 0, 0
                await self._parts.say_trouble(place, "")
            except AmendsError as error:
                failures, wanted = failures + 1, getattr(error, "after", 0)
                await self._parts.say_trouble(place, str(error))
                stand = None
                pause = max(min(FIRST_PAUSE << min(failures - 1, 10), LONGEST_PAUSE), wanted)
                left_alone = self._parts.clock.now() + pause
            except Exception:
                log.exception("%s cannot be polled; it is tried again in %d s", place, MINUTE // SECOND)
                failures, left_alone, stand = failures + 1, self._parts.clock.now() + MINUTE, None

    async def _sleep(self, place: str, ms: int) -> None:
        self._rings[place].clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ms / SECOND):
                await self._rings[place].wait()

    def _due(self, armed: Armed, stand: _Stand, failures: int, left_alone: int) -> int:
        if failures:
            return left_alone
        every = duration(str(armed.said.get("every", EVERY))).ms
        return stand.asked + int(every * self._share(armed, stand)) if stand.asked else 0

    def _share(self, armed: Armed, stand: _Stand) -> float:
        """A little more or less than the whole, so that polls do not come all at once."""
        return 0.95 + 0.1 * random.Random(f"{armed.source}:{armed.flow}:{stand.asked}").random()

    # -- where it stands --

    def _read(self, place: str) -> _Stand | None:
        said = self._parts.store.ask(cursor(place))
        return _Stand(**json.loads(said)) if said else None

    async def _begin(self, place: str, armed: Armed) -> _Stand:
        known, began = self._read(place), self._parts.active.since(armed)
        if known is not None and known.began == began:
            return known
        made = _Stand(began=began, since=self._parts.clock.now())
        await self._parts.intake.take_all([], cursor=(place, made.written()))
        return made

    # -- asking --

    async def take(self, place: str, armed: Armed, stand: _Stand) -> None:
        """Asks once, and takes what is new. Raises AmendsError."""
        now = self._parts.clock.now()
        items = await self._ask(place, armed, iso(max((stand.asked or stand.since) - BACK, 0)))
        is_first, again = not stand.asked, bool(stand.asked and self._parts.store.ask(restored_after(stand.asked)))
        known = set(stand.seen)
        listed = await asyncio.to_thread(_comings, armed, items, now)
        comings = {mark: one for mark, one in listed.items() if mark not in known}
        if is_first:
            log.info("%s: %d items are there already; they start nothing", place, len(comings))
        elif again:
            comings = {mark: _unsure(one) for mark, one in comings.items()}
        new = [] if is_first else list(comings.items())
        older = [mark for mark in stand.seen if mark not in listed][-MOST_ITEMS:]
        stand.seen = older + [mark for mark in stand.seen if mark in listed] + (list(comings) if is_first else [])
        for at in range(0, len(new), PORTION):
            portion = new[at : at + PORTION]
            stand.seen += [mark for mark, _ in portion]
            several = [(armed, coming) for _, coming in portion]
            await self._parts.intake.take_all(several, cursor=(place, stand.written()))
        stand.asked = now
        await self._parts.intake.take_all([], cursor=(place, stand.written()))

    async def _ask(self, place: str, armed: Armed, since: str) -> Sequence[Json]:
        """The items that are listed now. Raises Failed and other AmendsErrors."""
        connection, _, name = armed.name.partition(".")
        connector = self._parts.connect(connection)
        action = connector.actions.get(name)
        if action is None or action.effect != "read" or action.own or not listed_field(action.output):
            raise NotPossible(f"{armed.name} is no action that can be polled: one that reads and answers with a list")
        names: dict[str, Json] = {"trigger": {"at": since}}
        given = evaluate(armed.said.get("with", {}), names, now=self._parts.clock.now(), zone=armed.bundle.zone)
        request = connector.prepare(name, given, key=place, purpose="read")
        limits = self._parts.engine.limits
        if by := limits.held.get(f"connection:{connection}"):
            await self._parts.say_trouble(place, f"the connection {connection} is held by {by}")
        outcome, begun = None, await limits.place_for(place, armed.flow, connection)
        try:
            outcome = await _send(connector, action, request, place)
        finally:
            if begun is not None:
                limits.end(begun, outcome)
        return _items(armed.name, action, outcome)


async def _send(connector: Connector, action: Action, request: Any, key: str) -> Outcome:
    try:
        return await connector.send(action.name, request, key=key, purpose="read", limit=action.timeout)
    except Exception as error:  # noqa: BLE001 - whatever a connector raises, it has no answer
        return Outcome(result="unknown", summary=f"the connector broke off: {type(error).__name__}")


def _items(name: str, action: Action, outcome: Outcome) -> Sequence[Json]:
    if outcome.result != "applied":
        raise Failed(f"{name}: {outcome.summary or outcome.reason}", outcome.retry_after or 0)
    listed = listed_field(action.output)
    found = [] if outcome.output.get("found") is False else outcome.output.get(listed)
    if not isinstance(found, list):
        raise Failed(f'{name} answered without a list in "{listed}", so nothing was taken')
    if len(found) > MOST_ITEMS:
        raise Failed(f"{name} answered with {len(found):,} items; at most {MOST_ITEMS:,} are taken, ask for less")
    if outcome.output.get("incomplete"):
        raise Failed(f"{name} has more than the {len(found):,} items it may list, so nothing was taken; ask for less")
    return found


def _comings(armed: Armed, items: Iterable[Json], now: int) -> Mapping[str, Coming]:
    """What each item is for its flow, by the mark it is remembered by."""
    made: dict[str, tuple[Coming, Json]] = {}
    for item in items:
        names, content = {"item": item}, digest(item)
        try:
            coming = Coming(id=_known_by(armed, item, now), digest="", names=names)
        except AmendsError as error:
            coming = Coming(id=f"sha256:{content}", digest="", names=names, status="unreadable", why=str(error))
        mark = hashlib.sha256(coming.id.encode()).hexdigest()[:16]
        if mark in made and made[mark][1] != content:
            why = f"two items of one answer are {coming.id} by seen_by, and differ; only the first counts"
            coming = Coming(id=f"{coming.id}#{content[:12]}", digest="", names=names, status="conflict", why=why)
            mark = hashlib.sha256(coming.id.encode()).hexdigest()[:16]
        made.setdefault(mark, (coming, content))
    return {mark: coming for mark, (coming, _) in made.items()}


def _known_by(armed: Armed, item: Json, now: int) -> str:
    said = str(armed.said.get("seen_by", "${{ item.id }}"))
    value = evaluate(said, {"item": item}, now=now, zone=armed.bundle.zone)
    if isinstance(value, bool | list | Mapping) or value is None or not str(value).strip():
        raise EvaluationError(f"seen_by: {said} gave {value!r}, by which no item is known")
    return str(value)


def _unsure(coming: Coming) -> Coming:
    return Coming(id=coming.id, digest="", names=coming.names, status=coming.status or "refused", why=RESTORED)
