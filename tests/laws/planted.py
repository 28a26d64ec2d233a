"""Planted mistakes: each puts a wrong function into the core. A law must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import calls, closing, decide, ending, fold, forward, retry, scopes, undoing
from runner.core import events as e
from runner.core.commands import Record
from runner.core.state import Call, State, replace
from runner.engine import simulated

Plant = Callable[[pytest.MonkeyPatch], None]
MISTAKES: dict[str, tuple[Plant, tuple[str, ...]]] = {}
NOT_FINAL = {"invalid", "forbidden", "conflict", "not_found", "rate_limited", "unavailable"}


def mistake(name: str, *flows: str) -> Callable[[Plant], Plant]:
    """Registers a mistake and the flows that are tried first."""

    def keep(plant: Plant) -> Plant:
        MISTAKES[name] = (plant, flows)
        return plant

    return keep


def before(patch: pytest.MonkeyPatch, place: Any, name: str, change: Callable[..., tuple[Any, Any]]) -> None:
    """The function is called with other arguments: `change` gives (args, kwargs)."""
    right = getattr(place, name)

    def wrong(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = change(*args, **kwargs)
        return right(*args, **kwargs)

    patch.setattr(place, name, wrong)


def after(patch: pytest.MonkeyPatch, place: Any, name: str, change: Callable[..., Any]) -> None:
    """The function's answer is another: `change(answer, *args, **kwargs)`."""
    right = getattr(place, name)

    def wrong(*args: Any, **kwargs: Any) -> Any:
        return change(right(*args, **kwargs), *args, **kwargs)

    patch.setattr(place, name, wrong)


# --- calls ---------------------------------------------------------------------------------------------------------


@mistake("a call of class once is sent again after an unknown", "once_pair")
def resend_once(patch: pytest.MonkeyPatch) -> None:
    def as_keyed(call: Any, action: Any, *rest: Any, **words: Any) -> tuple[Any, Any]:
        return (call, replaced(action, effect="keyed", key_life=10**15), *rest), words

    before(patch, retry, "_after_unknown", as_keyed)


@mistake("the attempt is part of the key", "keyed_pair")
def attempt_in_key(patch: pytest.MonkeyPatch) -> None:
    after(patch, calls, "next_send", lambda send, *_: replaced(send, key=f"{send.key}{send.attempt}"))


@mistake("the request is written anew for each attempt", "keyed_pair")
def fresh_request(patch: pytest.MonkeyPatch) -> None:
    def wrong(send: Any, *_: Any) -> Any:
        return replaced(send, frozen=None, input={"attempt": send.attempt})

    after(patch, calls, "next_send", wrong)


@mistake("a compensation has the key of its step", "keyed_pair")
def same_key_for_undo(patch: pytest.MonkeyPatch) -> None:
    before(patch, calls, "make_key", lambda **words: ((), {**words, "purpose": "do"}))


@mistake("a new generation has the old key", "once_pair")
def old_key(patch: pytest.MonkeyPatch) -> None:
    before(patch, calls, "make_key", lambda **words: ((), {**words, "generation": 0}))


@mistake("the parts of a fan-out share a key", "fan_keyed")
def one_key_for_all_parts(patch: pytest.MonkeyPatch) -> None:
    before(patch, calls, "make_key", lambda **words: ((), {**words, "part": 0}))


@mistake("after 'it did not' the old generation goes on", "once_pair")
def no_new_generation(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: Any, plan: Any, part: Any, input_: Any, call: Call) -> tuple[Any, Any]:
        return (state, plan, part, input_, replace(call, renew=False)), {}

    before(patch, calls, "next_send", wrong)


@mistake("a retry raises the generation of what may have happened", "picky", "picky_undo")
def renew_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Call, "is_over", property(lambda call: not call.is_open and not call.is_applied))


@mistake("a final refusal is tried again", "always_refused")
def retry_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry, "AGAIN_AFTER_REFUSAL", NOT_FINAL)


@mistake("the number of tries does not matter", "one_try")
def endless_tries(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "policy", lambda policy, *_: replaced(policy, tries=99))


@mistake("what a busy engine did not send goes again at once", "keyed_pair")
def late_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry, "AFTER_LATE", 1)


@mistake("the author's never_on is not read", "few_tries")
def never_on_forgotten(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "policy", lambda policy, *_: replaced(policy, never_on=frozenset()))


