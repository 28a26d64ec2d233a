"""A run whose personal data was erased sends nothing more: the whole of it is put before a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from runner.core import events as e
from runner.core.fold import fold, fold_all
from runner.core.state import State
from runner.language.bundle import Bundle
from runner.people.operations import Order
from tests.core.stage import (
    BUSY,
    LOST,
    REFUSED,
    Act,
    Crowd,
    Script,
    asking,
    bundle_of,
    calling,
    do,
    facts,
    once,
    run,
    waiting,
    words_of,
)

TWO = bundle_of(do("a") + do("b", "svc.once"))
WAITS = bundle_of(do("a") + "  - { id: nap, wait: 3 days }\n" + do("b"))


class Eraser(Crowd):
    """Erases what was written so far as soon as the run is as it waits for; later it takes the run over."""

    def __init__(self, when: Callable[[State], bool], acts: Sequence[Act] = ()) -> None:
        super().__init__(acts)
        self.when: Callable[[State], bool] | None = when

    def next_at(self, state: State, now: int) -> int | None:
        return now if self.when is not None and self.when(state) else super().next_at(state, now)

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        if self.when is not None and self.when(state):
            self.when = None
            return (e.PersonalDataErased(at=now, by="person:ops", seqs=(1,)),)
        return super().acts(bundle, state, now)


TAKE = (
    (lambda state: any(h.kind == "erased" for h in state.open_handoffs)),
    Order(action="take_over", by="person:owner"),
)
MOMENTS: list[tuple[str, Bundle, Script, Callable[[State], bool]]] = [
    ("a call is out", TWO, {}, calling("b", "do")),
    ("a retry waits", TWO, {("a", "do"): [BUSY]}, waiting("a", "do")),
    ("a question is open", TWO, {("b", "do"): [LOST]}, asking("b")),
    ("a compensation is out", TWO, {("b", "do"): [REFUSED]}, calling("a", "undo")),
    ("it waits for a time", WAITS, {}, lambda state: "nap" in state.steps),
]


@pytest.mark.parametrize(("name", "bundle", "script", "when"), MOMENTS, ids=[row[0] for row in MOMENTS])
def test_it_is_handed_over_and_only_taken_over(
    name: str, bundle: Bundle, script: Script, when: Callable[[State], bool]
) -> None:
    people = Eraser(when, [TAKE])
    result = run(bundle, script, people=people)
    assert (result.end, result.state.status) == ("ended", "closed")
    places = [type(event) for event in result.events]
    after = result.events[places.index(e.PersonalDataErased) :]
    assert not [event for event in after if isinstance(event, e.CallIntended)], "nothing is sent after it"
    [question] = [event for event in after if isinstance(event, e.HandedOff)]
    assert (question.kind, question.choices, question.step) == ("erased", ("take_over",), "")
    assert set(words_of(result).values()) <= {"by_hand", "undone"}
    assert fold_all(result.events) == result.state


def test_erasing_after_the_end_leaves_the_end_and_binds_what_cleans_up() -> None:
    result = run(TWO, {("b", "do"): [REFUSED]}, [once("stop", calling("b", "do"))])
    assert result.state.status == "stopped"
    erased = e.PersonalDataErased(at=result.now, by="person:ops", seqs=(1,))
    state = fold(result.state, erased)
    assert (state.status, state.effects, state.is_erased) == ("stopped", result.state.effects, True)
    began = e.RunStarted(
        at=result.now, run="later", flow="it", mode="live", bundle="it", continues="run", clean_up="compensate"
    )
    cleaning = run(TWO, before=(*result.events, erased), started=began)
    assert cleaning.end == "rests"
    assert [event.kind for event in facts(cleaning, e.HandedOff)] == ["erased"]
    assert not facts(cleaning, e.CallIntended)


def test_a_stop_changes_nothing_any_more() -> None:
    stop = once("stop", lambda state: state.is_erased)
    result = run(TWO, {}, people=Eraser(calling("b", "do"), [stop, TAKE]))
    assert (result.state.status, result.state.late) == ("closed", 1)
    before = run(TWO, {}, people=Eraser(lambda state: state.stop is not None, [once("stop", calling("b", "do")), TAKE]))
    assert before.state.status == "closed"
