"""The truth table of SMTP: what becomes of a mail whose line breaks at each moment of the conversation."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from connectors import email
from runner.contract import Outcome
from tests.connectors.tools import Lent
from tests.support.smtp_service import SmtpService
from tests.trust.guard import instead
from tests.trust.lines import FAULTS, GARBAGE, PATIENT, REST, Fault, gone, reset

MOMENTS = ("greeting", "EHLO", "MAIL", "RCPT", "DATA", "inside", "end", "kept")
"""Before the greeting; at a command that is not passed on yet; with half the message passed on; with all but the final
dot; with all of it, before the answer."""
LIMITS = (400, 2_000, 6_000)
WELL = 20_000


@dataclass(kw_only=True)
class Mails:
    """What was seen."""

    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    bytes_of_not_sent: int = 0


class MailLine:
    """Passes one conversation on until its moment. `message` counts the bytes of the message that came."""

    def __init__(self, to: int, moment: str, fault: Fault) -> None:
        self._to, self._moment, self._fault = to, moment, fault
        self._server: asyncio.Server | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self.port = self.message = 0
        self.struck = self.is_over = False

    async def __aenter__(self) -> MailLine:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for each in list(self._work):
            each.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def settled(self) -> None:
        """The conversation has ended."""
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self._work.add(own)
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._to)
            await self._talk(reader, writer, far_reader, far)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()
            self._work.discard(own)

    async def _talk(self, reader: Any, writer: Any, far_reader: Any, far: Any) -> None:
        greeting = await _reply(far_reader)
        if self._moment == "greeting" and await self._strike(reader, writer, far, far_reader, b"", greeting):
            return
        writer.write(greeting)
        while line := await reader.readline():
            word = line[:4].upper().decode("ascii", "replace")
            if word == self._moment and await self._strike(reader, writer, far, far_reader, line, b""):
                return
            far.write(line)
            reply = await _reply(far_reader)
            writer.write(reply)
            has_begun = word == "DATA" and reply.startswith(b"354")
            if word == "QUIT" or (has_begun and await self._message(reader, writer, far, far_reader)):
                return

    async def _message(self, reader: Any, writer: Any, far: Any, far_reader: Any) -> bool:
        content = await reader.readuntil(b"\r\n.\r\n")
        self.message += len(content)
        passed = {"inside": len(content) // 2, "end": len(content) - 3}.get(self._moment, len(content))
        far.write(content[:passed])
        answer = await _reply(far_reader) if self._moment == "kept" else b""
        if self._moment in ("inside", "end", "kept") and await self._strike(
            reader, writer, far, far_reader, content[passed:], answer
        ):
            return True
        far.write(content[passed:])
        writer.write(answer or await _reply(far_reader))
        return False

    async def _strike(self, reader: Any, writer: Any, far: Any, far_reader: Any, up: bytes, down: bytes) -> bool:
        """Whether that was the end."""
        self.struck = True
        fault = self._fault
        if fault == "pause":
            await asyncio.sleep(REST)
            return False
        if fault == "reset":
            reset(writer)
        elif fault in ("silence", "drip"):
            await gone(reader)
        elif fault == "garbage":
            writer.write(GARBAGE + b"\r\n")
            await writer.drain()
            await asyncio.sleep(REST)
        elif fault in ("gateway", "unavailable"):
            writer.write(b"421 4.3.2 closing\r\n" if fault == "gateway" else b"451 4.3.0 try later\r\n")
            await writer.drain()
            await gone(reader)
        elif fault == "late":
            await gone(reader)
            await _finished(far, far_reader, up, down)
        elif fault in ("half", "deaf", "after"):
            if fault == "half":
                writer.write_eof()
            await _finished(far, far_reader, up, down)
            if fault == "after":
                reset(writer)
            else:
                await gone(reader)
        return True


async def _finished(far: Any, far_reader: Any, up: bytes, down: bytes) -> None:
    far.write(up)
    if not down:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await _reply(far_reader)


async def _reply(reader: Any) -> bytes:
    """All lines of one reply."""
    found: bytes = b""
    while True:
        line = await reader.readline()
        found += line
        if not line or line[3:4] != b"-":
            return found


def expected(moment: str, fault: Fault) -> tuple[str, ...]:
    """What the outcome must be. A no that comes before the end of the message is a no: it was not taken."""
    if fault == "pause":
        return ("applied",)
    if fault in ("gateway", "unavailable"):
        return ("refused",)
    return ("not_sent",) if moment in ("greeting", "EHLO", "MAIL", "RCPT", "DATA") else ("unknown",)


async def play(moment: str, fault: Fault, number: int, service: SmtpService, seen: Mails) -> None:
    """One case."""
    case = f"mail, {fault} at {moment}"
    for tried, limit in enumerate(LIMITS if fault in PATIENT else (WELL,)):
        to = f"n{number}_{tried}@acme.test"
        async with MailLine(service.port, moment, fault) as line:
            told = {
                "host": "127.0.0.1", "port": line.port, "from": "ops@acme.test", "security": "none",
                "allow_insecure": True, "allow_private": True,
            }  # fmt: skip
            made = email.KIND.connect("mail", told, Lent())
            request = made.prepare("send", {"to": to, "subject": "S", "text": "T\n" * 40}, key=to[:8], purpose="do")
            found: Outcome = await made.send("send", request, key=to[:8], purpose="do", limit=limit)
            await line.settled()
            if not line.struck:
                continue
        kept = sum(to in mail.to for mail in service.mails)
        seen.outcomes[found.result] += 1
        seen.effects += kept
        is_lie = moment == "kept" and fault in ("gateway", "unavailable")
        if found.result not in expected(moment, fault):
            seen.wrong.append(f"{case}: {found.result} ({found.summary}), expected {expected(moment, fault)}")
        if found.result == "not_sent":
            seen.bytes_of_not_sent += line.message
            if line.message or kept:
                seen.wrong.append(f"{case}: not_sent, and {line.message} bytes of the message came")
        if (found.result == "refused" and kept and not is_lie) or kept > 1 or (found.result == "applied" and kept != 1):
            seen.wrong.append(f"{case}: {found.result}, and kept {kept} times")
        return
    seen.wrong.append(f"{case}: the moment was never reached")


async def table(every: int = 1, faults: tuple[Fault, ...] = FAULTS) -> Mails:
    """All moments and faults, or one in so many."""
    seen, gate = Mails(), asyncio.Semaphore(12)
    cases = [one for number, one in enumerate(product(MOMENTS, faults)) if (number * 5 + number // 12) % every == 0]
    async with SmtpService() as service:

        async def one(number: int, moment: str, fault: Fault) -> None:
            async with gate:
                await play(moment, fault, number, service, seen)

        await asyncio.gather(*(one(number, moment, fault) for number, (moment, fault) in enumerate(cases)))
    return seen


# --- mistakes ----------------------------------------------------------------------------------------------------------


def _early(self: Any, reason: Any, summary: str) -> Outcome:
    return Outcome(result="not_sent", reason=reason, summary=summary)


def _late(self: Any, reason: Any, summary: str) -> Outcome:
    return Outcome(result="unknown", reason=reason, summary=summary)


async def see_mistakes() -> dict[str, str]:
    """Each planted mistake, and how often it was seen."""
    caught = {}
    for name, made in {"a mail that was sent counts as not sent": _early, "no mail is ever not sent": _late}.items():
        with instead(email._Talk, "broken", made):
            wrong = (await table(faults=("reset",))).wrong
        caught[name] = f"{len(wrong)} times" if wrong else ""
    return caught
