"""Making good: what is undone and in which order, what a failed or doubtful compensation does, what a person may say."""

from __future__ import annotations

import pytest

from runner.core import events as e
from runner.core.fold import fold_all
from runner.engine.simulated import Result
from runner.language.bundle import Bundle
from tests.core.stage import (
    CANNOT,
    LOST,
    NONE,
    NOT_SENT,
    ONE,
    REFUSED,
    TWO,
    Script,
    asked,
    asking,
    bundle_of,
    calling,
    do,
    facts,
    once,
    run,
    undone,
    waiting,
    words_of,
)
from tests.laws.flows import corpus

THREE = bundle_of(do("a") + do("b", "svc.once") + do("c", "svc.looked"))
FAILS = {("c", "do"): [REFUSED]}
FAN_UNDO = bundle_of(
    do("a")
    + "  - id: m\n    do: svc.keyed\n    with: { name: x }\n"
    + "    compensate: { correct: svc.letter, with: { to: [x, y] } }\n"
    + do("c", "svc.refuses")
)
CAREFUL = bundle_of(
    do("a") + do("b") + do("c", "svc.refuses"), top="on_failure: { do: compensate, if_one_fails: stop }\n"
)


def status(result: Result) -> str:
    assert result.end == "ended"
    return result.state.status


def test_newest_start_first_the_unknown_step_included() -> None:
    result = run(
        THREE, {("c", "do"): [LOST], ("c", "lookup"): [ONE]}, [once("stop_compensate", calling("c", "lookup"))]
    )
    assert status(result) == "compensated"
    assert undone(result) == ["c", "b", "a"]


def test_nothing_was_applied() -> None:
    result = run(THREE, {("a", "do"): [REFUSED]})
    assert status(result) == "failed"
    assert undone(result) == []


def test_every_word() -> None:
    """Mark, correct, quarantine answer; a hand-off is by hand; a reasoned none is accepted; cancel undoes."""
    result = run(corpus()["marks"], {("last", "do"): [REFUSED]}, [asked("done", "handed", reference="ticket 7")])
    assert status(result) == "closed"
    assert words_of(result) == {
        "canceled": "undone", "marked": "answered", "corrected": "answered", "aside": "answered", "handed": "by_hand",
        "harmless": "accepted",
    }  # fmt: skip
    assert [effect.note for effect in result.state.effects.values() if effect.path == "handed"] == ["ticket 7"]
    assert facts(result, e.HandedOff)[0].owner == "team:finance"


def test_an_action_with_its_own_undo_and_our_own_list() -> None:
    own = run(corpus()["own_undo"], {("b", "do"): [REFUSED]})
    assert facts(own, e.CallIntended)[-1].input == {"id": "a-0", "name": "x"}
    listed = run(corpus()["own_list"], {("b", "do"): [REFUSED]})
    assert facts(listed, e.CallIntended)[-1].input == {
        "record": "customer/a-0", "reason": "no", "content": {"id": "a-0"}
    }  # fmt: skip
    unnamed = bundle_of(do("a", "svc.plain", "{ quarantine: order }") + do("b", "svc.refuses"))
    assert facts(run(unnamed, {("b", "do"): [REFUSED]}), e.CallIntended)[-1].input["record"] == "order"


def test_a_step_that_says_nothing_is_handed_off() -> None:
    result = run(corpus()["silent"], {("b", "do"): [REFUSED]}, [asked("stands")])
    assert status(result) == "closed"
    assert result.state.stands == ("a",)


# --- one that fails ------------------------------------------------------------------------------------------------


def test_a_failed_compensation_does_not_silence_the_others() -> None:
    result = run(THREE, {**FAILS, ("b", "undo"): [REFUSED]}, [asked("stands", "b")])
    assert status(result) == "closed"
    assert (undone(result), result.state.stands) == (["a"], ("b",))


def test_a_failed_compensation_is_tried_again_under_a_new_key() -> None:
    result = run(THREE, {**FAILS, ("b", "undo"): [REFUSED]}, [asked("retry", "b")])
    assert status(result) == "compensated"
    keys = {event.key for event in facts(result, e.CallIntended) if event.step == "b" and event.purpose == "undo"}
    assert len(keys) == 2