@mistake("the pause a service asks for is not kept", "keyed_pair")
def no_retry_after(patch: pytest.MonkeyPatch) -> None:
    before(patch, retry, "pause_before", lambda call, policy: ((replace(call, retry_after=None), policy), {}))


@mistake("a key is used past its life", "short_life")
def expired_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry, "_key_lives", lambda call, action, now: True)


@mistake("a look-up does not wait its delay", "lookup_pair")
def early_lookup(patch: pytest.MonkeyPatch) -> None:
    def wrong(move: Any, call: Call, *_: Any) -> Any:
        return replaced(move, due=call.last_at + 1) if move.word == "wait" else move

    after(patch, retry, "_look_up_or_ask", wrong)


@mistake("nothing found after a take-over is sent again", "lookup_pair")
def take_over_resent(patch: pytest.MonkeyPatch) -> None:
    before(
        patch,
        retry,
        "_after_not_applied",
        lambda call, *rest, **words: ((replace(call, take_over=False), *rest), words),
    )


@mistake("nothing found after a take-over ends the doubt", "lookup_pair")
def take_over_settled(patch: pytest.MonkeyPatch) -> None:
    readers = dict(fold._READERS)
    right = readers[e.CallSettled]

    def wrong(state: State, event: e.CallSettled) -> State:
        after = right(state, event)
        call = replace(after.calls[event.call], may_have_happened=False)
        return replace(after, calls={**after.calls, event.call: call})

    patch.setattr(fold, "_READERS", {**readers, e.CallSettled: wrong})


@mistake("an old look-up answers for a new attempt", "lookup_pair")
def old_answer(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, plan: Any, part: int, input_: Any, call: Call, now: int) -> tuple[Any, Any]:
        return (state, plan, part, input_, replace(call, intended_seq=0), now), {}

    before(patch, calls, "look_up", wrong)


@mistake("an unknown outcome is written down as not sent", "keyed_pair")
def unknown_as_not_sent(patch: pytest.MonkeyPatch) -> None:
    def wrong(intent: Any, outcome: Any, at: int) -> tuple[Any, Any]:
        result = "not_sent" if outcome.result == "unknown" else outcome.result
        return (intent, replaced(outcome, result=result), at), {}

    before(patch, simulated, "outcome_event", wrong)


@mistake("what a lost engine had sent is written down as not sent", "once_pair")
def take_over_as_not_sent(patch: pytest.MonkeyPatch) -> None:
    before(patch, simulated, "taken_over", lambda *args, **words: (args, {"is_own": True}))


@mistake("late evidence overwrites an outcome", "once_pair")
def evidence_overwrites(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, event: e.EvidenceLate) -> State:
        call = replace(state.calls[event.call], last="applied" if event.result == "applied" else "not_sent")
        return replace(state, calls={**state.calls, event.call: replace(call, may_have_happened=False)})

    patch.setattr(fold, "_READERS", {**fold._READERS, e.EvidenceLate: wrong})


# --- failing -------------------------------------------------------------------------------------------------------


@mistake("compensations run oldest first", "keyed_pair")
def oldest_first(patch: pytest.MonkeyPatch) -> None:
    after(patch, closing, "_turns", lambda paths, *_: paths[::-1])


@mistake("a record that was found is compensated", "finds")
def undo_found(patch: pytest.MonkeyPatch) -> None:
    def wrong(paths: list[str], state: State, *_: Any) -> list[str]:
        return [path for path, step in state.steps.items() if step.status == "found"] + paths

    after(patch, closing, "_turns", wrong)


@mistake("a record that was adopted is cancelled", "adopts")
def cancel_adopted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(undoing, "_is_adopted", lambda state, path: False)


@mistake("the step that failed is left out of the compensation", "once_pair", "all_classes")
def failed_step_left_out(patch: pytest.MonkeyPatch) -> None:
    def wrong(paths: list[str], state: State, *_: Any) -> list[str]:
        failure = state.root.failure
        return [path for path in paths if failure is None or path != failure.step]

    after(patch, closing, "_turns", wrong)


@mistake("what is in doubt is undone as if it had happened", "once_pair")
def undo_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_is_unsettled", lambda state, path: False)


@mistake("a failed compensation is forgotten", "undo_classes")
def failed_compensation_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_hand_failed_off", lambda bundle, state, scope, now: ())


