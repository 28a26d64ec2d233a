"""Chat messages to whatever apprise knows: Slack, Teams, Discord, Telegram, LINE, Mattermost, ntfy and many more.

The address holds the credentials, so all of it is a secret. Chats know no key: a message is `once`, and since apprise
does not say how far a message came, whatever failed is `unknown`. Its requests are its own, and the guard looks at each
socket that they open.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connectors.rendering import checked_input
from connectors.service import check_settings, no_such_action, resolver, secret_only, switch
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools
from runner.errors import RequestError, SecretMissing
from runner.guard import Guard

SEND = Action(
    name="send",
    title="Sends a message to the room, person or channel that the connection's address names.",
    effect="once",
    input={"text": "text", "title": "text or empty"},
    output={"accepted": "yes_no"},
    cannot_undo="A message that was sent has been read; send another one that corrects it.",
    sample={"accepted": True},
)


class ChatKind:
    """The kind `chat`."""

    name = "chat"
    title = "Messages to a chat, by the services that apprise knows"

    def settings(self) -> Mapping[str, Json]:
        return {"address": "secret", "allow_private": "yes_no or empty"}

    def actions(self) -> Mapping[str, Action]:
        return {"send": SEND}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        allow = switch(name, settings, "allow_private")
        address = secret_only(name, "address", settings["address"])
        return _Chat(name=name, address=address, guard=Guard(allow_private=allow), tools=tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chat:
    """One address."""

    name: str
    address: Json
    guard: Guard
    tools: Tools

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"send": SEND}

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        if action != "send":
            no_such_action(self.name, action, self.actions)
        if purpose not in ("do", "undo"):
            raise RequestError(f"{self.name} can be sent messages; it cannot be asked")
        given = checked_input(SEND, input)
        return Request.of({"text": given["text"], "title": given["title"] or ""})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        try:
            address = resolver(self.tools)(self.address)
        except SecretMissing as error:
            return Outcome(result="not_sent", reason="forbidden", summary=f"{self.name}: {error}")
        chat: Any = importlib.import_module("runner.chat")
        try:
            async with asyncio.timeout(limit / 1000):
                said = chat.send(address, request.body["title"], request.body["text"], guard=self.guard)
                found: Outcome = await said
        except TimeoutError:
            found = Outcome(result="unknown", reason="timeout", summary=f"no answer came within {limit / 1000:g} s")
        return replace(found, summary=self.tools.redact(f"{self.name}: {found.summary}" if found.summary else ""))

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return f"chat:{self.name}"


KIND: Any = ChatKind()