def test_under_if_one_fails_stop_the_rest_waits() -> None:
    halted = run(CAREFUL, {("c", "do"): [REFUSED], ("b", "undo"): [REFUSED]})
    assert (halted.end, undone(halted)) == ("rests", [])
    goes_on = run(CAREFUL, {("c", "do"): [REFUSED], ("b", "undo"): [REFUSED]}, [asked("done", "b")])
    assert (status(goes_on), undone(goes_on)) == ("closed", ["a"])
    unbuilt = run(CAREFUL, {("c", "do"): [REFUSED], ("any", "undo"): [CANNOT]})
    assert (unbuilt.end, undone(unbuilt)) == ("rests", [])


def test_a_compensation_under_way_goes_on_while_a_newer_one_is_tried_again() -> None:
    """Order binds starts: the older one's timer is not lost."""
    acts = [(lambda state: waiting("a", "undo")(state) and asking("b")(state), asked("retry", "b")[1])]
    script = {**FAILS, ("b", "undo"): [REFUSED, NOT_SENT], ("a", "undo"): [NOT_SENT]}
    result = run(THREE, script, acts)
    assert status(result) == "compensated"
    assert sorted(undone(result)) == ["a", "b"]


# --- one in doubt --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ends", "word"),
    [
        ("happened", "compensated", "undone"),
        ("did_not", "compensated", "undone"),
        ("done", "closed", "by_hand"),
        ("stands", "closed", "stands"),
    ],
)
def test_a_compensation_in_doubt_holds_nothing(answer: str, ends: str, word: str) -> None:
    bundle = bundle_of(do("a") + do("b", undo="svc.once") + do("c", "svc.refuses"))
    when_a_is_undone = (lambda state: ("a", "undo", 0) in state.calls and asking("b")(state), asked(answer, "b")[1])
    result = run(bundle, {("c", "do"): [REFUSED], ("b", "undo"): [LOST]}, [when_a_is_undone])
    assert status(result) == ends
    assert words_of(result) == {"a": "undone", "b": word}
    sent = [event for event in facts(result, e.CallIntended) if event.call == ("b", "undo", 0)]
    assert len({event.key for event in sent}) == len(sent) == (2 if answer == "did_not" else 1)


def test_a_compensation_is_looked_up() -> None:
    bundle = bundle_of(do("a", undo="svc.looked") + do("c", "svc.refuses"))
    script = {("c", "do"): [REFUSED], ("a", "undo"): [LOST], ("a", "undo_lookup"): [LOST, NONE]}
    result = run(bundle, script)
    assert status(result) == "compensated"
    assert len([event for event in facts(result, e.CallIntended) if event.call == ("a", "undo", 0)]) == 2


def test_a_look_up_of_a_compensation_that_cannot_be_built_asks() -> None:
    """`retry` is no answer to it: it may have happened."""
    bundle = bundle_of(do("a", undo="svc.looked") + do("c", "svc.refuses"))
    script: Script = {("c", "do"): [REFUSED], ("a", "undo"): [LOST], ("any", "undo_lookup"): [CANNOT]}
    result = run(bundle, script, [asked("happened")])
    assert status(result) == "compensated"
    question = facts(result, e.HandedOff)[0]
    assert (question.kind, question.summary) == ("compensation_unknown", f"It could not be looked up: {CANNOT}")


def test_the_other_parts_of_a_compensation_go_on_while_one_is_asked_about() -> None:
    """The second letter's retry is not forgotten, and nothing older begins before it has left."""
    acts = [(lambda state: ("a", "undo", 0) in state.calls, asked("happened", "m")[1])]
    result = run(FAN_UNDO, {("c", "do"): [REFUSED], ("m", "undo"): [LOST, NOT_SENT]}, acts)
    assert status(result) == "compensated"
    assert words_of(result) == {"a": "undone", "m": "answered"}
    letters = [event for event in facts(result, e.CallIntended) if event.step == "m" and event.purpose == "undo"]
    first_of_a = next(i for i in facts(result, e.CallIntended) if i.call == ("a", "undo", 0))
    assert [letter.part for letter in letters] == [0, 1, 1]
    assert result.events.index(letters[-1]) < result.events.index(first_of_a)


