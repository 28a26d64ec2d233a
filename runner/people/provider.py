"""The project's own provider of sign-ins (OpenID Connect): where a browser is sent, and who comes back.

Authorisation code with PKCE. Nothing is kept between leaving and coming back: state, nonce and verifier are made out of
one secret that only this browser has. The provider's keys are asked for at each sign-in, so they may change whenever.

Where else to ask is told by the provider itself, so every request passes the guard: a public provider leads into no
private network, and nothing goes unencrypted that the provider's own address does not.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped]
from authlib.oauth2.rfc6749.parameters import prepare_token_request  # type: ignore[import-untyped]
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from runner.clock import MINUTE
from runner.errors import AmendsError
from runner.guard import AddressRefused, Guard, is_public
from runner.language.people import People
from runner.language.settings import SignIn

PATIENCE = 15.0
"""Seconds for everything that is asked of the provider at one sign-in."""
LEEWAY = 60
"""Seconds that its clock may differ from ours."""
TIME = 10 * MINUTE
"""How long somebody may take to come back, ms."""
SIGNED_BY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""With a key that only the provider has: nothing that our own secret could sign, and never `none`."""


class ProviderSilent(AmendsError):
    """The provider gave no answer that can be used."""


class NotProved(AmendsError):
    """Whoever comes back has not proved anything."""


class NotVerified(NotProved):
    """The provider has an address that it has not verified."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Journey:
    """One way to the provider and back, all of it out of `secret`."""

    secret: str
    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, secret: str) -> Journey:
        """The one that a browser is on."""
        state, nonce, verifier = (
            urlsafe_b64encode(sha256(f"{word} {secret}".encode()).digest()).decode().rstrip("=")
            for word in ("state", "nonce", "verifier")
        )
        return cls(secret=secret, state=state, nonce=nonce, verifier=verifier)

    @classmethod
    def new(cls) -> Journey:
        """One that begins."""
        return cls.of(secrets.token_urlsafe(32))


async def way_out(words: SignIn, journey: Journey, back: str) -> str:
    """Where the browser signs in; it comes back to `back`. Raises ProviderSilent."""
    scope = "openid profile email" if words.claim else "openid email"
    leaving = OAuth2Client(None, words.client, scope=scope, redirect_uri=back, code_challenge_method="S256")
    async with _asking(words) as client:
        about = await _about(client, words)
        address, _state = leaving.create_authorization_url(
            about["authorization_endpoint"], state=journey.state, code_verifier=journey.verifier, nonce=journey.nonce
        )
    return str(address)


async def who_came(
    words: SignIn, client_secret: str, journey: Journey, back: str, told: Mapping[str, str], now: int
) -> Mapping[str, Any]:
    """What the provider vouches for: its claims about the person. `told` is what stood in the address.

    Raises NotProved, ProviderSilent.
    """
    if not hmac.compare_digest(told.get("state", "").encode(), journey.state.encode()):
        raise NotProved("the state is not the one that this browser left with")
    if told.get("error") or not told.get("code"):
        raise NotProved(f"the provider gives no code but says {told.get('error', '')[:80]!r}")
    async with _asking(words) as client:
        about = await _about(client, words)
        must_name_itself = about.get("authorization_response_iss_parameter_supported")
        if told.get("iss", "" if must_name_itself else about["issuer"]) != about["issuer"]:
            raise NotProved("the answer is of another issuer")
        body = prepare_token_request(
            "authorization_code", code=told["code"], redirect_uri=back, code_verifier=journey.verifier
        )
        tokens = await _tokens(client, words, client_secret, about, body)
        keys = _record(await client.get(about["jwks_uri"]))
        claims = _verified(words, about["issuer"], journey, tokens, keys, now)
        if (words.claim or "email") not in claims and about.get("userinfo_endpoint"):
            bearer = {"authorization": f"Bearer {tokens.get('access_token', '')}"}
            more = _record(await client.get(about["userinfo_endpoint"], headers=bearer))
            if more.get("sub") != claims["sub"]:
                raise NotProved("what the provider tells beside is about somebody else")
            claims = {**more, **claims}
    return claims


async def _tokens(
    client: httpx.AsyncClient, words: SignIn, client_secret: str, about: Mapping[str, Any], body: str
) -> Mapping[str, Any]:
    """What the provider gives for the code. Raises NotProved."""
    ways = about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    way = "client_secret_basic" if "client_secret_basic" in ways else "client_secret_post"
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    signed = OAuth2Client(None, words.client, client_secret).client_auth(way)
    url, headers, body = signed.prepare("POST", about["token_endpoint"], headers, body)
    answer = await client.post(url, headers=headers, content=body)
    if answer.is_client_error:
        raise NotProved(f"the provider does not take the code ({answer.status_code})")
    return _record(answer)


def person_of(people: People, words: SignIn, claims: Mapping[str, Any]) -> tuple[str, str]:
    """(who of people.yaml this is, what the provider calls them); nobody is empty. Raises NotProved."""
    told = claims.get(words.claim or "email")
    if not isinstance(told, str) or not told:
        raise NotProved(f'the provider tells no "{words.claim or "email"}"')
    if not words.claim and claims.get("email_verified") not in (True, "true"):
        raise NotVerified("the provider has not verified the mail address")
    found = [one.id for one in people.people.values() if _same(one.mail, told) or (words.claim and one.id == told)]
    return (f"person:{found[0]}" if len(found) == 1 else ""), told


def _same(mail: str, told: str) -> bool:
    """Whether two addresses are one. Letters of other alphabets are compared as they are: some become ours in small."""
    return mail == told or (mail.isascii() and told.isascii() and mail.lower() == told.lower())


def _verified(
    words: SignIn, issuer: str, journey: Journey, tokens: Mapping[str, Any], keys: Any, now: int
) -> Mapping[str, Any]:
    """The claims of the id token. Raises NotProved."""
    try:
        registry = JWSRegistry(algorithms=SIGNED_BY, strict_check_header=False)
        token = jwt.decode(str(tokens.get("id_token", "")), KeySet.import_key_set(keys), registry=registry)
        wanted = {"iss": issuer, "aud": words.client}
        claims = CodeIDToken(
            token.claims, token.header, {name: {"essential": True, "value": value} for name, value in wanted.items()},
            {"nonce": journey.nonce, "client_id": words.client, "access_token": tokens.get("access_token")},
        )  # fmt: skip
        claims.validate(now // 1000, LEEWAY)
        if str(token.header.get("typ", "JWT")).upper() != "JWT":
            raise NotProved(f"it is of the type {token.header['typ']!r}, not an id token")
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise NotProved(f"the id token does not hold: {error}") from None
    return dict(claims)


class _Guarded(httpx.AsyncHTTPTransport):
    """Connects to the addresses that were checked and to no others, whatever the name leads to a moment later."""

    def __init__(self, guard: Guard, scheme: str) -> None:
        super().__init__(verify=_trusted(), trust_env=False)
        self._guard, self._scheme = guard, scheme

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises AddressRefused, and what httpx raises."""
        url, host = request.url, request.url.raw_host.decode()
        if url.scheme not in ("https", self._scheme):
            raise AddressRefused(f"{host} is to be asked unencrypted")
        lost: Exception = OSError(f"{host} has no address")
        for _, address in await self._guard.resolve(host, url.port or (443 if url.scheme == "https" else 80)):
            there = httpx.Request(
                request.method, url.copy_with(host=address), headers=request.headers, stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )  # fmt: skip
            try:
                return await super().handle_async_request(there)
            except httpx.ConnectError as error:
                lost = error
        raise lost


