"""Deliveries that come and deliveries that go, by one secret: what a webhook trigger's `signed_by` names, and
`send`, which signs by Standard Webhooks 1.0.0 (symmetric, v1).

What proves a delivery that came is worked out by `runner.triggers.signatures`. One that goes has an id made of our key,
so a receiver can tell a second attempt; whether it does is the receiver's to promise (`remembers`), and without that
promise a delivery is of class `once`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.auth import is_header_name
from connectors.rendering import checked_input, json_body
from connectors.service import (
    HTTP_SETTINGS,
    Service,
    check_settings,
    no_such_action,
    read_place,
    secret_only,
    shown,
)
from connectors.wire import origin_of
from runner.clock import HOUR, SECOND, MachineClock
from runner.contract import Action, Connector, Effect, Json, Outcome, Purpose, Request, Tools
from runner.errors import RequestError, SecretMissing, SettingsError
from runner.language.clauses import duration

_SENDS = ("send_to", "remembers", "allow_private", "ca")
SCHEMES: Mapping[str, tuple[str, ...]] = {
    "standard": ("window", *_SENDS),
    "github": (),
    "stripe": ("window",),
    "slack": ("window",),
    "hmac": ("header", "encoding", "prefix"),
    "basic": ("user",),
    "token": ("header", "prefix"),
}
"""Each scheme, with the settings that it has beside its secrets."""

NEEDS: Mapping[str, tuple[str, ...]] = {"hmac": ("header",), "token": ("header",), "basic": ("user",)}
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What an id may be: it is signed between full stops."""


def _send(effect: Effect, life: int) -> Action:
    return Action(
        name="send",
        title="Delivers an event to the address of the connection, signed by Standard Webhooks.",
        effect=effect,
        key_life=life,
        input={"type": "text", "data": "any or empty", "timestamp": "text or empty"},
        output={"id": "text", "status": "integer"},
        cannot_undo="An event that was taken cannot be taken back; send another one that corrects it.",
        sample={"id": "draft", "status": 204},
    )


class WebhookKind:
    """The kind `webhook`."""

    name = "webhook"
    title = "Proves deliveries that come to a webhook trigger, and sends signed ones"

    def settings(self) -> Mapping[str, Json]:
        return {
            "scheme": {"choice": list(SCHEMES)},
            "secret": "secret",
            "old_secret": "secret or empty",
            "window": "text or empty",
            "header": "text or empty",
            "encoding": {"choice": ["hex", "base64"], "empty": True},
            "prefix": "text or empty",
            "user": "text or empty",
            "send_to": "text or empty",
            "remembers": "text or empty",
            **{word: HTTP_SETTINGS[word] for word in ("allow_private", "ca")},
        }

    def actions(self) -> Mapping[str, Action]:
        """What a connection with `send_to` offers, where the receiver promises nothing."""
        return {"send": _send("once", 0)}

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """The actions of a connection with these settings: none without `send_to`. Raises SettingsError."""
        if not settings.get("send_to"):
            return {}
        life = _remembered("webhook", settings.get("remembers"))
        return {"send": _send("keyed", life)} if life else self.actions()

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        scheme = str(settings["scheme"])
        if scheme not in SCHEMES:
            raise SettingsError(f'{name}: scheme "{scheme}" must be one of {", ".join(SCHEMES)}')
        for word in ("secret", "old_secret"):
            if word in settings:
                secret_only(name, word, settings[word])
        for word in settings:
            if word not in ("scheme", "secret", "old_secret", *SCHEMES[scheme]):
                fits = [one for one, own in SCHEMES.items() if word in own]
                raise SettingsError(f"{name}: {word} means nothing to scheme {scheme}; it is for {', '.join(fits)}")
        for word in NEEDS.get(scheme, ()):
            if not settings.get(word):
                raise SettingsError(f"{name}: scheme {scheme} needs {word}")
        _check_values(name, settings)
        where = str(settings.get("send_to") or "")
        place, client = read_place(name, {**settings, "origin": _place(name, where, settings)}, tools=tools)
        made = _Webhook(
            name=name, actions=self.actions_for(settings), place=place, client=client, tools=tools, settings=settings
        )
        if where:
            try:
                made.url(where)
            except RequestError as error:
                raise SettingsError(f"{name}: send_to: {error}") from None
        return made


