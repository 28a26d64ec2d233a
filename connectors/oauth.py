"""OAuth2: an access token for each request, asked for once however many calls need it.

Three grants: `client_credentials`, `refresh_token` (the first one is a secret of ours), `authorization_code` (a person
agreed, by `amends connections connect`). A new token is kept, encrypted, before it is used, so a refresh token that the
service changes at each use is not lost. Tokens go to the origin of the connection, our own credentials to the token
endpoint, and neither anywhere else. Whatever goes wrong here is `not_sent`: no byte of the request has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped]
from authlib.oauth2.rfc6749.parameters import prepare_token_request  # type: ignore[import-untyped]

from connectors.answers import Unreadable, json_of
from connectors.auth import Resolve, header_value
from connectors.client import DEFAULT_HEADERS, Answer, Client, Wire, host_of, origin_of
from runner.clock import MINUTE, SECOND, MachineClock
from runner.contract import Json, Outcome, Reason, Tools
from runner.errors import AmendsError, NotPossible, StoreError

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


class Tokens:
    """The tokens of one connection. `told` is what stands under `oauth2`, with whole addresses; `place` is the origin
    that the tokens are for."""

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
            raise NoToken(f"no token came from {self._endpoint} in time", "timeout") from None

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
                    kept = await self._ask(self._fields(kept), kept)
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
        return [origin_of(self.place), str(self.told["token_url"]), self.resolve(self.told["client"])]

    @property
    def _endpoint(self) -> str:
        return host_of(str(self.told["token_url"]))

    def _fields(self, kept: Mapping[str, Json]) -> dict[str, str]:
        """What the token endpoint is asked with."""
        grant, refresh = self.told["grant"], str(kept.get("refresh_token") or "")
        if grant == "client_credentials":
            return {"grant_type": grant, **self._scope()}
        if not refresh and grant == "refresh_token":
            refresh = self.resolve(self.told["refresh_token"])
        if not refresh:
            what = "the consent that was given is over" if kept else "nobody has agreed yet"
            raise NoToken(f"{what}; run: amends connections connect {self.name}")
        return {"grant_type": "refresh_token", "refresh_token": refresh}

    def _scope(self) -> dict[str, str]:
        return {"scope": str(self.told["scope"])} if self.told.get("scope") else {}

    async def _ask(self, fields: Mapping[str, str], kept: Mapping[str, Json]) -> Mapping[str, Json]:
        """A new token, kept. Raises NoToken, SecretMissing, StoreError."""
        found = await self.client.exchange(self._wire(fields), limit=LONGEST, fresh=True)
        if isinstance(found, Outcome):
            raise NoToken(f"no token: {found.summary}", found.reason)
        new = self._read(found, fields)
        seconds = new.get("expires_in")
        try:
            until = MachineClock().now() + int(float(seconds)) * SECOND if seconds is not None else None
        except (TypeError, ValueError, OverflowError):
            until = None
        keep = {
            "access_token": new["access_token"], "until": until, "bound": self._bound,
            "refresh_token": new.get("refresh_token") or kept.get("refresh_token"),
        }  # fmt: skip
        self._keep(keep)
        return keep

    def _wire(self, fields: Mapping[str, str]) -> Wire:
        client, secret = self.resolve(self.told["client"]), self.told.get("secret")
        way = "none" if secret is None else f"client_secret_{self.told.get('send', 'basic')}"
        signed = OAuth2Client(None, client, self.resolve(secret) if secret is not None else None).client_auth(way)
        given = {key: value for key, value in fields.items() if key != "grant_type"} | dict(self.told.get("more") or {})
        body = prepare_token_request(fields["grant_type"], **given)
        headers = {**DEFAULT_HEADERS, "content-type": "application/x-www-form-urlencoded"}
        url, headers, body = signed.prepare("POST", str(self.told["token_url"]), headers, body)
        return Wire(
            method="POST", url=url, headers={key.lower(): text for key, text in headers.items()}, body=body.encode()
        )

    def _read(self, answer: Answer, sent: Mapping[str, str]) -> Mapping[str, Json]:
        """Raises NoToken, with what the service says but without what it repeats of ours."""
        try:
            told = json_of(answer)
        except Unreadable:
            told = None
        said = told if isinstance(told, dict) else {}
        token, kind = said.get("access_token"), str(said.get("token_type") or "bearer")
        if answer.status == 200 and isinstance(token, str) and len(token) > 5 and kind.lower() == "bearer":
            header_value(token, "the token")
            return said
        words = " ".join(str(said[key]) for key in ("error", "error_description") if said.get(key))
        for once in (sent[word] for word in ("code", "code_verifier") if word in sent):
            words = words.replace(once, "[code]")
        what = self.tools.redact(
            f"{self._endpoint} gives no token ({answer.status}{' ' if words else ''}{words[:200]})"
        )
        if self.told["grant"] == "authorization_code" and said.get("error") == "invalid_grant":
            what += f"; run: amends connections connect {self.name}"
        raise NoToken(what, "unavailable" if answer.status == 429 or answer.status > 499 else "forbidden")

    # -- a person agrees --

    def consent_address(self, *, back: str, state: str, verifier: str) -> str:
        """Where a person agrees; the browser comes back to `back`. Raises NotPossible, SecretMissing."""
        if self.told["grant"] != "authorization_code":
            raise NotPossible(f"{self.name} needs nobody's consent: it uses {self.told['grant']}")
        leaving = OAuth2Client(
            None, self.resolve(self.told["client"]), scope=self.told.get("scope"), redirect_uri=back,
            code_challenge_method="S256",
        )  # fmt: skip
        more = dict(self.told.get("ask") or {})
        address, _ = leaving.create_authorization_url(
            self.told["authorize_url"], state=state, code_verifier=verifier, **more
        )
        return str(address)

    async def take_consent(self, code: str, *, back: str, verifier: str) -> None:
        """The tokens for a code, kept. Raises NoToken, SecretMissing, StoreError."""
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        async with self.tools.vault.alone(self.name):
            self._known = await self._ask(fields, {})


def whole_address(told: str, place: str) -> str:
    """The address of an endpoint; a path stands at the connection's own origin."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}{told}" if told.startswith("/") else told


def is_safe(address: str, *, allow_private: bool) -> bool:
    """Whether credentials may go there: by https, or within the own network."""
    return address.startswith("https://") or (allow_private and address.startswith("http://"))
