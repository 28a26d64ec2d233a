"""What a draft run found out: what going live would send, filled in, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.contract import Json
from runner.core import events as e
from runner.language.flow import Step
from runner.telling import sent, words
from runner.telling.consequences import WILL_BE
from runner.telling.sentences import no_draft
from runner.telling.story import Story, became, became_of
from runner.tongue import _

LONGEST = 4_000
"""Signs of a text that are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One thing that a live run would have sent.

    `fields` are (name, value), a text with its own lines; `undo` says what becomes of it where a later step fails,
    `drafts` what stands in its place now.
    """

    place: str
    what: str
    action: str
    fields: tuple[tuple[str, str], ...]
    undo: str
    drafts: tuple[str, ...]


def would_be_sent(story: Story) -> list[Planned]:
    """All that a draft run wrote down, in order, but for what its timeline leaves out; nothing of a live run."""
    return [_planned(story, event) for event in story.events if isinstance(event, e.DraftRecorded)]


def _planned(story: Story, event: e.DraftRecorded) -> Planned:
    step = story.bundle.find(event.step)
    is_event = event.action.startswith("emit ")
    what = (
        _("The event {event}", event=event.action[5:])
        if is_event
        else words.action_title(story.bundle.actions, event.action)
    )
    now = (*_drafts(story, event.step), no_draft(event))
    return Planned(
        place=story.place(event.step), what=what, action="" if is_event else event.action,
        fields=tuple((words.plain(name), _whole(event.input[name])) for name in sent.in_order(event.input)),
        undo="" if step is None or is_event else undone_by(step), drafts=tuple(filter(None, now)),
    )  # fmt: skip


def undone_by(step: Step) -> str:
    """What becomes of the effect of a live step when a later one fails; empty where the flow says nothing."""
    words_of = step.compensate
    if words_of is None:
        return ""
    what, by = _(WILL_BE[words_of.word]), words_of.action or words_of.target
    what = _("{what} ({by})", what=what, by=by) if by else what
    return _("When a later step fails, it {what}.", what=what)


def _drafts(story: Story, path: str) -> Iterator[str]:
    for effect in story.effects:
        if effect.path == path:
            known = words.plain(effect.external_id) or story.receiver(path, effect.part)
            yield f"{became(story, effect)}: {known}" if known else became(story, effect)
    for alike in story.folded:
        if alike.path == path:
            yield f"{became_of(story, alike)} ({alike.count})"


def _whole(value: Json) -> str:
    if not isinstance(value, str):
        return sent.value(value, LONGEST)
    text = "\n".join(words.plain(line) for line in value.strip("\n").split("\n"))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def as_json(found: Planned) -> Mapping[str, Json]:
    """For machines."""
    return {
        "step": found.place, "what": found.what, "action": found.action, "fields": dict(found.fields),
        "drafts": list(found.drafts),
    }  # fmt: skip
