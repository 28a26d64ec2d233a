"""Where deliveries come from: the secret that a webhook trigger's `signed_by` names, and the way it is used.

Nothing is sent here. What proves a delivery is worked out by `runner.triggers.signatures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.auth import is_header_name
from connectors.service import check_settings, no_such_action, secret_only
from runner.clock import HOUR, SECOND
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools
from runner.errors import NotPossible, SettingsError
from runner.language.clauses import duration

SCHEMES: Mapping[str, tuple[str, ...]] = {
    "standard": ("window",),
    "github": (),
    "stripe": ("window",),
    "slack": ("window",),
    "hmac": ("header", "encoding", "prefix"),
    "basic": ("user",),
    "token": ("header", "prefix"),
}
"""Each scheme, with the settings that it has beside its secrets."""

NEEDS: Mapping[str, tuple[str, ...]] = {"hmac": ("header",), "token": ("header",), "basic": ("user",)}


class WebhookKind:
    """The kind `webhook`."""

    name = "webhook"
    title = "Proves deliveries that come to a webhook trigger"

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
        }

    def actions(self) -> Mapping[str, Action]:
        return {}

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
        return _Webhook(name=name, settings=settings, tools=tools)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Webhook:
    """One sender of deliveries. It has no actions yet."""

    name: str
    settings: Mapping[str, Json]
    tools: Tools

    @property
    def actions(self) -> Mapping[str, Action]:
        return {}

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        no_such_action(self.name, action, {})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """Never to be called: there is nothing to send."""
        raise NotPossible(f"{self.name} takes deliveries; it sends nothing")

    def keys(self) -> tuple[str, ...]:
        """The secret, and the one before it, as they are at this moment. Raises SecretMissing."""
        named = [self.settings[word]["secret"] for word in ("secret", "old_secret") if word in self.settings]
        return tuple(self.tools.secret(name) for name in named)

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return f"webhook:{self.name}"


KIND: Any = WebhookKind()