@asynccontextmanager
async def _asking(words: SignIn) -> AsyncIterator[httpx.AsyncClient]:
    """A client for the requests of one sign-in. Raises ProviderSilent for whatever keeps them from an answer."""
    try:
        async with asyncio.timeout(PATIENCE):
            place = urlsplit(words.oidc)
            found = await Guard(allow_private=True).resolve(place.hostname or "", place.port or 443)
            is_ours = not all(is_public(ip_address(address)) for _, address in found)
            transport = _Guarded(Guard(allow_private=is_ours), place.scheme)
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                yield client
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError, TypeError) as error:
        raise ProviderSilent(f"{type(error).__name__}: {error}") from error


@cache
def _trusted() -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


async def _about(client: httpx.AsyncClient, words: SignIn) -> Mapping[str, Any]:
    """What the provider says of itself."""
    about = _record(await client.get(f"{words.oidc.rstrip('/')}/.well-known/openid-configuration"))
    if str(about["issuer"]).rstrip("/") != words.oidc.rstrip("/"):
        raise ProviderSilent(f"{words.oidc} calls itself {about['issuer']}; write that into amends.yaml")
    return about


def _record(answer: httpx.Response) -> Mapping[str, Any]:
    found = answer.raise_for_status().json()
    if not isinstance(found, dict):
        raise TypeError(f"{answer.url.path} does not answer with a record")
    return found
