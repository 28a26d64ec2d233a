"""Tokens that a connection is given by its service: asked for once however many calls need one, kept before it is used.

How one is asked for, and what of a request carries it, are `oauth.py` and `login.py`. Whatever goes wrong here is
`not_sent`: no byte of the request has left.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from urllib.parse import urlsplit

from connectors.auth import Resolve
from connectors.client import Client
from connectors.wire import Answer, Wire, host_of, origin_of
from runner.clock import MINUTE, SECOND, MachineClock
from runner.contract import Json, Outcome, Reason, Tools
from runner.errors import AmendsError, StoreError

PATIENCE = 2 * SECOND
"""How long a call waits for its token: a call that is intended leaves at once or not at all. What comes later is kept
for the next one."""
LONGEST = 20 * SECOND
"""How long the token endpoint may take."""
EARLY = MINUTE
"""So long before its end a token is no longer used."""


class NoToken(AmendsError):
    """There is no token; `reason` says why in the words of an outcome."""

    def __init__(self, sentence: str, reason: Reason = "forbidden") -> None:
        super().__init__(sentence)
        self.reason = reason


class Tokens(ABC):
    """The tokens of one connection. `told` is what stands under its kind of auth, with whole addresses; `place` is
    the origin that the tokens are for."""

    asks_at: str
    """The field of `told` with the address that gives tokens."""
    who: str
    """The field of `told` that names us."""

    def __init__(
        self, name: str, told: Mapping[str, Json], *, place: str, client: Client, tools: Tools, resolve: Resolve
    ) -> None:
        self.name = name
        self.told = told
        self.place = place
        self.client = client
        self.tools = tools
        self.resolve = resolve
        self._asking: asyncio.Task[str] | None = None
        self._known: Mapping[str, Json] = {}
        self._unkept: Mapping[str, Json] = {}

    async def access(self, limit: int, *, instead_of: str = "") -> str:
        """A token that may be used now. `instead_of` is one that the service does not take any more.

        Raises NoToken, SecretMissing.
        """
        if self._asking is None or self._asking.done():
            token = self._usable(self._known, instead_of)
            if token:
                return token
            self._asking = asyncio.create_task(self._renew(instead_of))
        try:
            # whoever gives up waiting must not take the answer, and the refresh token in it, away from the others
            async with asyncio.timeout(min(limit, PATIENCE) / 1000):
                return await asyncio.shield(self._asking)
        except TimeoutError:
            raise NoToken(f"no token came from {self.endpoint} in time", "timeout") from None

    async def close(self) -> None:
        """Waits for a token that is being asked for, so that it is kept."""
        if self._asking is not None:
            await asyncio.gather(self._asking, return_exceptions=True)

    def _usable(self, kept: Mapping[str, Json], instead_of: str) -> str:
        token, until = str(kept.get("access_token") or ""), kept.get("until")
        is_over = until is not None and MachineClock().now() > int(until) - EARLY
        return "" if is_over or token == instead_of else token

    async def _renew(self, instead_of: str) -> str:
        try:
            async with self.tools.vault.alone(self.name):
                if self._unkept:
                    self._keep(self._unkept)
                kept = self._kept()
                token = self._usable(kept, instead_of)
                if not token:
                    kept = await self.fresh(kept)
                    token = str(kept["access_token"])
                self._known = kept
                return token
        except StoreError as error:
            raise NoToken(str(error), "unavailable") from None

    def _keep(self, new: Mapping[str, Json]) -> None:
        """Raises StoreError; then it is tried again before anything else is asked for: the service has forgotten what
        came before."""
        self._unkept = new
        self.tools.vault.write(self.name, new)
        self._unkept = {}

    def _kept(self) -> Mapping[str, Json]:
        """What is kept for this very place and client: a connection that leads elsewhere by now begins anew."""
        kept = self.tools.vault.read(self.name)
        return kept if kept.get("bound") == self._bound else {}

    @property
    def _bound(self) -> list[str]:
        return [origin_of(self.place), self.address, self.resolve(self.told[self.who])]

    @property
    def address(self) -> str:
        """Where tokens come from."""
        return str(self.told[self.asks_at])

    @property
    def endpoint(self) -> str:
        """The host of that, for sentences."""
        return host_of(self.address)

    async def asked(self, wire: Wire) -> Answer:
        """The answer of whoever gives tokens. Raises NoToken."""
        found = await self.client.exchange(wire, limit=LONGEST, fresh=True)
        if isinstance(found, Outcome):
            raise NoToken(f"no token: {found.summary}", found.reason)
        return found

    def keep(self, what: Mapping[str, Json]) -> Mapping[str, Json]:
        """Keeps a new token: `access_token`, `until` and more. Raises StoreError."""
        kept = {**what, "bound": self._bound}
        self._keep(kept)
        return kept

    @abstractmethod
    async def fresh(self, kept: Mapping[str, Json]) -> Mapping[str, Json]:
        """A new token, kept. Raises NoToken, SecretMissing, StoreError."""

    @abstractmethod
    def headers(self, token: str) -> Mapping[str, str]:
        """The headers that carry it."""


def refusal_reason(status: int) -> Reason:
    """Why there is no token, by the status of who should have given one."""
    return "unavailable" if status == 429 or status > 499 else "forbidden"


def whole_address(told: str, place: str) -> str:
    """The address of an endpoint; a path stands at the connection's own origin."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}{told}" if told.startswith("/") else told


def is_safe(address: str, *, allow_private: bool) -> bool:
    """Whether credentials may go there: by https, or within the own network."""
    return address.startswith("https://") or (allow_private and address.startswith("http://"))
