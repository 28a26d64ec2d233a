"""Deliveries: proved over their raw bytes, then read, then kept in one transaction with what they start, then answered.

Of a delivery that is not proved nothing is kept; it is counted, and its sender is told nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from runner.clock import MINUTE
from runner.contract import Json
from runner.errors import SecretMissing, SettingsError, StoreError
from runner.triggers.active import Armed
from runner.triggers.bodies import Unreadable, id_of, read_body
from runner.triggers.intake import Coming
from runner.triggers.parts import Parts
from runner.triggers.signatures import Delivery, refusal, seal_of

log = logging.getLogger("amends.triggers")
KIND = "webhook"
AGAIN = 30
"""Seconds after which a sender should come again when we could not keep its delivery."""
_KEPT_BACK = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Header fields that no flow sees, beside the one that holds a token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a sender is told. `wait` is s until it should come again."""

    status: int
    text: str
    wait: int = 0


TAKEN = Answer(status=200, text="Taken.\n")
UNKNOWN = Answer(status=404, text="There is nothing here.\n")
TURNED_AWAY = Answer(status=401, text="This is not accepted.\n")
LATER = Answer(status=503, text="Please send it again later.\n", wait=AGAIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnedAway:
    """Deliveries to one hook that were not proved, since the engine began: how many, and the last one's reason."""

    count: int
    why: str
    at: int


class Webhooks:
    """Every hook of the project."""

    def __init__(self, parts: Parts) -> None:
        self.turned_away: dict[str, TurnedAway] = {}
        self._parts = parts
        self._said: dict[str, int] = {}

    def knows(self, name: str) -> bool:
        """Whether a flow has this hook."""
        return bool(self._parts.active.on(KIND, name))

    async def take(self, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Takes a delivery; what it answers with 2xx is committed. `headers` has its names in small letters."""
        armed = self._parts.active.on(KIND, name)
        came = Delivery(headers=headers, body=body, now=self._parts.clock.now())
        proved: list[tuple[Armed, Mapping[str, Json]]] = []
        whys, is_ours = [], False
        for signed_by in dict.fromkeys(one.said.get("signed_by") for one in armed):
            try:
                settings, why = self._prove(signed_by, came)
            except (SettingsError, SecretMissing) as error:  # our own mistake: the sender comes again
                is_ours, why, settings = True, f"{signed_by}: {error}", {}
            if why:
                whys.append(why)
            else:
                proved += [(one, settings) for one in armed if one.said.get("signed_by") == signed_by]
        if whys and (is_ours or not proved):
            self._turn_away(name, whys[0], came.now)
        if not proved:
            return UNKNOWN if not armed else LATER if is_ours else TURNED_AWAY
        try:
            answer = await self._keep(proved, came)
        except StoreError as error:
            log.error("a delivery to the hook %s cannot be kept, so its sender was told to come again: %s", name, error)
            return LATER
        return LATER if is_ours else answer

    def _prove(self, signed_by: str | None, came: Delivery) -> tuple[Mapping[str, Json], str]:
        """(the settings of the connection, why the delivery is not from there)."""
        if signed_by is None:
            return {}, ""
        sender: Any = self._parts.connect(signed_by)
        if not hasattr(sender, "keys"):
            raise SettingsError("it is no connection of the kind webhook, and proves no delivery")
        return sender.settings, refusal(seal_of(sender.settings), sender.keys(), came)

    async def _keep(self, proved: Sequence[tuple[Armed, Mapping[str, Json]]], came: Delivery) -> Answer:
        try:
            body, why = read_body(came.headers, came.body), ""
        except Unreadable as error:
            body, why = None, str(error)
        schemes = {str(settings.get("scheme", "")) for _, settings in proved}
        challenge = body.get("challenge") if "slack" in schemes and _is_challenge(body) else None
        if isinstance(challenge, str):
            return Answer(status=200, text=challenge)
        await self._parts.intake.take_all([(one, _coming(settings, came, body, why)) for one, settings in proved])
        return TAKEN

    def _turn_away(self, name: str, why: str, now: int) -> None:
        """Counted, and said once a minute for each hook, however many come."""
        before = self.turned_away.get(name)
        count = 1 + (before.count if before is not None else 0)
        self.turned_away[name] = TurnedAway(count=count, why=why, at=now)
        if now - self._said.get(name, 0) >= MINUTE:
            self._said[name] = now
            log.warning("the hook %s turned a delivery away (%d since the start): %s", name, count, why)


def _is_challenge(body: Json) -> bool:
    """Slack's question whether the address is ours, which it signs like everything else."""
    return isinstance(body, dict) and body.get("type") == "url_verification"


def _coming(settings: Mapping[str, Json], came: Delivery, body: Json, why: str) -> Coming:
    scheme, digest = str(settings.get("scheme", "")), sha256(came.body).hexdigest()
    hidden = {*_KEPT_BACK, str(settings["header"]).lower()} if scheme == "token" else _KEPT_BACK
    headers: Json = {name: value for name, value in came.headers.items() if name not in hidden}
    name = id_of(scheme, came.headers, body, digest)
    if why:
        names = {"raw": came.body.decode(errors="replace"), "headers": headers}
        return Coming(id=name, digest=digest, names=names, status="unreadable", why=why)
    names = {"body": body, "headers": headers}
    if scheme == "github" and came.header("x-github-event") == "ping":
        said = "it is GitHub's ping, which says that the hook is there"
        return Coming(id=name, digest=digest, names=names, status="ignored", why=said)
    return Coming(id=name, digest=digest, names=names)