def _place(name: str, where: str, settings: Mapping[str, Json]) -> str:
    """Scheme, host and port that deliveries go to; empty where none are sent."""
    if not where:
        for word in _SENDS[1:]:
            if word in settings:
                raise SettingsError(f"{name}: {word} is for deliveries that are sent; say where to with send_to")
        return ""
    if not origin_of(where).startswith(("http://", "https://")):
        raise SettingsError(f'{name}: send_to "{shown(where)}" must be like https://hooks.example.com/in')
    return origin_of(where)


def _remembered(name: str, told: Json) -> int:
    """How long the receiver promises to know an id again, ms; 0 where it promises nothing."""
    if told is None:
        return 0
    try:
        return duration(str(told)).ms
    except (ValueError, KeyError):
        what = "is not how long the receiver knows an id again; write it like 7 days"
        raise SettingsError(f'{name}: remembers "{told}" {what}') from None


def _check_values(name: str, settings: Mapping[str, Json]) -> None:
    if "header" in settings and not is_header_name(str(settings["header"])):
        raise SettingsError(f'{name}: header "{settings["header"]}" cannot be the name of a header')
    if ":" in str(settings.get("user", "")):
        raise SettingsError(f"{name}: user must not hold a colon")
    if "window" in settings:
        try:
            length = duration(str(settings["window"])).ms
        except (ValueError, KeyError):  # not a duration, or one that needs a calendar
            length = 0
        if not SECOND <= length <= HOUR:
            raise SettingsError(f"{name}: window must be from 1 s to 1 hour, like 5 min")


@dataclass(kw_only=True)
class _Webhook(Service):
    """One peer: `send_to` is empty where nothing is sent to it."""

    settings: Mapping[str, Json] = field(default_factory=dict)

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        if purpose != "do":
            raise RequestError(f"{self.name} can be sent events; it cannot be asked, and takes nothing back")
        given = {name: value for name, value in checked_input(declared, input).items() if value is not None}
        url = self.url(str(self.settings["send_to"]))
        body = json_body(given)
        headers = {"content-type": "application/json"}
        return Request.of({"method": "POST", "url": url, "headers": headers, "body": body, "id": _id_of(key)})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """Signed with the time of this attempt. Any answer 2xx says that the event was taken, whatever is in it."""
        name, time = str(request.body["id"]), str(MachineClock().now() // SECOND)
        signed = f"{name}.{time}.{request.body['body']}".encode()
        try:
            signature = " ".join(_signatures(self.keys(), signed))
        except (SecretMissing, SettingsError) as error:
            return Outcome(result="not_sent", reason="forbidden", summary=f"{self.name}: {error}")
        extra = {"webhook-id": name, "webhook-timestamp": time, "webhook-signature": signature}
        once = self.actions[action].effect == "once"
        seen = await self.exchange(request.body, scope={}, extra=extra, reads=False, once=once, limit=limit)
        if isinstance(seen, Outcome):
            return seen
        status = seen.answer.status
        if not 200 <= status < 300:
            return seen.failed()
        return Outcome(result="applied", output={"id": name, "status": status}, external_id=name)

    def keys(self) -> tuple[str, ...]:
        """The secret, and the one before it, as they are at this moment. Raises SecretMissing."""
        named = [self.settings[word]["secret"] for word in ("secret", "old_secret") if word in self.settings]
        return tuple(self.tools.secret(name) for name in named)

    def origin(self) -> str:
        return self.place or f"webhook:{self.name}"


def _id_of(key: str) -> str:
    """The id of a delivery: our key, or a digest of one that an id cannot be."""
    return key if _PLAIN.fullmatch(key) else f"msg_{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _signatures(keys: tuple[str, ...], text: bytes) -> Iterator[str]:
    """One for each secret, so that a receiver that knows either will do. Raises SettingsError."""
    for key in keys:
        try:
            bare = key.removeprefix("whsec_")
            secret = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except ValueError:
            what = "its secret is not base64, which Standard Webhooks asks for: whsec_…; nothing was sent"
            raise SettingsError(what) from None
        yield "v1," + base64.b64encode(hmac.digest(secret, text, "sha256")).decode()


KIND: Any = WebhookKind()