def test_a_part_that_is_done_stays_done_when_the_rest_is_tried_again() -> None:
    result = run(FAN_UNDO, {("c", "do"): [REFUSED], ("m", "undo"): [REFUSED]}, [asked("retry", "m")])
    assert status(result) == "compensated"
    parts = [event.part for event in facts(result, e.CallIntended) if event.step == "m" and event.purpose == "undo"]
    assert parts == [0, 1, 0]


def test_done_ends_all_parts_of_a_compensation() -> None:
    """One part is in doubt, one waits for its retry: neither wakes anybody afterwards."""
    acts = [asked("done", "m")]
    result = run(FAN_UNDO, {("c", "do"): [REFUSED], ("m", "undo"): [LOST, NOT_SENT]}, acts)
    assert status(result) == "closed"
    assert words_of(result) == {"a": "undone", "m": "by_hand"}


@pytest.mark.parametrize("answer", ["retry", "done"])
def test_a_compensation_that_cannot_be_evaluated(answer: str) -> None:
    bundle = bundle_of(do("a").replace("output.id", "output.nothing") + do("c", "svc.refuses"))
    result = run(bundle, {("c", "do"): [REFUSED]}, [asked(answer), asked("stands")])
    assert status(result) == "closed"
    questions = facts(result, e.HandedOff)
    assert [question.kind for question in questions] == ["request"] * (2 if answer == "retry" else 1)


def test_a_request_that_cannot_be_built_is_a_question_about_its_part() -> None:
    """The other letters leave; asked again, it still cannot be written."""
    bundle = bundle_of(
        "  - id: m\n    do: svc.keyed\n    with: { name: x }\n"
        "    compensate: { correct: svc.letter, with: { to: [x, bad, y] } }\n" + do("c", "svc.refuses")
    )
    result = run(bundle, {("c", "do"): [REFUSED]}, [asked("retry", "m"), asked("stands", "m")])
    assert status(result) == "closed"
    assert [event.part for event in facts(result, e.CallApplied) if event.purpose == "undo"] == [0, 2]
    assert [question.part for question in facts(result, e.HandedOff)] == [1, 1]


# --- a forward doubt while compensating ----------------------------------------------------------------------------


def test_an_unsettled_step_holds_what_is_older_until_its_owner_lets_go() -> None:
    script = {("b", "do"): [LOST]}
    held = run(THREE, script, [asked("compensate", "b")])
    assert (held.end, undone(held)) == ("rests", [])
    assert held.state.open_handoffs[0].choices == ("happened", "did_not", "go_on", "take_over")
    let_go = run(THREE, script, [asked("compensate", "b"), asked("go_on", "b")])
    assert (let_go.end, undone(let_go)) == ("rests", ["a"])
    assert let_go.state.open_handoffs[0].choices == ("happened", "did_not", "take_over")
    told = run(
        THREE, script, [asked("compensate", "b"), asked("go_on", "b"), asked("happened", "b", output={"id": "7"})]
    )
    assert (status(told), undone(told)) == ("compensated", ["a", "b"])


def test_a_question_that_was_open_when_forward_closed_offers_what_fits_now() -> None:
    result = run(THREE, {("b", "do"): [LOST]}, [once("stop_compensate", asking("b")), asked("did_not", "b")])
    assert status(result) == "compensated"
    closed_at = next(n for n, event in enumerate(result.events, 1) if isinstance(event, e.ForwardClosed))
    state = fold_all(result.events[:closed_at])
    assert state.handoffs["h1"].choices == ("happened", "did_not", "go_on", "take_over")
    stopped = run(THREE, {("b", "do"): [LOST]}, [once("stop", asking("b"))])
    assert stopped.state.handoffs["h1"].choices == ("happened", "did_not", "take_over")


def test_an_adopted_record_is_not_cancelled_by_itself() -> None:
    """None at first, one after our own attempt was lost: ours, but not for certain."""
    script = {("a", "do"): [LOST], ("a", "find"): [NONE, ONE], ("c", "do"): [REFUSED]}
    result = run(corpus()["adopts"], script, [asked("done", "a")])
    assert status(result) == "closed"
    assert ("b", "undo", 0) in {event.call for event in facts(result, e.CallIntended)}
    assert ("a", "undo", 0) not in {event.call for event in facts(result, e.CallIntended)}


