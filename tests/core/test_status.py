"""What a run is called while it goes on, and the core's own promise: it is pure."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import runner.core
from runner.core import decide
from runner.core import events as e
from runner.core.commands import Record
from runner.core.fold import fold, fold_all
from runner.core.state import State
from runner.core.status import Standing, standing_of
from tests.core.stage import LOST, NOT_SENT, REFUSED, asked, bundle_of, calling, do, once, run
from tests.laws.flows import corpus
from tests.laws.play import STARTED_AT, start_of

CORE = Path(runner.core.__file__).parent
PAIR = bundle_of(do("a", "svc.once") + do("b", undo="svc.once") + do("c", "svc.refuses"))
CALL = {"step": "a", "purpose": "do"}
INTENT = e.CallIntended(at=1, step="a", purpose="do", action="svc.once", key="k", request_hash="h", start_no=1)
ASKS = e.HandedOff(
    at=3, step="a", handoff="h1", kind="unknown", owner="team:x", choices=("happened",), summary="?", purpose="do"
)


def after(*events: e.Event) -> State:
    return fold_all([start_of(PAIR), *events])


def brief(standing: Standing) -> tuple[str, str, int | None, str, str, str]:
    return (
        standing.status, standing.phase, standing.wake_at, standing.at_step, standing.waiting_for, standing.needs
    )  # fmt: skip


LOST_CALL = e.CallUnknown(at=2, **CALL, reason="timeout")  # type: ignore[arg-type]
NOT_SENT_CALL = e.CallNotSent(at=2, **CALL, reason="connection")  # type: ignore[arg-type]
RETRY = e.TimerSet(at=2, step="a", timer="retry", due=9, purpose="do")
WAIT = e.TimerSet(at=2, step="w", timer="wait", due=5)
AWAITS = e.EventAwaited(at=2, step="r", event="paid", match={"claim": "C1"})
LIST = [
    e.ScopeStarted(at=1, step="l", kind="each", value=[1, 2, 3]),
    *(e.ScopeStarted(at=1, step=f"l/{number}", kind="item", name=f"n{number}") for number in (1, 2)),
]


def asks(step: str, handoff: str) -> e.HandedOff:
    return replace(ASKS, step=step, handoff=handoff)


CLOSED = e.ForwardClosed(at=4, cause="failure", compensate=True)

STANDINGS: list[tuple[str, list[e.Event], tuple[str, str, int | None, str, str, str]]] = [
    ("begun", [], ("queued", "forward", None, "", "", "")),
    ("decided", [e.StepSkipped(at=1, step="x", why="when")], ("running", "forward", None, "", "", "")),
    ("a call is out", [INTENT], ("running", "forward", None, "a", "an answer", "")),
    ("a retry", [INTENT, NOT_SENT_CALL, RETRY], ("waiting", "forward", 9, "a", "a timer", "")),
    ("the earliest of two", [INTENT, NOT_SENT_CALL, RETRY, WAIT], ("waiting", "forward", 5, "w", "a timer", "")),
    ("an event", [AWAITS], ("waiting", "forward", None, "r", "the event paid", "")),
    ("an event, in time", [AWAITS, WAIT], ("waiting", "forward", 5, "r", "the event paid", "")),
    ("paused", [WAIT, e.RunPaused(at=3, by="p")], ("paused", "forward", None, "w", "a timer", "")),
    ("asked", [INTENT, LOST_CALL, ASKS], ("needs_person", "forward", None, "a", "?", "team:x")),
    (
        "items of a list ask",
        [*LIST, asks("l/1/a", "h1"), asks("l/2/a", "h2")],
        ("needs_person", "forward", None, "l/1/a", "2 of 3 items of l wait for a person", "team:x"),
    ),
    (
        "one item asks",
        [*LIST, asks("l/1/a", "h1"), asks("l/1/b", "h2")],
        ("needs_person", "forward", None, "l/1/a", "?", "team:x"),
    ),
    (
        "items ask, and another step",
        [*LIST, asks("l/1/a", "h1"), asks("l/2/a", "h2"), asks("a", "h3")],
        ("needs_person", "forward", None, "l/1/a", "?", "team:x"),
    ),
    ("asked, and waits", [INTENT, LOST_CALL, ASKS, WAIT], ("needs_person", "forward", 5, "a", "?", "team:x")),
    (
        "asked, and a call is out",
        [INTENT, LOST_CALL, ASKS, e.CallIntended(at=4, step="b", purpose="do", action="x", key="l", request_hash="h")],
        ("running", "forward", None, "b", "an answer", "team:x"),
    ),
    (
        "held",
        [e.RunHeld(at=1, why="record", name="r", by_run="r9")],
        ("waiting", "forward", None, "", "waits for r, which run r9 holds", ""),
    ),
    (
        "kept off",
        [e.RunHeld(at=1, step="a", why="lock", name="r", by_run="r9")],
        ("waiting", "forward", None, "a", "waits for r, which run r9 works on", ""),
    ),
    ("held by name", [e.RunHeld(at=1, why="flow", name="f")], ("waiting", "forward", None, "", "flow held by f", "")),
    ("closed", [CLOSED], ("compensating", "compensating", None, "", "", "")),
    ("closed, a call is out", [INTENT, CLOSED], ("compensating", "compensating", None, "a", "an answer", "")),
    ("closed, asked", [INTENT, LOST_CALL, CLOSED, ASKS], ("needs_person", "compensating", None, "a", "?", "team:x")),
    ("ended", [WAIT, e.RunFinished(at=9, status="succeeded")], ("succeeded", "forward", None, "", "", "")),
]


@pytest.mark.parametrize(("name", "events", "wanted"), STANDINGS, ids=[row[0] for row in STANDINGS])
def test_what_a_run_is_called(
    name: str, events: list[e.Event], wanted: tuple[str, str, int | None, str, str, str]
) -> None:
    assert brief(standing_of(after(*events))) == wanted


def test_the_timer_of_a_call_that_is_done_wakes_nobody() -> None:
    done = e.CallSettled(at=3, **CALL, result="applied", by="person:me")  # type: ignore[arg-type]
    state = after(INTENT, LOST_CALL, done, RETRY)
    assert standing_of(state).wake_at is None


def test_a_run_that_was_moved_goes_on_with_another_bundle() -> None:
    assert after(e.RunMoved(at=1, bundle="newer", by="person:me")).bundle == "newer"


def test_facts_that_change_no_decision_are_read() -> None:
    before = after()
    noted = fold(before, e.NoticeSent(at=5, about="h1", to="person:me"))
    assert (noted.seq, noted.at) == (before.seq + 1, max(before.at, 5))


def test_nothing_is_decided_before_a_run_begins_or_after_it_ends() -> None:
    assert decide.decide(PAIR, State(), 1) == ()
    assert decide.decide(PAIR, after(e.RunFinished(at=1, status="succeeded")), 2) == ()


def test_a_core_that_goes_in_circles_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop of our own making can hold the engine: it is an error that names the run."""
    record = Record(event=e.NoticeSent(at=1, about="h1", to="person:me"))
    monkeypatch.setattr(decide, "_forward", lambda bundle, state, now: (record,))
    with pytest.raises(AssertionError, match="run r1 does not come to rest"):
        decide.settle(PAIR, after(), 1)


