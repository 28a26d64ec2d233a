"""Kinds whose actions are carried out by the store, inside the transaction that records their outcome, so that each
happens exactly once. They are declared here; nothing of them ever leaves the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.rendering import checked_input
from connectors.service import no_such_action
from runner.contract import Action, Connector, Effect, Json, Outcome, Purpose, Request, Tools
from runner.errors import NotPossible, SettingsError

_FOREVER = 100 * 365 * 24 * 3_600_000
"""Life of a key, ms: the store never forgets one."""


def own(name: str, title: str, *, effect: Effect = "keyed", **more: Any) -> Action:
    """An action on our own tables."""
    return Action(name=name, title=title, effect=effect, own=True, key_life=_FOREVER * (effect == "keyed"), **more)


class OwnKind:
    """A kind of connection to our own tables. It takes no settings."""

    def __init__(self, name: str, title: str, *actions: Action) -> None:
        self.name = name
        self.title = title
        self._actions = {action.name: action for action in actions}

    def settings(self) -> Mapping[str, Json]:
        return {}

    def actions(self) -> Mapping[str, Action]:
        return self._actions

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        for setting in settings:
            raise SettingsError(f"{name}: {self.name} takes no settings, and {setting} is one")
        return _Own(name=name, kind=self.name, actions=self._actions)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    name: str
    kind: str
    actions: Mapping[str, Action]

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        """The operation as it will be carried out: `{"own": "records.create", "input": {…}}`."""
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        checked = checked_input(declared, input)
        given = {name: value for name, value in checked.items() if value is not None or name not in declared.input}
        return Request.of({"own": f"{self.kind}.{action}", "input": given})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """Never to be called: there is nobody to send to."""
        what = f"{self.kind}.{action} is carried out by the store, together with its outcome"
        raise NotPossible(f"{what}; it is not sent")

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return f"own:{self.kind}"
