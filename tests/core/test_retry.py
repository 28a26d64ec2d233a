"""When a call is tried again, looked up, asked about: one table, class by outcome."""

from __future__ import annotations

from typing import Any

import pytest

from runner.contract import Action, Retry
from runner.core.keys import make_key, name_key, spread
from runner.core.retry import OWN, READS, WRITES, Move, next_move, pause_before, policy
from runner.core.state import Call
from runner.language.flow import RetryWords

KEYED = Action(name="keyed", effect="keyed", key_life=3_600_000)
KEYED_ASKED = Action(name="asked", effect="keyed", key_life=3_600_000, has_lookup=True, lookup_delay=700)
LOOKUP = Action(name="lookup", effect="lookup", has_lookup=True, lookup_delay=2_000)
FOUND = Action(name="found", effect="once", lookup_delay=500)
ONCE = Action(name="once", effect="once")
READ = Action(name="read", effect="read")
PLAIN = Retry(tries=3, pause=10_000, growth="none")
NOW = 1_000_000
LATE = NOW + 10_000_000


def call(last: str, reason: str = "", **words: Any) -> Call:
    """A call whose only attempt ended like this, just now."""
    known: dict[str, Any] = {
        "may_have_happened": last == "unknown",
        "tries": 1,
        "intended_at": NOW - 1_000,
        "last": last,
    }
    return Call(
        action="svc.x", key="k", attempt=1, first_at=NOW - 1_000, limit=30_000, last_at=NOW, reason=reason,
        summary="so", **known | words,
    )  # fmt: skip


WAITS, ASKS, SENDS, LOOKS, NOTHING = ("wait", "retry"), ("ask", ""), ("send", ""), ("look_up", ""), ("nothing", "")
WAITS_TO_LOOK = ("wait", "lookup")


def ends(kind: str) -> tuple[str, str]:
    return ("end", kind)


