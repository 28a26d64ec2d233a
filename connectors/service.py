"""One HTTP service as a connection sees it: where it is, how we prove who we are, and one exchange with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from connectors.answers import Seen, media_type, text_of
from connectors.auth import AUTH, Resolve, credentials, header_value, with_query
from connectors.client import Client
from connectors.letter import build
from connectors.login import Login
from connectors.oauth import OAuth2
from connectors.rendering import answered
from connectors.stored import content_of, multipart_body
from connectors.tokens import NoToken, Tokens, is_safe, whole_address
from connectors.wire import DEFAULT_HEADERS, MAX_BODY, Answer, Wire, origin_of, same_origin
from runner.clock import MachineClock
from runner.contract import Action, Json, Outcome, Reason, Tools, Watching, missing
from runner.errors import EvaluationError, NotFound, NotPossible, RequestError, SecretMissing, SettingsError
from runner.guard import AddressRefused, Guard
from runner.language.nearest import did_you_mean

HTTP_SETTINGS: Mapping[str, Json] = {
    "origin": "text or empty",
    "allow_private": "yes_no or empty",
    "ca": "text or empty",
    "certificate": "text or empty",
    "certificate_password": "secret or empty",
}
"""What every connection to an HTTP service may say. `ca` is a file of certificates to trust beside the usual ones,
`certificate` one with a certificate of ours and its private key, by which the service knows us."""

_ENCODED = re.compile(r"[\x21\x22\x24-\x7e]*")
_DOT_STEP = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)


def is_secret(kind: Json) -> bool:
    """Whether a setting of this type names a secret."""
    return kind in ("secret", "secret or empty")


def read_place(
    name: str, settings: Mapping[str, Json], default_origin: str = "", *, tools: Tools, largest: int = MAX_BODY
) -> tuple[str, Client]:
    """(origin, the client for it) from the settings of a connection. Raises SettingsError.

    The origin may have a path that stands before every path; empty = any public address.
    """
    guard = Guard(allow_private=switch(name, settings, "allow_private"))
    origin = settings.get("origin", "") or default_origin
    if not isinstance(origin, str):
        raise SettingsError(f"{name}: origin must be a text like https://api.example.com")
    if origin:
        _check_origin(name, origin, guard)
    own, password = trusted_file(name, settings.get("certificate"), "certificate"), None
    if settings.get("certificate_password") is not None:
        password = partial(resolver(tools), secret_only(name, "certificate_password", settings["certificate_password"]))
    ca = trusted_file(name, settings.get("ca"))
    client = Client(guard=guard, ca=ca, certificate=own, password=password, max_body=largest)
    return origin.rstrip("/"), client


def switch(name: str, settings: Mapping[str, Json], word: str) -> bool:
    """A setting that is true or false, false where it is not said. Raises SettingsError."""
    value = settings.get(word, False)
    if not isinstance(value, bool):
        raise SettingsError(f"{name}: {word} must be true or false")
    return value


def trusted_file(name: str, file: Json, setting: str = "ca") -> str:
    """A setting that is a file of certificates, or empty. Raises SettingsError."""
    if file and (not isinstance(file, str) or not Path(file).is_file()):
        raise SettingsError(f'{name}: {setting} must be a file of certificates, and "{file}" is none')
    return file or ""


def _check_origin(name: str, origin: str, guard: Guard) -> None:
    if not _ENCODED.fullmatch(origin.partition("#")[0]) or not origin_of(origin).startswith(("http://", "https://")):
        raise SettingsError(f'{name}: origin "{shown(origin)}" must be like https://api.example.com')
    parts = urlsplit(origin)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(f"{name}: origin holds more than scheme, host, port and path; credentials belong in .env")
    try:
        guard.check_host(parts.hostname or "")
    except AddressRefused as error:
        raise SettingsError(f"{name}: {error}") from None


def secret_or_text(name: str, field_name: str, value: Json) -> Json:
    """A setting that is a text or `{ secret: NAME }`. Raises SettingsError."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, Mapping) and list(value) == ["secret"] and isinstance(value["secret"], str):
        return value
    raise SettingsError(f"{name}: {field_name} must be {{ secret: NAME }}, with the value in .env or the environment")


def secret_only(name: str, field_name: str, value: Json) -> Json:
    """A setting that must be `{ secret: NAME }`. Raises SettingsError; the value itself is never repeated."""
    if isinstance(value, str):
        raise SettingsError(
            f"{name}: {field_name} holds the value itself; write {{ secret: NAME }} and put the value into .env"
        )
    return secret_or_text(name, field_name, value)


def resolver(tools: Tools, settings: Mapping[str, Json] | None = None) -> Resolve:
    """Reads values at the send. A text names a setting if there are settings, else it stands for itself."""

    def resolve(value: Json) -> str:
        if settings is not None and isinstance(value, str):
            value = settings.get(value)
        return tools.secret(str(value["secret"])) if isinstance(value, Mapping) else str(value)

    return resolve


