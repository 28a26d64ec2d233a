"""Anchors: where the action log ended at a moment, signed, and kept by somebody else than whoever keeps the database.

An anchor is one line of JSON. It names the database, the last entry of the site's own chain (which ties in every run's
chain by its checkpoints) and the time, and bears the signature of the installation's key. Whoever holds an anchor can
tell that history up to there was not made anew, even by somebody who has the database and the key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

from runner.contract import Json, canonical
from runner.store.facts import ChainFault
from runner.store.log import SITE
from runner.store.signing import Signer, is_signed


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """One anchor. `at` is ms since the epoch; `timestamp` an RFC 3161 answer in base64, or empty."""

    database: str
    seq: int
    head: str
    commit: int
    at: int
    key: str = ""
    signature: str = ""
    timestamp: str = ""

    @property
    def statement(self) -> dict[str, Json]:
        """What is signed, and what a time-stamp is of."""
        return {"anchor": self.database, "seq": self.seq, "head": self.head, "commit": self.commit, "at": self.at}

    @property
    def line(self) -> str:
        """As it is kept."""
        return canonical({"amends": "anchor-1", **asdict(self)}).decode()


def sign(noted: Noted, signer: Signer) -> Noted:
    """The anchor under our signature."""
    said = {**asdict(noted), "key": signer.public, "signature": signer.sign(noted.statement)}
    return Noted(**said)


def read_anchors(text: str) -> Iterator[tuple[int, Noted | None]]:
    """(line, anchor) of each line that is one, None where a line begins like one and is none. Other lines are passed
    over, so a mail can be given as it came."""
    for number, line in enumerate(text.splitlines(), 1):
        if '"anchor-1"' not in line:
            continue
        try:
            told = json.loads(line)
            kind = told.pop("amends")
            yield number, Noted(**told) if kind == "anchor-1" else None
        except (ValueError, TypeError, KeyError, AttributeError):
            yield number, None


def anchor_faults(
    text: str, name: str, database: str, heads: Sequence[tuple[int, str]], keys: Collection[str]
) -> Iterator[ChainFault]:
    """What the anchors in a text called `name` say against the log. `heads` are (seq, hash) of the site's chain."""
    there = dict(heads)
    for number, noted in read_anchors(text):
        where = f"the anchor in line {number} of {name}"
        if noted is None:
            yield ChainFault(run=SITE, seq=0, what=f"{where} cannot be read")
        elif not is_signed(noted.statement, noted.key, noted.signature):
            yield ChainFault(run=SITE, seq=noted.seq, what=f"{where} was not signed as it stands there")
        elif keys and noted.key not in keys:
            what = f"{where} is signed with another key, {noted.key}"
            yield ChainFault(run=SITE, seq=noted.seq, what=what, unknown_key=noted.key)
        elif noted.database != database:
            yield ChainFault(run=SITE, seq=0, what=f"{where} is of another database, {noted.database}")
        elif noted.seq not in there:
            what = f"{where} remembers entry {noted.seq} of the site's chain, which is missing"
            yield ChainFault(run=SITE, seq=noted.seq, what=what)
        elif there[noted.seq] != noted.head:
            what = f"{where} remembers another entry {noted.seq} of the site's chain: the log was made anew since"
            yield ChainFault(run=SITE, seq=noted.seq, what=what)


def only_unknown_keys(faults: Sequence[ChainFault]) -> bool:
    """Whether nothing is seen to be changed: these are of keys alone, and the log holds once they are named."""
    return all(fault.unknown_key for fault in faults)
