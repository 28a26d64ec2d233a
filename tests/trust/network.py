"""The truth table of the network: 12 faults x 8 moments x 4 classes of actions over HTTP, and as many moments of SMTP.

What an outcome must be follows from what the line saw, and the line's own count of bytes is the judge:
`not_sent` where no byte of the request can have left, `unknown` where one may have and no whole answer came, `applied`
where the whole answer came. Then the line is mended and each class is held to what it promises.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from connectors import answers, client
from runner.contract import Outcome
from runner.errors import AmendsError
from tests.connectors.mailserver import certificate
from tests.trust import letters
from tests.trust.figures import Figures
from tests.trust.guard import instead
from tests.trust.lines import FAULTS, MOMENTS, PATIENT, Fault, Line, Moment
from tests.trust.receiver import CLASSES, Receiver, connected, receiver

LIMITS = (300, 1_500, 6_000)
"""ms that a call with a patient fault may take; more where the moment was not even reached, on a busy machine."""
WELL = 20_000
AT_ONCE = 12
SECRET: frozenset[Moment] = frozenset({"connect", "hello", "handshake"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """One cell of the table."""

    kind: str
    moment: Moment
    fault: Fault

    def __str__(self) -> str:
        return f"{self.kind}, {self.fault} at {self.moment}"

    @property
    def expected(self) -> str:
        """What the outcome must be."""
        if self.fault == "pause":
            return "applied"
        return "not_sent" if self.moment in SECRET else "unknown"


CASES = tuple(Case(kind=kind, moment=moment, fault=fault) for kind, moment, fault in product(CLASSES, MOMENTS, FAULTS))


@dataclass(kw_only=True)
class Table:
    """What was seen."""

    wrong: list[str]
    outcomes: Counter[str]
    effects: int = 0
    bytes_of_not_sent: int = 0
    asked_again: int = 0


async def _sent(made: Any, kind: str, key: str, limit: int, purpose: Any = "do") -> Outcome:
    request = made.prepare(kind, {"note": key}, key=key, purpose=purpose)
    found: Outcome = await made.send(kind, request, key=key, purpose=purpose, limit=limit)
    return found


async def play(case: Case, number: int, desk: Receiver, ca: str, table: Table) -> None:
    """One case: the fault, then the line mended."""
    is_secret = case.moment in SECRET
    for tried, limit in enumerate(LIMITS if case.fault in PATIENT else (WELL,)):
        key = f"am_{number}_{tried}"
        async with Line(desk.secret_port if is_secret else desk.port, case.moment, case.fault) as line:
            made = connected(line.port, ca if is_secret else "")
            try:
                found = await _sent(made, case.kind, key, limit)
                if not line.record.struck and case.moment != "connect":
                    continue
                await line.settled()
                _judge(case, found, line, desk.effects[key], table)
                await line.mend()
                await _again(case, made, key, found, desk, table)
            finally:
                await made.close()
        return
    table.wrong.append(f"{case}: the moment was never reached")


def _judge(case: Case, found: Outcome, line: Line, effects: int, table: Table) -> None:
    table.outcomes[found.result] += 1
    if found.result != case.expected:
        table.wrong.append(f"{case}: {found.result} ({found.reason}: {found.summary}), expected {case.expected}")
    if found.result == "not_sent":
        table.bytes_of_not_sent += line.record.seen
        if line.record.seen or effects:
            table.wrong.append(f"{case}: not_sent, and {line.record.seen} bytes came, {effects} effects")
    if found.result == "applied" and case.kind != "read" and effects != 1:
        table.wrong.append(f"{case}: applied, and {effects} effects")
    if effects > 1:
        table.wrong.append(f"{case}: {effects} effects of one attempt")


async def _again(case: Case, made: Any, key: str, found: Outcome, desk: Receiver, table: Table) -> None:
    """What may be done about it by its class, now that all is well."""
    before = desk.effects[key]
    if case.kind == "lookup" and found.result == "unknown":
        asked = await _sent(made, case.kind, key, WELL, "lookup")
        table.asked_again += 1
        if asked.result != "applied" or asked.count != before:
            table.wrong.append(f"{case}: asked about {before} effects, {asked.result} {asked.count} ({asked.summary})")
    elif found.result == "not_sent" or case.kind in ("read", "keyed"):
        more = await _sent(made, case.kind, key, WELL)
        table.asked_again += 1
        if more.result != "applied" or (case.kind != "read" and desk.effects[key] != 1):
            table.wrong.append(f"{case}: again, {more.result} ({more.summary}) and {desk.effects[key]} effects")
    table.effects += desk.effects[key]


async def http_table(cases: Sequence[Case], folder: Path) -> Table:
    """All these cases, some at once."""
    cert, context = certificate(folder)
    table, gate = Table(wrong=[], outcomes=Counter()), asyncio.Semaphore(AT_ONCE)
    async with receiver(context) as desk:

        async def one(number: int, case: Case) -> None:
            async with gate:
                try:
                    async with asyncio.timeout(60):
                        await play(case, number, desk, str(cert), table)
                except (AmendsError, OSError, ValueError, KeyError) as error:
                    table.wrong.append(f"{case}: {type(error).__name__} {error}")

        await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))
    return table


# --- mistakes ----------------------------------------------------------------------------------------------------------


def _never_unknown(got: list[str], reason: Any, summary: str) -> Outcome:
    return Outcome(result="not_sent", reason=reason, summary=summary)


def _twice(real: Any) -> Any:
    async def exchange(self: Any, wire: Any, **more: Any) -> Any:
        found = await real(self, wire, **more)
        if isinstance(found, Outcome) and found.result == "unknown" and wire.method == "POST":
            plain = replace(wire, headers={name: value for name, value in wire.headers.items() if "key" not in name})
            return await real(self, plain, **more)
        return found

    return exchange


def _sure(real: Any) -> Any:
    def lost(got: list[str], reason: Any, summary: str) -> Outcome:
        return Outcome(result="unknown", reason=reason, summary=summary)

    return lost


def _refusing(real: Any) -> Any:
    def by_status(answer: Any) -> Any:
        return ("refused", "unavailable") if answer.status >= 500 else real(answer)

    return by_status


MISTAKES: dict[str, tuple[Callable[[], Any], tuple[Fault, ...]]] = {
    "what was sent counts as not sent": (lambda: instead(client, "_lost", _never_unknown), ("reset", "silence")),
    "what was not sent counts as unknown": (lambda: instead(client, "_lost", _sure(None)), ("reset",)),
    "a lost request is sent again": (
        lambda: instead(client.Client, "exchange", _twice(client.Client.exchange)), ("after",)
    ),
    "a 503 of somebody between is a no": (
        lambda: instead(answers, "by_status", _refusing(answers.by_status)), ("unavailable",)
    ),
}  # fmt: skip


async def see_mistakes(folder: Path) -> dict[str, str]:
    """Each planted mistake, and how often it was seen."""
    caught = {}
    for name, (plant, faults) in MISTAKES.items():
        cases = [one for one in CASES if one.fault in faults and one.kind == "once"]
        with plant():
            wrong = (await http_table(cases, folder)).wrong
        caught[name] = f"{len(wrong)} times in {len(cases)} cases" if wrong else ""
    return caught | await letters.see_mistakes()


# --- the suite ---------------------------------------------------------------------------------------------------------


def some(every: int) -> list[Case]:
    """One cell in so many; each fault, moment and class is among them."""
    return [case for number, case in enumerate(CASES) if (number * 5 + number // 12) % every == 0]


async def play_all(figures: Figures, *, every: int) -> None:
    """The table, or some of it."""
    cases = some(every)
    with tempfile.TemporaryDirectory() as name:
        table = await http_table(cases, Path(name))
        figures.say("cases over HTTP", f"{len(cases)} of {len(CASES)}: {dict(sorted(table.outcomes.items()))}")
        figures.broken(table.wrong)
        mails = await letters.table(every)
        figures.say("cases over SMTP", f"{sum(mails.outcomes.values())}: {dict(sorted(mails.outcomes.items()))}")
        figures.broken(mails.wrong)
        figures.say("bytes of requests that were not sent", table.bytes_of_not_sent + mails.bytes_of_not_sent)
        figures.say("asked or sent again", table.asked_again)
        figures.planted(await see_mistakes(Path(name)))
    figures.floor("effects", table.effects + mails.effects, (150 if every == 1 else 8))


def run(argv: Sequence[str]) -> int:
    """The long form."""
    words = argparse.ArgumentParser(prog="python -m tests.trust network")
    words.add_argument("--every", type=int, default=1)
    figures = Figures()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play_all(figures, every=words.parse_args(argv).every))
    return figures.code