def token_source(
    name: str, auth: Mapping[str, Json], settings: Mapping[str, Json], *, place: str, client: Client, tools: Tools,
    resolve: Resolve,
) -> Tokens | None:  # fmt: skip
    """Where the tokens of a connection come from, None where it needs none. Raises SettingsError."""
    way = next((one for one in ("oauth2", "login") if one in auth), None)
    if way is None:
        return None
    told = {**auth[way], **{word: settings[word] for word in AUTH[way].settings if settings.get(word)}}
    plain = {setting: value for setting, value in settings.items() if not isinstance(value, Mapping)}
    for word in ("token_url", "authorize_url", "post"):
        if told.get(word):
            try:
                told[word] = whole_address(answered(told[word], {"connection": plain}), place)
            except EvaluationError as error:
                raise SettingsError(f"{name}: {word}: {error}") from None
            if not is_safe(told[word], allow_private=settings.get("allow_private", False)):
                raise SettingsError(f"{name}: {word} must begin with https://; credentials go there")
    if way == "login":
        told["connection"] = plain
        return Login(name, told, place=place, client=client, tools=tools, resolve=resolve)
    return OAuth2(name, told, place=place, client=client, tools=tools, resolve=resolve)


def check_settings(name: str, kind: str, known: Mapping[str, Json], settings: Mapping[str, Json]) -> None:
    """Raises SettingsError for a setting that a kind of connection does not have, or one that is lacking."""
    for setting in settings:
        if setting not in known:
            hint = did_you_mean(setting, known, "it has")
            raise SettingsError(f'{name}: a connection to {kind} has no "{setting}"; {hint}')
    for absent in missing(known, list(settings)):
        raise SettingsError(f"{name}: a connection to {kind} needs {absent}")


def no_such_action(name: str, action: str, actions: Mapping[str, object]) -> NoReturn:
    """Raises the RequestError for an action that a connection does not have."""
    raise RequestError(f'{name} has no action "{action}"; {did_you_mean(action, actions, "it has")}')


