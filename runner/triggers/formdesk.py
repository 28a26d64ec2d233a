"""What all forms of a project share: the seal on what their pages carry, the files that wait, who sent how much."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.clock import DAY, MINUTE
from runner.contract import Json, canonical
from runner.people.access import Tries
from runner.store.anchor import write_synced
from runner.triggers.uploads import Uploads

LIFE = 7 * DAY
"""ms that a page counts after it was shown."""
QUICKEST = 1_500
"""ms: nobody fills in a form in less."""
SPAN = 10 * MINUTE
OF_ONE, OF_ALL = 30, 1_000
"""How often a form is taken within SPAN, from one address and from all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """What a page carries hidden: `id` is the same as often as it is sent, `at` (ms) when it was made."""

    id: str
    at: int


class Seal:
    """Signs what a page carries, so that nobody else can have made it. The key lives in the state folder."""

    def __init__(self, place: Path) -> None:
        file = place / "forms.key"
        try:
            self._key = file.read_bytes()
        except FileNotFoundError:
            self._key = secrets.token_bytes(32)
            place.mkdir(parents=True, exist_ok=True)
            write_synced(file, self._key)

    def new_stamp(self, form: str, now: int) -> str:
        """A new page's stamp."""
        return self._sealed(form, [secrets.token_hex(12), now])

    def stamp(self, form: str, text: str, now: int) -> Stamp | None:
        """The stamp that a page of this form carries; None for none of ours, or one that is too old."""
        told = self._opened(form, text)
        if not isinstance(told, list) or not now - LIFE <= told[1] <= now:
            return None
        return Stamp(id=told[0], at=told[1])

    def receipt(self, form: str, file: Mapping[str, Json]) -> str:
        """What a page carries for a file that was sent."""
        return self._sealed(f"{form}/file", dict(file))

    def file(self, form: str, text: str) -> dict[str, Json] | None:
        """The file that a page carries."""
        told = self._opened(f"{form}/file", text)
        return told if isinstance(told, dict) else None

    def signed(self, text: str) -> str:
        """A text with its signature, short enough for an address."""
        return f"{text}.{self._sign('reference', text)[:16]}"

    def reference(self, text: str) -> str:
        """The text that was signed; empty for any other."""
        bare = text.rpartition(".")[0]
        return bare if bare and hmac.compare_digest(self.signed(bare).encode(), text.encode()) else ""

    def _sealed(self, use: str, value: Json) -> str:
        text = canonical(value).decode()
        return f"{self._sign(use, text)}{text}"

    def _opened(self, use: str, text: str) -> Json:
        sign, value = text[:64], text[64:]
        return json.loads(value) if hmac.compare_digest(self._sign(use, value).encode(), sign.encode()) else None

    def _sign(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use}\n{text}".encode(), hashlib.sha256).hexdigest()


class FormDesk:
    """`place` is the project's state folder. What it counts is bounded, and kept in this process alone."""

    def __init__(self, place: Path) -> None:
        self.seal = Seal(place)
        self.uploads = Uploads(place)
        self.quickest = QUICKEST
        self._senders, self._crowds = Tries(most=OF_ONE, span=SPAN), Tries(most=OF_ALL, span=SPAN)

    def is_crowded(self, form: str, sender: str, now: int) -> bool:
        """Whether a form was sent too often lately, by this sender or by all; if not, this time is counted."""
        if self._senders.wait(f"{form} {sender}", now) or self._crowds.wait(form, now):
            return True
        self._senders.fail(f"{form} {sender}", now)
        self._crowds.fail(form, now)
        return False

    def take_back(self, form: str, sender: str) -> None:
        """It was no sending, so it does not count."""
        self._senders.take_back(f"{form} {sender}")
        self._crowds.take_back(form)
