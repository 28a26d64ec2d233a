"""Laws of draft runs: nothing live is ever called, what is left is a draft under a key of its own, and is listed."""

from __future__ import annotations

from collections.abc import Iterator

from runner.contract import Action
from runner.core import events as e
from runner.core.keys import make_key
from tests.laws.lives import as_written, heads
from tests.laws.register import law, named
from tests.laws.story import WRITES, Story, Try


def _draft_of(story: Story, each: Try) -> tuple[str, Action] | None:
    """What may be called in the place of the step's own action."""
    step = story.bundle.step(each.intent.step)
    draft, connection = story.bundle.actions[step.action].draft, step.action.partition(".")[0]
    name = f"{connection}.{draft.action}" if draft is not None else ""
    return (name, story.bundle.actions[name]) if name else None


@law("D1")
def a_draft_run_calls_nothing_live(story: Story) -> Iterator[str]:
    """It leaves drafts and removes them, by what the connector names for that; it sends no event, no flow follows."""
    if story.started.mode != "draft":
        return
    for each in story.tries:
        if each.intent.purpose not in WRITES:
            continue
        found = _draft_of(story, each)
        name, action = found or ("", None)
        if each.intent.purpose == "undo":
            undo = action.undo if action is not None else None
            name = f"{name.partition('.')[0]}.{undo.action}" if undo is not None else ""
        if each.intent.action != name:
            yield f"{named(each.intent)} calls {each.intent.action} in a draft run"
    for event in story.events:
        if isinstance(event, e.Emitted | e.RecordHeld | e.RecordLocked):
            yield f"a draft run has {type(event).__name__}"
        if isinstance(event, e.RunFinished) and event.then:
            yield f"{event.then} follows a draft run"


@law("D2")
def every_draft_is_listed(story: Story) -> Iterator[str]:
    """Each draft that is left outside is in the list of the end, and nothing else is; unless a person has said of one
    that it happened, and it did not."""
    if story.started.mode != "draft" or story.finish is None or story.finish.status != "drafted":
        return
    left = {
        as_written(each.intent.step)
        for each in story.ledger.landed
        if each.intent.purpose == "do" and not _is_removed(story, each.intent.step)
    }
    shown = set(story.finish.stands)
    for path in sorted(left):
        if path not in shown and not set(heads(path)) & shown:
            yield f"the draft of {path} is left outside, and nobody is told"
    for path in shown if story.is_honest else ():
        if not any(path == one or one.startswith(f"{path}/") for one in left):
            yield f"the end lists {path}, and no draft of it is left"


def _is_removed(story: Story, path: str) -> bool:
    return any(each.intent.purpose == "undo" and each.intent.step == path for each in story.ledger.landed)


@law("D3")
def a_draft_has_its_own_key(story: Story) -> Iterator[str]:
    """Neither the key of the live call nor the author's."""
    for each in story.tries if story.started.mode == "draft" else ():
        intent = each.intent
        live = make_key(
            flow=story.started.flow, run=story.started.run, step=as_written(intent.step), part=intent.part,
            purpose="do", generation=intent.generation,
        )  # fmt: skip
        if intent.purpose == "do" and (intent.key == live or not intent.key.startswith("am_")):
            yield f"{named(intent)} has the key of a live call"


@law("D4")
def what_would_be_sent_is_written_down(story: Story) -> Iterator[str]:
    """A `do` of a draft run has ended well when it was written down: after its draft, where it has one."""
    for seq, event in story.numbered() if story.started.mode == "draft" else ():
        if not isinstance(event, e.DraftRecorded) or event.action.startswith("emit "):
            continue
        action = story.bundle.actions[event.action]
        if story.bundle.step(event.step).action != event.action:
            yield f"{event.step} is written down as {event.action}"
        done = [at for name, (at, _) in story.applied.items() if name[:2] == (event.step, "do")]
        parts = max((t.intent.parts for t in story.tries if t.intent.call[:2] == (event.step, "do")), default=1)
        if action.draft is not None and not event.why and sum(at < seq for at in done) < parts:
            yield f"{event.step} is written down before its draft was there"