@dataclass(kw_only=True)
class Service:
    """One connection to a service. `auth` is a spec of `connectors.auth`; `secret_headers` are added at the send like
    credentials."""

    name: str
    actions: Mapping[str, Action]
    place: str
    client: Client
    tools: Tools
    auth: Mapping[str, Json] = field(default_factory=dict)
    tokens: Tokens | None = None
    resolve: Resolve = str
    secret_headers: Mapping[str, Json] = field(default_factory=dict)
    _watching: Watching | None = field(init=False)

    def __post_init__(self) -> None:
        # Asked once: a protocol costs too much to ask with each exchange.
        self._watching = self.tools if isinstance(self.tools, Watching) else None

    async def close(self) -> None:
        """Closes every connection."""
        if self.tokens is not None:
            await self.tokens.close()
        await self.client.close()

    def consent_address(self, *, back: str, state: str, verifier: str) -> str:
        """Where a person agrees to what we may do there. Raises NotPossible."""
        if not isinstance(self.tokens, OAuth2):
            raise NotPossible(f"{self.name} needs nobody's consent: it has no oauth2")
        return self.tokens.consent_address(back=back, state=state, verifier=verifier)

    async def take_consent(self, code: str, *, back: str, verifier: str) -> None:
        """The tokens for what the browser came back with, kept. Raises NoToken, SecretMissing, StoreError."""
        if isinstance(self.tokens, OAuth2):
            await self.tokens.take_consent(code, back=back, verifier=verifier)

    def origin(self) -> str:
        """Where requests go; empty = anywhere."""
        return self.place

    def url(self, where: str) -> str:
        """The absolute URL of a path (or, without an origin, of a URL). Raises RequestError."""
        origin = self.place
        if where.startswith("/") and not where.startswith("//"):
            if not origin:
                raise RequestError(f'{self.name} has no origin, so "{where}" must be a whole URL')
            url = origin + where
        else:
            url = where
            if not origin_of(url).startswith(("http://", "https://")):
                raise RequestError(f'"{shown(url)}" is not a URL that begins with http:// or https://')
            if origin and not same_origin(origin, url):
                raise RequestError(f"{self.name} goes to {origin} only, and not to {shown(url)}")
            if "@" in urlsplit(url).netloc:
                raise RequestError(f"a URL must not hold credentials; {self.name} adds them itself")
        if not _ENCODED.fullmatch(url):
            raise RequestError(f'"{shown(url)}" holds a space, a "#" or a sign that must be percent-encoded')
        if _DOT_STEP.search(url.partition("?")[0]):
            raise RequestError(f'the path of {shown(url)} holds a "." or ".." step')
        return url

    async def exchange(
        self,
        body: Mapping[str, Json],
        *,
        scope: Mapping[str, Json],
        extra: Mapping[str, str],
        reads: bool,
        once: bool,
        limit: int,
        with_text: bool = True,
    ) -> Seen | Outcome:
        """Sends a prepared request with its credentials and `extra` headers. An Outcome means: no complete answer.

        What the answer echoes of our secrets is taken out before anybody sees it.
        """
        url, origin = str(body["url"]), self.place
        if origin and not url.startswith(f"{origin}/") and not same_origin(origin, url):
            summary = f"the request was made for {origin_of(url)}, and {self.name} now goes to {origin}"
            return Outcome(result="not_sent", reason="forbidden", summary=summary)
        try:
            content = self._content(body)
        except NotFound as error:
            return Outcome(result="not_sent", reason="not_found", summary=f"{self.name}: {error}")
        headers = {**DEFAULT_HEADERS, **body.get("headers", {}), **extra}
        wire = Wire(method=str(body["method"]), url=url, headers=headers, body=content)
        found = await self._sent(wire, limit, once=once, follow=reads)
        if isinstance(found, Outcome):
            return found
        answer = self._redacted(found)
        if self._watching is not None:
            text = answer.body.decode("utf-8", errors="replace")
            said = {"status": answer.status, "headers": answer.headers, "text": text}
            self._watching.exchanged({**body, "headers": headers}, said)
        return Seen.of(answer, scope=scope, with_text=with_text, url=url, redact=self.tools.redact)

    def _content(self, body: Mapping[str, Json]) -> bytes:
        """The bytes of a prepared body. Raises NotFound."""
        if "parts" in body:
            return multipart_body(body["parts"], self.tools)
        if "letter" in body:
            letter = body["letter"]
            files = [content_of(self.tools, file) for file in letter.get("attach", ())]
            return build(letter, files, at=MachineClock().now()).as_bytes()
        return str(body.get("body", "")).encode()

    async def _sent(self, wire: Wire, limit: int, *, once: bool, follow: bool) -> Answer | Outcome:
        """Sends it with what proves who we are. A 401 says that nothing was done: then once more, with a new token."""
        clock, used = MachineClock(), ""
        ends = clock.monotonic() + limit
        while True:
            try:
                left = max(ends - clock.monotonic(), 1)
                token = await self.tokens.access(left, instead_of=used) if self.tokens is not None else ""
                proved = self._proved(wire, token)
                self.client.prepare(fresh=once)
            except (SecretMissing, RequestError, NoToken) as error:
                reason: Reason = error.reason if isinstance(error, NoToken) else "forbidden"
                lost = Outcome(result="not_sent", reason=reason, summary=f"{self.name}: {error}")
                return _after_401(lost) if used else lost
            left = max(ends - clock.monotonic(), 1)
            found = await self.client.exchange(proved, limit=left, fresh=once, follow=follow)
            if used and isinstance(found, Outcome):
                return _after_401(found)
            if not token or used or isinstance(found, Outcome) or found.status != 401:
                return found
            used = token

    def _proved(self, wire: Wire, token: str) -> Wire:
        """The request with what proves who we are. Raises SecretMissing, RequestError."""
        secret = {
            name: header_value(self.resolve(value), f"the value of the header {name}")
            for name, value in self.secret_headers.items()
        }
        bearer = self.tokens.headers(token) if token and self.tokens is not None else {}
        headers, query = credentials(self.auth, self.resolve, wire)
        return replace(wire, url=with_query(wire.url, query), headers={**wire.headers, **secret, **bearer, **headers})

    def _redacted(self, answer: Answer) -> Answer:
        text, read = answer.body.decode("utf-8", errors="surrogateescape"), ""
        if "charset" in answer.headers.get("content-type", "").lower():
            read = text_of(answer)  # in UTF-16 a secret has other bytes
        said = "\n".join((*answer.headers.values(), text, read))
        if self.tools.redact(said) == said:
            return answer
        headers = {name: self.tools.redact(value) for name, value in answer.headers.items()}
        if self.tools.redact(read) != read:
            text, headers["content-type"] = read, f"{media_type(answer)}; charset=utf-8"
        body = self.tools.redact(text).encode("utf-8", errors="surrogateescape")
        return Answer(status=answer.status, headers=headers, body=body)


def _after_401(second: Outcome) -> Outcome:
    """What never left a second time did leave the first time, and was refused."""
    if second.result != "not_sent":
        return second
    return replace(second, result="refused", reason="forbidden" if second.reason == "forbidden" else "unavailable")


def shown(url: str) -> str:
    """A URL as a sentence may show it: without user, query and fragment, and not too long."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0][:120]
    if not parts.netloc:
        return url.partition("?")[0][:120]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:120]