def test_every_rest_has_a_witness() -> None:
    """Whatever a run waits for, its standing says it: a time, a person, an answer, or that it is paused."""
    rests = [
        run(PAIR, {("a", "do"): [LOST]}),
        run(PAIR, {("c", "do"): [REFUSED], ("b", "undo"): [LOST]}),
        run(PAIR, {("c", "do"): [REFUSED], ("b", "undo"): [REFUSED], ("a", "undo"): [NOT_SENT]}),
        run(PAIR, {("a", "do"): [LOST]}, [asked("compensate", "a")]),
        run(PAIR, {}, [once("pause", calling("a", "do"))]),
        run(corpus()["asks"]),
    ]
    for result in rests:
        standing = standing_of(result.state)
        assert standing.needs or standing.status == "paused"


# --- purity --------------------------------------------------------------------------------------------------------

OUTSIDE = {
    "asyncio",
    "datetime",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sys",
    "threading",
    "time",
    "uuid",
}
CLOCKS = {"now", "today", "utcnow", "monotonic", "time_ns", "urandom", "uuid4"}


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_core_is_pure(path: Path) -> None:
    """No clock, no I/O, no chance. `datetime` is a type here: the day a wait names is made into a number."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    named |= {(node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert named & OUTSIDE <= ({"datetime"} if path.stem == "waits" else set())
    called = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not called & CLOCKS
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global) for node in ast.walk(tree))


def test_deciding_leaves_the_state_as_it_was() -> None:
    state = fold_all([start_of(corpus()["marks"])])
    before = dict(vars(state))
    decide.settle(corpus()["marks"], state, STARTED_AT)
    assert vars(state) == before
