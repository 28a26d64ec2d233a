"""What an order or an answer will do, said before it is given: on the pages, and for whoever asks first."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.drafts import drafts_left
from runner.core.paths import catcher_of, is_closed_at
from runner.core.state import HandOff
from runner.language.flow import MODEL
from runner.people.operations import possible
from runner.people.table import sentence
from runner.telling import words
from runner.telling.questions import call_of
from runner.telling.story import Story
from runner.tongue import _, marked

DOES: Mapping[str, str] = {
    "pause": marked("Nothing new is begun in this run until somebody lets it go on. An open call gets its answer."),
    "resume": marked("The run goes on where it was paused."),
    "stop": marked("The run ends here, and what stands is listed; nothing more is made good."),
    "stop_compensate": marked("Nothing more is begun. What the run has done is made good, the newest first."),
    "compensate": marked("Nothing more is begun. What the run has done is made good, the newest first."),
    "take_over": marked("All that is left of the run is yours: nothing more is done by itself, and the run is closed."),
    "rerun": marked("A new run begins with the same inputs under the same key, and with the flow as it is now."),
    "retry": marked("The step is tried again, and the run goes on from there."),
    "again": marked("The service is asked once more with the same key, so it does not do the same thing twice."),
    "skip": marked("The run goes on as if this step had nothing to do."),
    "happened": marked("The step counts as done with what you enter here, and the run goes on. Nothing is sent."),
    "did_not": marked("It is sent again with a new key. If it did happen after all, it happens twice: look first."),
    "go_on": marked("The run goes on with what comes next."),
    "done": marked("Say so once it is done outside: it counts as put right. Nothing is sent."),
    "stands": marked("It stays outside as it is, and is listed as standing. Nothing is sent."),
    "close": marked("The run ends as closed, and nothing more happens by itself."),
    "acknowledge": marked("Others see that you are looking at it. The question stays open."),
}
"""By choice."""

BY_CASE: Mapping[str, str] = {
    "rerun approved": marked(
        "A new run begins with the same inputs under the same key, and with the flow as it is now. Who approved this "
        "one is asked again."
    ),
    "did_not bare": marked("It is sent again. If it did happen after all, it happens twice: look first."),
    "did_not undo bare": marked("It is tried again to make it good. If it did happen, it happens twice."),
    "did_not closed": marked("Nothing is to be made good for it. Nothing is sent."),
    "happened closed": marked("It counts as done, and is made good in its turn."),
    "go_on closed": marked("The rest is made good first. This question stays open."),
    "did_not undo": marked("It is tried again to make it good, with a new key. If it did happen, it happens twice."),
    "happened undo": marked("It counts as made good. Nothing is sent."),
    "compensate draft": marked("The drafts that it left are removed, the newest first."),
    "stop_compensate draft": marked("Nothing more is begun. The drafts that it left are removed, the newest first."),
    "compensate item": marked("What this item has done is made good, and it is set aside. The other items go on."),
    "retry set_aside": marked("These items begin anew, with new keys."),
    "skip set_aside": marked("These items stay set aside, and the run goes on without them."),
    "go_on late": marked("The run goes on as if the event were not needed."),
    "go_on then_run": marked("The run ends without the flow that was to follow."),
    "retry undo": marked("It is tried once more to make it good."),
    "retry agent": marked("The agent goes on where it was, with its limits anew."),
    "skip agent": marked("The agent ends here. What it did stays, and the run goes on."),
    "skip turn": marked("The agent ends here. What it did stays, and the run goes on."),
    "skip tool": marked("The agent goes on, and its model is told that this was not done."),
}

WILL_BE: Mapping[str, str] = {
    "cancel": marked("is cancelled"),
    "mark": marked("stays, and is marked"),
    "correct": marked("stays, and a correction is sent"),
    "quarantine": marked("is set aside"),
    "hand_off": marked("is handed to a person"),
    "none": marked("is left as it is"),
}
"""What becomes of an effect when the run is made good, by the word of its compensation."""

MAKES_GOOD = ("compensate", "stop_compensate")


def consequence(story: Story, choice: str, handoff: HandOff | None = None) -> str:
    """What this choice will do, in a sentence or two."""
    case = "draft" if story.view.mode == "draft" else ""
    case = "approved" if choice == "rerun" and any(gate.yes for gate in story.state.gates.values()) else case
    if handoff is not None:
        purpose, _call = call_of(story, handoff)
        is_closed = is_closed_at(story.state, handoff.step)
        case = "undo" if purpose.startswith("undo") else "closed" if is_closed else handoff.kind
        case = _of_agent(story, handoff) if case == "failure" else case
        if choice == "did_not" and not story.reference(handoff.step, purpose, handoff.part):
            case = {"unknown": "bare", "undo": "undo bare"}.get(case, case)
        case = "item" if choice == "compensate" and catcher_of(story.state, handoff.step) else case
        case = "draft" if choice == "compensate" and case != "item" and story.view.mode == "draft" else case
    return _(BY_CASE.get(f"{choice} {case}") or DOES.get(choice, choice.replace("_", " ")))


def _of_agent(story: Story, handoff: HandOff) -> str:
    """What a failure is of, where it is an agent's."""
    step = story.bundle.find(handoff.step) if handoff.step else None
    if step is None or not (step.verb == "agent" or step.tool_of):
        return handoff.kind
    return "agent" if step.verb == "agent" else "turn" if step.id == MODEL else "tool"