@mistake("the run ends compensated while something stands", "handed_undo")
def always_compensated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending, "_end_status", lambda state: "compensated")


@mistake("if_one_fails: stop is not read", "halts")
def if_one_fails_dropped(patch: pytest.MonkeyPatch) -> None:
    def wrong(bundle: Any, *rest: Any) -> tuple[Any, Any]:
        on_failure = replaced(bundle.flow.on_failure, if_one_fails="go_on")
        return (replaced(bundle, flow=replaced(bundle.flow, on_failure=on_failure)), *rest), {}

    before(patch, closing, "compensate", wrong)


@mistake("a forward call is tried again after forward was closed", "keyed_pair")
def forward_after_closed(patch: pytest.MonkeyPatch) -> None:
    before(patch, closing, "plan_of", lambda *args, **words: (args, {"is_closed": False}))


@mistake("compensation begins while a forward call is open", "keyed_pair")
def begun_too_early(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        if not state.root.has_begun and not state.stops_here:
            return (Record(event=e.CompensationBegun(at=now)),)
        return commands

    after(patch, decide, "_closing", wrong)


@mistake("a stop undoes all the same", "keyed_pair")
def stop_undoes(patch: pytest.MonkeyPatch) -> None:
    before(patch, decide, "_closed", lambda *args, **words: (args, {**words, "compensate": True}))
    patch.setattr(State, "stops_here", property(lambda state: state.is_taken_over))


@mistake("a run that stops ends while something is in doubt", "once_pair")
def stop_in_doubt(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        is_open = any(call.is_open for call in state.calls.values())
        return ending.finish(bundle, replace(state, handoffs={}), now) if state.stops_here and not is_open else commands

    after(patch, decide, "_closing", wrong)


# --- the run -------------------------------------------------------------------------------------------------------


@mistake("a timer is never set", "waits")
def lost_timer(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, *_: Any) -> Any:
        return tuple(c for c in commands if not (isinstance(c, Record) and isinstance(c.event, e.TimerSet)))

    after(patch, decide, "decide", wrong)


@mistake("a timer of a call nobody looks at goes on", "finds")
def stale_timer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "without_timers", lambda state, is_meant: state)


@mistake("a take-over leaves the run waiting", "rows_beside", "once_pair")
def take_over_waits(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State) -> bool:
        return any(call.is_unsettled for name, call in state.calls.items() if name[1] in ("do", "undo"))

    patch.setattr(decide, "is_settling", wrong)


@mistake("a pause does not pause", "keyed_pair")
def no_pause(patch: pytest.MonkeyPatch) -> None:
    before(patch, decide, "decide", lambda bundle, state, now: ((bundle, replace(state, is_paused=False), now), {}))


@mistake("a broken run does not hold its record", "holds")
def record_not_held(patch: pytest.MonkeyPatch) -> None:
    before(patch, decide, "decide", lambda bundle, state, now: ((bundle, replace(state, record=""), now), {}))


@mistake("the record is released before the question is answered", "holds")
def released_early(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        waited = state.open_handoffs and state.holds_record and not commands
        return (Record(event=e.RecordReleased(at=now, record=state.record)),) if waited else commands

    def held_once(state: State, event: e.RecordReleased) -> State:
        return replace(state, holds_record=False, record="")

    patch.setattr(fold, "_READERS", {**fold._READERS, e.RecordReleased: held_once})
    after(patch, decide, "decide", wrong)


@mistake("a question nobody needs answered stays open", "asks", "reviews")
def question_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "withdraw", lambda state, is_meant: state)


@mistake("'go on with the rest' is offered for ever", "once_pair")
def endless_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "is_let_go", lambda state, path: False)


@mistake("an expression without an answer skips its step", "bad_condition", "bad_wait")
def error_is_skip(patch: pytest.MonkeyPatch) -> None:
    def wrong(command: Any, place: Any, kind: str, *_: Any) -> Any:
        return (
            Record(event=e.StepSkipped(at=place.now, step=place.path, why="when")) if kind == "evaluation" else command
        )

    after(patch, scopes, "failed", wrong)


@mistake("outputs that cannot be made are left out", "bad_outputs")
def outputs_left_out(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        return (Record(event=e.RunFinished(at=now, status="succeeded")),)

    after(patch, decide, "_succeed", wrong)


@mistake("a step that was done is done again", "keyed_pair")
def done_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Call, "is_applied", property(lambda call: call.settled == "applied"))