def test_several_records_after_a_lost_attempt_go_to_a_person() -> None:
    script = {("a", "do"): [LOST], ("a", "find"): [NONE, TWO], ("c", "do"): [REFUSED]}
    result = run(corpus()["adopts"], script, [asked("happened", "a", output={"id": "7"})])
    assert status(result) == "compensated"
    assert facts(result, e.HandedOff)[0].kind == "several"
    assert facts(result, e.CallIntended)[-1].input == {"id": "7"}


# --- a clean-up run ------------------------------------------------------------------------------------------------


def _cleaned(bundle: Bundle, old: Result, script: Script | None = None, how: str = "compensate") -> Result:
    started = e.RunStarted(
        at=old.now, run="r2", flow="it", mode="live", bundle="it", owner="person:owner", continues="r1", clean_up=how
    )
    return run(bundle, script, started=started, before=old.events)


ONCE_UNDO = bundle_of(do("a", undo="svc.looked") + do("b", undo="svc.looked") + do("c", "svc.refuses"))


def test_a_clean_up_run_makes_good_what_a_stop_left() -> None:
    """The old look-up, which found nothing, is no answer to the new attempt; the old question is over."""
    script = {("c", "do"): [REFUSED], ("b", "undo"): [LOST, REFUSED], ("b", "undo_lookup"): [NONE]}
    old = run(ONCE_UNDO, script, [once("stop", calling("a", "undo"))])
    assert (old.state.status, words_of(old)) == ("stopped", {"a": "undone", "b": "stands"})
    result = _cleaned(ONCE_UNDO, old, {("b", "undo"): [LOST], ("b", "undo_lookup"): [ONE]})
    assert status(result) == "compensated"
    assert words_of(result) == {"a": "undone", "b": "undone"}
    assert [event.purpose for event in facts(result, e.CallIntended)] == ["undo", "undo_lookup"]
    old_keys = {event.key for event in facts(old, e.CallIntended)}
    assert not old_keys & {event.key for event in facts(result, e.CallIntended) if event.purpose == "undo"}


def test_a_clean_up_by_take_over_leaves_it_to_the_person() -> None:
    old = run(ONCE_UNDO, {("c", "do"): [REFUSED]}, [once("stop", calling("b", "undo"))])
    result = _cleaned(ONCE_UNDO, old, how="take_over")
    assert status(result) == "closed"
    assert words_of(result) == {"a": "by_hand", "b": "undone"}


def test_a_clean_up_of_a_stop_before_anything_failed() -> None:
    old = run(THREE, {}, [once("stop", calling("b", "do"))])
    again = _cleaned(THREE, old)
    assert (status(again), undone(again)) == ("compensated", ["b", "a"])


def test_a_clean_up_run_makes_good_what_a_person_let_stand_in_an_item() -> None:
    item = (
        "      - id: send\n        do: svc.keyed\n        with: { name: x }\n"
        "        compensate: { cancel: svc.undo, with: { id: '${{ output.id }}' } }\n"
        "      - id: note\n        do: svc.keyed\n        with: { name: y }\n"
        "        compensate: { cancel: svc.undo, with: { id: '${{ output.id }}' } }\n"
    )
    rows = f"  - id: rows\n    each: [{{ n: a }}, {{ n: b }}]\n    if_one_fails: continue\n    steps:\n{item}"
    bundle = bundle_of(rows)
    lets = [
        asked("stands", "rows/2/send"),
        once("stop", lambda state: any(h.kind == "set_aside" for h in state.open_handoffs)),
    ]
    old = run(bundle, {("rows/2/note", "do"): [REFUSED], ("rows/2/send", "undo"): [REFUSED]}, lets)
    assert (old.state.status, old.state.stands) == ("stopped", ("rows",))
    result = _cleaned(bundle, old)
    assert result.state.status == "compensated"
    assert undone(result) == ["rows/2/send", "rows/1/note", "rows/1/send"]