TABLE: list[tuple[str, Action, Call, dict[str, Any], tuple[str, str]]] = [
    ("open", KEYED, call("", is_open=True), {}, NOTHING),
    ("timer runs", KEYED, call("refused", "rate_limited", due=NOW + 5), {}, NOTHING),
    ("read refused", READ, call("refused", "invalid"), {}, ends("refused")),
    ("read busy", READ, call("refused", "rate_limited"), {}, WAITS),
    ("read lost", READ, call("unknown"), {}, WAITS),
    ("read lost, time has come", READ, call("unknown", fired="retry"), {}, SENDS),
    ("read lost, no tries", READ, call("unknown", tries=3), {}, ends("unknown")),
    ("read lost before, now refused", READ, call("refused", "invalid", may_have_happened=True), {}, ends("refused")),
    ("read lost before, now busy", READ, call("refused", "rate_limited", may_have_happened=True), {}, WAITS),
    ("keyed lost", KEYED, call("unknown"), {}, WAITS),
    ("keyed lost, time has come", KEYED, call("unknown", fired="retry"), {}, SENDS),
    ("keyed lost, no tries", KEYED, call("unknown", tries=3), {}, ASKS),
    ("keyed lost, never on unknown", KEYED, call("unknown"), {"retry": {"unknown"}}, ASKS),
    ("keyed lost, key too old to wait", KEYED, call("unknown"), {"now": LATE}, ASKS),
    ("keyed lost, key too old to send", KEYED, call("unknown", fired="retry"), {"now": LATE}, ASKS),
    ("keyed lost, too old, can be asked", KEYED_ASKED, call("unknown", fired="retry"), {"now": LATE}, WAITS_TO_LOOK),
    ("keyed lost, closed", KEYED, call("unknown"), {"closed": True}, ASKS),
    ("keyed lost, closed, can be asked", KEYED_ASKED, call("unknown"), {"closed": True}, WAITS_TO_LOOK),
    ("keyed, it is there already", KEYED_ASKED, call("unknown", "already_there"), {}, WAITS_TO_LOOK),
    ("keyed lost before, now busy", KEYED, call("refused", "rate_limited", may_have_happened=True), {}, WAITS),
    ("keyed lost before, now busy, too old", KEYED, call("not_sent", may_have_happened=True), {"now": LATE}, ASKS),
    ("keyed lost before, now refused", KEYED, call("refused", "conflict", may_have_happened=True), {}, ASKS),
    ("keyed never left, any age", KEYED, call("not_sent"), {"now": LATE}, WAITS),
    ("keyed refused", KEYED, call("refused", "conflict"), {}, ends("refused")),
    ("keyed unavailable", KEYED, call("refused", "unavailable"), {}, WAITS),
    ("keyed busy, never on it", KEYED, call("refused", "rate_limited"), {"retry": {"rate_limited"}}, ends("refused")),
    ("keyed not sent, never on it", KEYED, call("not_sent"), {"retry": {"not_sent"}}, ends("not_sent")),
    ("keyed late, never on not_sent", KEYED, call("not_sent", "late", tries=0), {"retry": {"not_sent"}}, WAITS),
    (
        "keyed late after doubt, too old",
        KEYED,
        call("not_sent", "late", tries=0, may_have_happened=True),
        {"now": LATE},
        ASKS,
    ),
    ("keyed busy, no tries", KEYED, call("refused", "rate_limited", tries=3), {}, ends("refused")),
    ("keyed busy, closed", KEYED, call("refused", "rate_limited"), {"closed": True}, ends("refused")),
    ("lookup lost", LOOKUP, call("unknown"), {}, WAITS_TO_LOOK),
    ("lookup lost, time has come", LOOKUP, call("unknown", fired="lookup"), {}, LOOKS),
    ("lookup: it is not there", LOOKUP, call("unknown", settled="not_applied", may_have_happened=False), {}, WAITS),
    (
        "lookup: not there, no tries",
        LOOKUP,
        call("unknown", settled="not_applied", may_have_happened=False, tries=3),
        {},
        ends("not_applied"),
    ),
    (
        "lookup: not there, closed",
        LOOKUP,
        call("unknown", settled="not_applied", may_have_happened=False),
        {"closed": True},
        ends("not_applied"),
    ),
    ("lookup: not there, sender lost", LOOKUP, call("unknown", settled="not_applied", take_over=True), {}, ASKS),
    (
        "not there, and the last answer was a no",
        KEYED_ASKED,
        call("refused", "invalid", settled="not_applied", may_have_happened=False),
        {},
        ends("refused"),
    ),
    ("find lost", FOUND, call("unknown"), {"can_ask": True}, WAITS_TO_LOOK),
    ("once lost", ONCE, call("unknown"), {}, ASKS),
    ("once lost, closed", ONCE, call("unknown"), {"closed": True}, ASKS),
    ("once busy", ONCE, call("refused", "rate_limited"), {}, WAITS),
    ("once not sent", ONCE, call("not_sent"), {}, WAITS),
    ("a person said no", ONCE, call("unknown", renew=True, may_have_happened=False), {}, SENDS),
    ("a person said no, closed", ONCE, call("unknown", renew=True), {"closed": True}, ends("not_applied")),
]


@pytest.mark.parametrize(("name", "action", "made", "words", "wanted"), TABLE, ids=[row[0] for row in TABLE])
def test_the_next_move(name: str, action: Action, made: Call, words: dict[str, Any], wanted: tuple[str, str]) -> None:
    move = next_move(
        made, action, Retry(tries=3, pause=10_000, growth="none", never_on=frozenset(words.get("retry", ()))),
        now=words.get("now", NOW), can_look_up=words.get("can_ask", action.has_lookup),
        is_closed=words.get("closed", False),
    )  # fmt: skip
    assert (move.word, move.timer or (move.kind if move.word == "end" else "")) == wanted


def test_a_look_up_waits_for_the_attempt_and_the_declared_delay() -> None:
    """A find by the business's fields waits 2 s at least."""
    made = call("unknown")
    by_key = next_move(made, LOOKUP, PLAIN, now=NOW, can_look_up=True, is_closed=False)
    by_find = next_move(made, FOUND, PLAIN, now=NOW, can_look_up=True, is_closed=False)
    assert (by_key.due, by_find.due) == (NOW + 29_000 + 2_000, NOW + 29_000 + 2_000)
    answered_late = call("unknown", intended_at=NOW - 90_000)
    assert next_move(answered_late, LOOKUP, PLAIN, now=NOW, can_look_up=True, is_closed=False).due == NOW + 2_000