def further(story: Story) -> list[str]:
    """The orders that fit beside the answers to open questions."""
    status = story.view.status
    if status == "drafted":
        return ["compensate"] if drafts_left(story.state) else []
    if status == "stopped" and story.with_effect("pending", "stands", "in_doubt"):
        return ["compensate", "take_over"]
    if story.state.has_ended:
        is_anew = sentence(story.state, "rerun")[0] == "done" and status not in ("succeeded", "drafted")
        return ["rerun"] if is_anew and not (story.successor or story.view.continues) else []
    orders = possible(story.bundle, story.state)
    wanted = {"resume", "stop"} if story.is_asked else {"resume", "pause", "stop"}
    asks_of_run = any(
        "compensate" in h.choices and not catcher_of(story.state, h.step) for h in story.state.open_handoffs
    )
    wanted |= set() if asks_of_run else {"stop_compensate"}
    return [each for each in orders if each in wanted]


def named(story: Story, order: str) -> str:
    """What an order to the run as a whole is called."""
    return words.offered(order, "draft" if story.view.mode == "draft" else "")


def made_good(story: Story) -> list[tuple[str, str]]:
    """What becomes of each effect when the run is made good, newest first: (step and outside id, in words). A call in
    doubt comes before.
    """
    again = _("is asked about again first; what is older waits for the answer")
    found = [(place, again) for place in story.unknown]
    for effect in sorted(story.effects, key=lambda each: each.start_no, reverse=True):
        found_how = _how(story, effect.path)
        if effect.disposition not in ("pending", "stands") or found_how is None:
            continue
        known = story.receiver(effect.path, effect.part) or words.shown_id(effect.external_id)
        what, by = found_how
        place = story.place(effect.path)
        found.append((
            _("{what} ({by})", what=place, by=known) if known else place,
            _("{what} ({by})", what=what, by=by) if by else what,
        ))  # fmt: skip
    for alike in story.folded:
        found_how = _how(story, alike.path)
        if alike.disposition in ("pending", "stands") and found_how is not None:
            found.append((f"{story.place(alike.path)} ({alike.count})", found_how[0]))
    return found


def _how(story: Story, path: str) -> tuple[str, str] | None:
    """(what becomes of an effect, by which action or person); None where the flow says nothing of it."""
    if story.view.mode == "draft":
        return _("is removed"), ""
    step = story.bundle.find(path)
    if step is None or step.compensate is None:
        return None
    return _(WILL_BE[step.compensate.word]), step.compensate.action or step.compensate.target
