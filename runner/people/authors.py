"""Tells whoever owns a flow that its newer text has a problem, so that the last good version goes on, or that a secret
is not set."""

from __future__ import annotations

import asyncio
import logging

from runner.clock import Clock
from runner.contract import digest
from runner.language.bundle import Bundle
from runner.language.flow import Flow
from runner.people.desk import ProjectDesk
from runner.people.post import QUOTE, Post
from runner.tongue import _, speaking

log = logging.getLogger("amends.people")


class Authors:
    """A message that does not go out is not sent again: the pages and the log say the same."""

    def __init__(self, post: Post, desk: ProjectDesk, clock: Clock) -> None:
        self._post = post
        self._desk = desk
        self._clock = clock
        self._under_way: set[asyncio.Task[None]] = set()

    def tell(self, bundle: Bundle, problem: str, lacks: bool) -> None:
        """Tells the owner, beside what this process does. `lacks`: the text is good, and a secret is not set."""
        telling = asyncio.create_task(self._tell(bundle, problem, lacks=lacks))
        self._under_way.add(telling)
        telling.add_done_callback(self._under_way.discard)

    async def _tell(self, bundle: Bundle, problem: str, *, lacks: bool) -> None:
        flow = bundle.flow
        for person in self._desk.staff().behind([flow.owner], self._clock.now()):
            for channel in self._post.channels(person):
                with speaking(self._post.language(person)):
                    subject, told, kept = _lacking(flow) if lacks else _unused(flow)
                    key = digest([flow.id, bundle.digest, problem, person.id])
                    text = f"{told}\n\n{QUOTE}{problem}\n\n{kept}"
                    sent = await self._post.tell(channel, person, subject, text, key)
                if sent.result != "applied":
                    log.warning("%s could not be told by %s: %s", person.id, channel, sent.summary or sent.reason)


def _unused(flow: Flow) -> tuple[str, str, str]:
    return (
        _("The new text of {flow} is not used", flow=flow.title),
        _("The flow {flow} was changed, and the new text has a problem:", flow=flow.id),
        _("Until that is mended, the last version without a problem starts every run."),
    )


def _lacking(flow: Flow) -> tuple[str, str, str]:
    return (
        _("A secret that {flow} needs is not set", flow=flow.title),
        _("The flow {flow} starts by itself, and a secret that it needs is not there any more:", flow=flow.id),
        _("Until it is set again, runs may fail at the steps that need it."),
    )
