"""When a call is tried again, when it is looked up, when a person is asked: decided by what the action's class allows.

| class | outcome unknown |
|---|---|
| read | asked again |
| keyed | the same again inside the key's life; past it looked up, else a person |
| lookup (or a step with `find`) | looked up: found = go on, none = send, several = a person |
| once | a person; never sent again |

A conflict on an undo is verified and never sent again by itself: a second refund may take back the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runner.contract import Action, Retry
from runner.core.keys import spread
from runner.core.state import Call
from runner.language.flow import RetryWords
from runner.quick import quick

READS = Retry(tries=5, pause=1_000, longest=60_000)
WRITES = Retry(tries=4, pause=10_000, longest=300_000)
OWN = Retry(tries=4, pause=100, longest=1_000)
"""Actions on our own tables: there is nobody to be gentle with."""
AFTER_LOSS = 1_000
"""A call whose sender was lost goes again after this at the most: the service gave no reason to be gentle with it."""
LATE = "late"
"""Why a call was not sent that the engine itself came to too late: that is none of the tries that `retry` bounds."""
AFTER_LATE, LONGEST_LATE = 1_000, 30_000
"""Such a call goes again after this, twice as long each time up to the longest."""
AGAIN_AFTER_REFUSAL = frozenset({"rate_limited", "unavailable"})
FIND_DELAY = 2_000
AS_DEFAULT = RetryWords()


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """What is to be done about a call.

    nothing: it is open, or a timer runs. send: the next attempt. wait: set `timer` to `due`. look_up: ask now.
    end: it is over, without an effect (`kind`, `summary`). ask: a person must say what became of it.
    """

    word: Literal["nothing", "send", "wait", "look_up", "end", "ask"]
    timer: str = ""
    due: int = 0
    kind: str = ""
    summary: str = ""


NOTHING = Move(word="nothing")
SEND = Move(word="send")
LOOK_UP = Move(word="look_up")


def policy(action: Action, words: RetryWords, purpose: str) -> Retry:
    """The author's words over the action's own over the defaults of its class."""
    reads = purpose not in ("do", "undo") or action.effect == "read"
    declared = None if reads and action.effect != "read" else action.retry
    default = OWN if action.own else declared or (READS if reads else WRITES)
    if words == AS_DEFAULT:
        return default
    return Retry(
        tries=words.tries if words.tries is not None else default.tries,
        pause=words.pause if words.pause is not None else default.pause,
        growth=words.growth or default.growth,
        longest=words.longest if words.longest is not None else default.longest,
        never_on=words.never_on or default.never_on,
    )


def pause_before(call: Call, retry: Retry) -> int:
    """ms to wait before the next attempt: what the service asked for, else the growing pause with its jitter.

    Never 0: a call's timers are told apart by when they are due.
    """
    if call.retry_after is not None:
        return max(call.retry_after, 1)
    if _is_late(call):
        return spread(call.key, call.attempt, min(AFTER_LATE << min(call.attempt - call.tries - 1, 5), LONGEST_LATE))
    if call.take_over and call.tries <= 1:
        return spread(call.key, call.attempt, max(min(retry.pause, AFTER_LOSS), 1))
    steps = max(call.tries - 1, 0)
    factor = {"none": 1, "linear": steps + 1, "double": 2 ** min(steps, 30)}[retry.growth]
    return spread(call.key, call.attempt, max(min(retry.pause * factor, retry.longest), 1))


def _is_late(call: Call) -> bool:
    """Its last attempt was not sent because the engine came to it too late."""
    return call.last == "not_sent" and call.reason == LATE


def next_move(call: Call, action: Action, retry: Retry, *, now: int, can_look_up: bool, is_closed: bool) -> Move:
    """The next move for a call that is not applied. `is_closed`: no forward attempt may start any more."""
    if call.is_open or call.due is not None:
        return NOTHING
    if call.renew:
        return _end("not_applied", "It did not happen.") if is_closed else SEND
    if call.fired == "lookup":
        return LOOK_UP
    if call.settled == "not_applied":
        return _after_not_applied(call, action, retry, now=now, can_look_up=can_look_up, is_closed=is_closed)
    if call.last == "unknown":
        return _after_unknown(call, action, retry, now=now, can_look_up=can_look_up, is_closed=is_closed)
    return _after_no(call, action, retry, now=now, can_look_up=can_look_up, is_closed=is_closed)


def _after_no(call: Call, action: Action, retry: Retry, *, now: int, can_look_up: bool, is_closed: bool) -> Move:
    may_repeat = call.last == "not_sent" or call.reason in AGAIN_AFTER_REFUSAL
    word = call.reason if call.last == "refused" or _is_late(call) else "not_sent"
    if may_repeat and word not in retry.never_on and call.tries < retry.tries and not is_closed:
        move = _again(call, retry)
        if action.effect == "read" or _key_lives(call, action, max(move.due, now)):
            return move
    if call.may_have_happened and action.effect != "read":
        return _look_up_or_ask(call, action, can_look_up)
    return _end(call.last, call.summary)


def _after_not_applied(
    call: Call, action: Action, retry: Retry, *, now: int, can_look_up: bool, is_closed: bool
) -> Move:
    if call.take_over:
        return Move(word="ask", kind="unknown", summary="The service knows nothing of it, but its sender was stopped.")
    if call.last != "unknown":
        return _after_no(call, action, retry, now=now, can_look_up=can_look_up, is_closed=is_closed)
    if call.tries >= retry.tries or is_closed:
        return _end("not_applied", call.summary or "The service knows nothing of it.")
    return _again(call, retry)


def _after_unknown(call: Call, action: Action, retry: Retry, *, now: int, can_look_up: bool, is_closed: bool) -> Move:
    if action.effect == "read":
        return _end("unknown", call.summary) if call.tries >= retry.tries else _again(call, retry)
    may_send = action.effect == "keyed" and not is_closed and not _must_verify(call)
    if may_send and call.tries < retry.tries and "unknown" not in retry.never_on:
        if call.fired == "retry":
            return SEND if _key_lives(call, action, now) else _look_up_or_ask(call, action, can_look_up)
        pause = pause_before(call, retry)
        if _key_lives(call, action, now + pause):
            return Move(word="wait", timer="retry", due=now + pause)
    return _look_up_or_ask(call, action, can_look_up)


def _must_verify(call: Call) -> bool:
    return call.reason in ("already_there", "restored") or (call.reason == "conflict" and call.word != "")


def _key_lives(call: Call, action: Action, now: int) -> bool:
    return not call.may_have_happened or now + call.limit <= call.first_at + action.key_life * 95 // 100


def _look_up_or_ask(call: Call, action: Action, can_look_up: bool) -> Move:
    if not can_look_up:
        return Move(word="ask", kind="unknown", summary=call.doubt or call.summary)
    delay = action.lookup_delay if action.has_lookup else max(action.lookup_delay, FIND_DELAY)
    return Move(word="wait", timer="lookup", due=_since(call) + delay)


def _since(call: Call) -> int:
    """From when on the service can know what became of the call; a look-up that a person asked for is a later one."""
    return max(call.last_at, call.intended_at + call.limit, call.again_at + 1)


def may_repeat(call: Call, action: Action, now: int) -> bool:
    """The same request may be sent once more under its key, which the service still knows."""
    is_open_question = call.last in ("unknown", "not_sent") or call.reason in AGAIN_AFTER_REFUSAL
    return action.effect == "keyed" and is_open_question and not _must_verify(call) and _key_lives(call, action, now)


def _again(call: Call, retry: Retry) -> Move:
    if call.fired == "retry":
        return SEND
    return Move(word="wait", timer="retry", due=call.last_at + pause_before(call, retry))


def _end(kind: str, summary: str) -> Move:
    return Move(word="end", kind=kind, summary=summary)
