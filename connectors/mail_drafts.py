"""Mails as drafts: put among the drafts of a mailbox by IMAP, where a person can read, change and send them.

A draft is known by its Message-ID, which is made of our key: by it a draft is looked up, and removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.imap import PORTS, Declined, Entry, OpenMailbox
from connectors.letter import FIELDS, message_of
from connectors.servers import read_server
from runner.contract import Action, Json, Outcome, Purpose, Reason, Tools, Undo
from runner.errors import NotFound, RequestError, SecretMissing, SettingsError

SETTINGS: Mapping[str, Json] = {
    "imap": "text or empty",
    "imap_port": "integer or empty",
    "imap_security": {"choice": ["tls", "starttls", "none"], "empty": True},
    "drafts": "text or empty",
}
"""What a mail connection says of the mailbox with its drafts: its server, and the folder if that is not its own one."""

_LEAVE = Action(
    name="draft",
    title="Leaves a mail among the drafts, where a person can send it. Several addresses in `to` are one draft each.",
    effect="lookup",
    has_lookup=True,
    lookup_delay=2_000,
    input=FIELDS,
    output={"message_id": "text", "to": "text", "folder": "text"},
    undo=Undo(action="remove_draft", with_={"message_id": "${{ output.each | pick('message_id') }}"}),
    sample={"message_id": "<draft@example.com>", "to": "someone@example.com", "folder": "Drafts"},
    timeout=60_000,
    fan_out="to",
    renders_template=True,
)
_REMOVE = Action(
    name="remove_draft",
    title="Removes a draft by its Message-ID. One that is not there any more was sent or removed by a person.",
    effect="keyed",
    key_life=100 * 365 * 24 * 3_600_000,
    input={"message_id": "any"},
    output={"message_id": "text", "removed": "yes_no"},
    cannot_undo="A draft that was removed is gone; leave it again.",
    timeout=60_000,
    fan_out="message_id",
)
ACTIONS: Mapping[str, Action] = {action.name: action for action in (_LEAVE, _REMOVE)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafts:
    """The drafts of one connection. `folder` is empty where it is the server's own."""

    entry: Entry
    folder: str

    def leave(self, letter: Mapping[str, Json]) -> dict[str, Json]:
        """The draft as it is frozen."""
        return {**letter, "drafts": self.folder}

    def remove(self, input: Mapping[str, Json]) -> dict[str, Json]:
        """Which draft is to be removed. Raises RequestError."""
        message_id = input.get("message_id")
        if not isinstance(message_id, str) or not message_id.startswith("<"):
            raise RequestError("message_id must be the Message-ID of a draft, like <…@example.com>")
        return {"remove_draft": message_id, "drafts": self.folder}

    async def send(self, letter: Mapping[str, Json], *, purpose: Purpose, limit: int) -> Outcome:
        """Leaves a draft, looks for it, or removes it."""
        attempt = _Attempt(self.entry.tools)
        try:
            async with asyncio.timeout(limit / 1000):
                box = await self.entry.log_in()
                try:
                    return await attempt.carry_out(box, letter, purpose)
                finally:
                    await box.close()
        except SecretMissing as error:
            return Outcome(result="not_sent", reason="forbidden", summary=f"{self.entry.name}: {error}")
        except NotFound as error:
            return Outcome(result="not_sent", reason="not_found", summary=str(error))
        except Declined as error:
            reason: Reason = "unavailable" if attempt.began else "forbidden"
            return Outcome(result="refused", reason=reason, summary=str(error))
        except (ConnectionError, TimeoutError) as error:
            summary = str(error) or f"{self.entry.server.shown} did not answer in time"
            return Outcome(result="unknown" if attempt.began else "not_sent", reason="connection", summary=summary)


class _Attempt:
    """One conversation. `began`: from then on something may have changed."""

    def __init__(self, tools: Tools) -> None:
        self.began = False
        self._tools = tools

    async def carry_out(self, box: OpenMailbox, letter: Mapping[str, Json], purpose: Purpose) -> Outcome:
        message_id = str(letter.get("remove_draft") or letter["message_id"])
        is_removal = "remove_draft" in letter
        message = b"" if is_removal or purpose == "lookup" else message_of(letter, self._tools)
        folder = await box.drafts_folder(str(letter["drafts"]))
        if message:
            self.began = True
            await box.append_draft(folder, message)
        else:
            await box.select(folder, is_readonly=not is_removal)
        found = [] if message else await box.drafts(message_id)
        if is_removal:
            if found:
                self.began = True
                await box.remove(found)
            output: dict[str, Json] = {"message_id": message_id, "removed": bool(found)}
            return Outcome(result="applied", output=output, external_id=message_id)
        left = {"message_id": message_id, "to": str(letter["recipient"]), "folder": folder}
        count = None if message else len(found)
        return Outcome(result="applied", output=left, external_id=message_id, count=count)


def read_drafts(name: str, settings: Mapping[str, Json], login: tuple[Json, ...], tools: Tools) -> Drafts | None:
    """The drafts of a mail connection that says where its mailbox is. Raises SettingsError."""
    if not settings.get("imap"):
        for word in ("imap_port", "imap_security", "drafts"):
            if settings.get(word):
                raise SettingsError(
                    f"{name}: {word} is about drafts; name their server too, like imap: imap.example.com"
                )
        return None
    if not login:
        raise SettingsError(f"{name}: imap needs user and password, with which the mailbox is opened")
    said = {"host": settings["imap"], "port": settings.get("imap_port"), "security": settings.get("imap_security")}
    also = {word: settings[word] for word in ("allow_private", "allow_insecure", "ca") if word in settings}
    server = read_server(f"{name}, imap", {**also, **said}, PORTS, "imap.example.com")
    entry = Entry(name=name, server=server, login=login, tools=tools)
    return Drafts(entry=entry, folder=str(settings.get("drafts") or ""))
