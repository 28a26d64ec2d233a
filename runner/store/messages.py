"""Messages to people, as they go into the outbox and come out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ASKS = frozenset({"asked", "joined", "reminder"})
"""Kinds of messages that ask for a decision."""
OF_GATES = ASKS | {"short"}
"""Kinds of messages about an approval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What one person is told by one channel (mail, chat).

    `about` is an approval with its `round`, a hand-off, or empty for the run's end. `kind`: asked, joined, reminder,
    short (too few are left who may approve), handed_off, escalated, told, unreached (somebody else could not be told),
    or escalate: the time when silence is passed on, with no person.
    `said`: what kept the last try from going out. Times are ms since the epoch.
    """

    about: str
    kind: str
    at: int
    due: int
    round: int = 0
    person: str = ""
    channel: str = ""
    status: Literal["due", "sent", "failed", "dropped"] = "due"
    tries: int = 0
    said: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing(Message):
    """The same, as it stands in the outbox."""

    run: str