@pytest.mark.parametrize(
    ("growth", "tries", "pause"),
    [("none", 3, 1_000), ("linear", 3, 3_000), ("double", 3, 4_000), ("double", 9, 5_000), ("double", 10_000, 5_000)],
)
def test_pauses_grow_to_the_longest(growth: Any, tries: int, pause: int) -> None:
    retry = Retry(tries=9, pause=1_000, growth=growth, longest=5_000)
    assert pause <= pause_before(call("not_sent", tries=tries), retry) <= pause * 5 // 4


def test_a_pause_is_never_zero() -> None:
    """Two timers of one call with one due time would be one fact."""
    none = Retry(tries=9, pause=0, growth="none")
    assert pause_before(call("not_sent"), none) == 1
    assert pause_before(call("refused", "rate_limited", retry_after=0), PLAIN) == 1
    assert pause_before(call("refused", "rate_limited", retry_after=77_000), PLAIN) == 77_000


def test_a_call_whose_sender_was_lost_goes_again_soon_but_only_once() -> None:
    lost = call("unknown", take_over=True)
    assert 1_000 <= pause_before(lost, WRITES) <= 1_250
    assert pause_before(call("unknown", take_over=True, tries=2), WRITES) >= WRITES.pause
    assert pause_before(lost, OWN) <= OWN.pause * 5 // 4


def test_the_authors_words_go_before_the_actions_before_the_class() -> None:
    own = Action(name="x", effect="once", retry=Retry(tries=6, pause=5, never_on=frozenset({"unknown"})))
    assert policy(own, RetryWords(), "do") == own.retry
    assert policy(own, RetryWords(tries=2, pause=0, growth="linear", longest=9), "undo") == Retry(
        tries=2, pause=0, growth="linear", longest=9, never_on=frozenset({"unknown"})
    )
    assert policy(own, RetryWords(never_on=frozenset({"not_sent"})), "do").never_on == {"not_sent"}
    assert policy(KEYED, RetryWords(), "do") == WRITES
    assert policy(KEYED, RetryWords(), "lookup") == READS
    assert policy(READ, RetryWords(), "read") == READS
    assert policy(Action(name="x", own=True), RetryWords(), "do") == OWN


def test_keys_are_made_of_what_stays() -> None:
    one: dict[str, Any] = {"flow": "f", "run": "r", "step": "s", "part": 0, "purpose": "do", "generation": 0}
    others: list[dict[str, Any]] = [
        {"flow": "g"}, {"run": "q"}, {"step": "t"}, {"part": 1}, {"purpose": "undo"}, {"generation": 1}
    ]  # fmt: skip
    keys = [make_key(**one | other) for other in [{}, *others]]
    assert keys[0] == make_key(**one)
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("am_") and len(key) == 35 for key in keys)


def test_an_authors_key_tells_parts_and_generations_apart() -> None:
    assert name_key("order-7", part=None, generation=0) == "order-7"
    assert name_key("order-7", part=None, generation=2) == "order-7-2"
    assert name_key("order-7", part=0, generation=0) == "order-7.1"
    assert name_key("order-7", part=1, generation=1) == "order-7.2-1"


def test_jitter_is_at_most_a_quarter_and_the_same_again() -> None:
    pauses = [spread("k", attempt, 1_000) for attempt in range(100)]
    assert pauses == [spread("k", attempt, 1_000) for attempt in range(100)]
    assert 1_000 <= min(pauses) < 1_050
    assert 1_200 < max(pauses) <= 1_250


def test_a_move_that_asks_says_why() -> None:
    move = next_move(call("unknown"), ONCE, PLAIN, now=NOW, can_look_up=False, is_closed=False)
    assert move == Move(word="ask", kind="unknown", summary="so")
