"""How one person of ours is told something: a mail through the connection that `tell_by` names, a chat message.

Neither raises: what became of a message is an `Outcome`. `applied`: it is handed over. `refused`: not to this address
(for ever, unless the reason is `unavailable`). `not_sent` and `unknown`: it may be sent again under the same key, which
keeps its Message-ID, so that a mailbox that has it already can tell.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from markupsafe import Markup, escape

from runner.clock import SECOND
from runner.contract import Connector, Outcome
from runner.errors import EvaluationError, RequestError, SecretMissing, SettingsError
from runner.guard import Guard
from runner.language.people import Person
from runner.language.project import Project

Channel = Literal["mail", "chat"]
LIMIT = 30 * SECOND
"""How long a mail server may take, ms."""
OURS = Guard(allow_private=True)
"""Where chat messages to our own people may go: the team's chat may stand in its own network."""
QUOTE = "> "
"""How a paragraph begins that others wrote."""
BUTTON = "display:inline-block;padding:.6em 1em;border:1px solid;border-radius:4px;text-decoration:none"


class Post:
    """Tells people. `project` is asked each time: its files may have changed. `connect` makes a connection's connector,
    `secret` gives a secret's value."""

    def __init__(
        self, project: Callable[[], Project], connect: Callable[[str], Connector], secret: Callable[[str], str]
    ) -> None:
        self._project = project
        self._connect = connect
        self.secret = secret

    def channels(self, person: Person) -> tuple[Channel, ...]:
        """How this person can be reached here and now."""
        found: list[Channel] = ["mail"] if person.mail and self._project().settings.tell_by else []
        return (*found, "chat") if person.chat else tuple(found)

    def language(self, person: Person) -> str:
        """The language this person is spoken to in."""
        return person.language or self._project().settings.language

    async def tell(self, channel: str, person: Person, subject: str, text: str, key: str, *, link: str = "") -> Outcome:
        """By one of their channels."""
        if channel == "chat":
            return await self.chat(person, subject, f"{text}\n\n{link}".strip())
        return await self.mail(person, subject, text, key, link=link)

    async def mail(self, person: Person, subject: str, text: str, key: str, *, link: str = "") -> Outcome:
        """A mail. Paragraphs of `text` are parted by an empty line, one that others wrote begins with QUOTE; `link`
        stands behind them, as a button in HTML.

        `key` names what is told: under one key there is one Message-ID.
        """
        teller = self._project().settings.tell_by
        if not teller:
            return Outcome(result="refused", reason="not_found", summary="amends.yaml has no line tell_by")
        html = _html(subject, text, link, self.language(person))
        letter = {"to": person.mail, "subject": subject, "text": f"{text}\n\n{link}".strip() + "\n", "html": html}
        try:
            connector = self._connect(teller)
            request = connector.prepare("send", letter, key=key, purpose="do")
            return await connector.send("send", request, key=key, purpose="do", limit=LIMIT)
        except (RequestError, EvaluationError) as error:
            return Outcome(result="refused", reason="invalid", summary=str(error))
        except SettingsError as error:
            return Outcome(result="not_sent", reason="unavailable", summary=str(error))

    async def chat(self, person: Person, subject: str, text: str) -> Outcome:
        """A message to the address that the person's secret holds."""
        try:
            address = self.secret(person.chat)
        except SecretMissing as error:
            return Outcome(result="not_sent", reason="unavailable", summary=str(error))
        sent: Outcome = await importlib.import_module("runner.chat").send(address, subject, text, guard=OURS)
        # Of a notice nobody is asked what became of it: twice does less harm than not at all.
        return replace(sent, result="not_sent") if sent.result == "unknown" else sent


def _html(subject: str, text: str, link: str, language: str) -> str:
    """The same as a plain page: paragraphs, and the link as a button that is spelled out below."""
    body = Markup("\n").join(_paragraph(part) for part in text.split("\n\n"))
    if link:
        shown = Markup('<p><a href="{0}" style="{1}">{2}</a></p>\n<p><a href="{0}">{0}</a></p>')
        body += Markup("\n") + shown.format(link, BUTTON, subject)
    page = Markup('<!doctype html>\n<html lang="{}"><head><meta charset="utf-8"><title>{}</title></head>\n{}</html>\n')
    frame = Markup('<body style="font-family:sans-serif;line-height:1.5;max-width:36em">\n{}\n</body>').format(body)
    return str(page.format(language, subject, frame))


def _paragraph(part: str) -> Markup:
    """What others wrote stands apart from our own words."""
    is_quoted = part.startswith(QUOTE)
    lines = escape(part.removeprefix(QUOTE)).replace("\n", Markup("<br>\n"))
    return Markup("<blockquote>{}</blockquote>" if is_quoted else "<p>{}</p>").format(lines)
