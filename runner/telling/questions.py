"""Questions to a person: what is asked, what is known about it, what each answer is called and what it needs."""

from __future__ import annotations

from dataclasses import replace

from runner.core import events as e
from runner.core.paths import catcher_of, is_closed_at
from runner.core.state import Call, HandOff
from runner.errors import NotPossible
from runner.language.nearest import did_you_mean
from runner.people.asked import asks_about
from runner.people.operations import Order, fields_needed
from runner.telling import sent, words
from runner.telling.story import Story
from runner.tongue import _


def call_of(story: Story, handoff: HandOff) -> tuple[str, Call | None]:
    """(purpose, call) that a question is about; no call where it is about none."""
    undoes = handoff.kind in ("compensation_failed", "request")
    purpose = handoff.purpose or ("undo" if undoes else "do")
    return purpose, story.state.calls.get((handoff.step, purpose, handoff.part))


def what_was_sent(story: Story, handoff: HandOff) -> dict[str, str]:
    """What one needs to look a call up: its outside id, the action, its values, where it went, our reference."""
    purpose, call = call_of(story, handoff)
    done = next((each for each in story.effects if (each.path, each.part) == (handoff.step, handoff.part)), None)
    found = {_("Id"): words.plain(done.external_id)} if done is not None else {}
    if call is None:
        return found | _of_ended_item(story, handoff)
    found |= {
        _("Call"): call.action,
        _("With"): sent.pairs(story.input_of(handoff.step, purpose, handoff.part)),
        _("To"): sent.place(call.request),
    }
    known = story.reference(handoff.step, purpose, handoff.part)
    if known and (call.may_have_happened or call.last not in ("", "not_sent")):
        found[_("Key")] = _("{key} (our reference: it was sent along)", key=known)
    return found


def _of_ended_item(story: Story, handoff: HandOff) -> dict[str, str]:
    """The same where the call is not in the state any more."""
    about = (event for event in story.events if isinstance(event, e.CallIntended) and event.step == handoff.step)
    done = [event for event in about if event.purpose == "do" and event.input]
    if not done:
        return {}
    given = sent.one_part(story.bundle.actions.get(done[-1].action), done[-1].input, handoff.part)
    return {_("Call"): done[-1].action, _("With"): sent.pairs(given)}


def rule_of(story: Story, handoff: HandOff) -> str:
    """The rule of the step that a question is about; empty where the author has said more of this very question."""
    step = story.bundle.find(handoff.step)
    return (
        words.sentence(step.rule) if step is not None and not (handoff.kind == "compensation" and handoff.say) else ""
    )


def label_of(story: Story, handoff: HandOff, choice: str) -> str:
    """What a choice is called for this question."""
    state, kind = story.state, handoff.kind
    call = call_of(story, handoff)[1]
    action = story.bundle.actions.get(call.action) if call is not None else None
    known = f"{kind} {action.effect}" if action is not None else kind
    ends = [f"{kind} stopped"] if state.stops_here else []
    ends += [f"{kind} closed"] if is_closed_at(state, handoff.step) or state.stops_here else [known]
    ends += ["item"] if catcher_of(state, handoff.step) else []
    return words.offered(choice, *ends, kind, action.effect if action is not None else "")


def asks(story: Story, handoff: HandOff) -> str:
    """The question of a hand-off in one sentence."""
    about = _("step {step}", step=story.place(handoff.step)) if handoff.step else _("the run")
    to = story.receiver(handoff.step, handoff.part, handoff.purpose or "do") if handoff.purpose else ""
    about = _("{what} ({by})", what=about, by=to) if to else about
    return asks_about(handoff.kind, about)


def to_give(story: Story, handoff: HandOff) -> list[str]:
    """The fields that whoever says "it did happen" must give: those used later, but for those we made ourselves."""
    if handoff.purpose not in ("do", "find"):
        return []
    needed = list(fields_needed(story.bundle, story.state, handoff.step))
    call = call_of(story, handoff)[1]
    action = story.bundle.actions.get(call.action) if call is not None else None
    if handoff.kind == "several" and not needed and action is not None and "id" in action.output:
        needed = ["id"]
    made = sent.own_answer(call.request) if call is not None else {}
    return [name for name in needed if name not in made]


def completed(story: Story, order: Order) -> Order:
    """An order `happened` with what is known of the answer already: the fields we made ourselves, the outside id.

    Raises NotPossible where a field is named that the action does not answer.
    """
    asked = [h for h in story.state.open_handoffs if order.handoff in ("", h.id) and order.step in ("", h.step)]
    call = call_of(story, asked[0])[1] if len(asked) == 1 else None
    action = story.bundle.actions.get(call.action) if call is not None else None
    if call is None or action is None:
        return order
    wrong = [name for name in order.output if name not in action.output]
    if wrong and not action.open_output:
        known = did_you_mean(wrong[0], action.output, "there are")
        raise NotPossible(f'{call.action} answers no field "{wrong[0]}"; {known}')
    made = sent.own_answer(call.request)
    outside = order.external_id or str(made.get("message_id") or order.output.get("id") or "")
    own_id = {"id": outside} if outside and "id" in action.output else {}
    return replace(order, output={**made, **own_id, **order.output}, external_id=outside)
