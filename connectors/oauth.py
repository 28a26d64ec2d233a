"""OAuth2: an access token for each request (`connectors/tokens.py` says what holds for all tokens).

Three grants: `client_credentials`, `refresh_token` (the first one is a secret of ours), `authorization_code` (a person
agreed, by `amends connections connect`). A new token is kept, encrypted, before it is used, so a refresh token that the
service changes at each use is not lost. Tokens go to the origin of the connection, our own credentials to the token
endpoint, and neither anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped]
from authlib.oauth2.rfc6749.parameters import prepare_token_request  # type: ignore[import-untyped]

from connectors.answers import Unreadable, json_of
from connectors.auth import header_value
from connectors.tokens import NoToken, Tokens, refusal_reason
from connectors.wire import DEFAULT_HEADERS, Answer, Wire
from runner.clock import SECOND, MachineClock
from runner.contract import Json
from runner.errors import NotPossible


class OAuth2(Tokens):
    """The tokens of one connection with `oauth2`."""

    asks_at, who = "token_url", "client"

    async def fresh(self, kept: Mapping[str, Json]) -> Mapping[str, Json]:
        return await self._ask(self._fields(kept), kept)

    def headers(self, token: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {token}"}

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
        new = self._read(await self.asked(self._wire(fields)), fields)
        seconds = new.get("expires_in")
        try:
            until = MachineClock().now() + int(float(seconds)) * SECOND if seconds is not None else None
        except (TypeError, ValueError, OverflowError):
            until = None
        refresh = new.get("refresh_token") or kept.get("refresh_token")
        return self.keep({"access_token": new["access_token"], "until": until, "refresh_token": refresh})

    def _wire(self, fields: Mapping[str, str]) -> Wire:
        client, secret = self.resolve(self.told["client"]), self.told.get("secret")
        way = "none" if secret is None else f"client_secret_{self.told.get('send', 'basic')}"
        signed = OAuth2Client(None, client, self.resolve(secret) if secret is not None else None).client_auth(way)
        given = {key: value for key, value in fields.items() if key != "grant_type"} | dict(self.told.get("more") or {})
        body = prepare_token_request(fields["grant_type"], **given)
        headers = {**DEFAULT_HEADERS, "content-type": "application/x-www-form-urlencoded"}
        url, headers, body = signed.prepare("POST", self.address, headers, body)
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
        words = self.tools.redact(words)[:200]  # a secret that is cut would not be known any more
        what = f"{self.endpoint} gives no token ({answer.status}{' ' if words else ''}{words})"
        if self.told["grant"] == "authorization_code" and said.get("error") == "invalid_grant":
            what += f"; run: amends connections connect {self.name}"
        raise NoToken(what, refusal_reason(answer.status))

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
