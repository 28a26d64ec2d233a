"""The mails that the demo's mail server keeps, and what it can be told to do wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

MailFaultKind = Literal["drop_after", "refuse", "later"]
KINDS: tuple[str, ...] = get_args(MailFaultKind)

LEDGER = "ledger.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class MailFault:
    """One thing that goes wrong with mails to `to` (which may hold `*`), for the next `times` mails."""

    fault: MailFaultKind
    to: str = "*"
    times: int = 1

    @classmethod
    def read(cls, wanted: object) -> MailFault:
        """The fault out of a JSON body. Raises ValueError or TypeError with a sentence."""
        if not isinstance(wanted, Mapping) or wanted.get("fault") not in KINDS:
            raise ValueError(f'a mail fault is an object whose "fault" is one of {", ".join(KINDS)}')
        unknown = sorted(set(wanted) - {"fault", "to", "times"})
        times = wanted.get("times", 1)
        if unknown:
            raise ValueError(f'a mail fault has no field "{unknown[0]}"')
        if not isinstance(times, int) or isinstance(times, bool):
            raise TypeError(f'"times" is a whole number, not {times!r}')
        return cls(fault=wanted["fault"], to=str(wanted.get("to", "*")), times=times)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """One accepted message. `at` is ms since the epoch; `answered` is false where the 250 never left."""

    n: int
    file: str
    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    at: int
    answered: bool


def read_ledger(folder: Path) -> list[Mail]:
    """Every mail that was ever accepted into this folder, in order."""
    file = folder / LEDGER
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [Mail(**(fields | {"to": tuple(fields["to"])})) for fields in map(json.loads, lines)]
