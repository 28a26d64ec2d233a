"""What a person can do to a run: one table, situations by actions. Each cell is done, so already, or refused.

`operations` looks up every order here. The README shows the table; a test brings a real run into every situation and
presses every button there: once, twice, and ten at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.core.calls import SEVERAL_CHOICES, UNKNOWN_CHOICES, UNKNOWN_CHOICES_UNDO
from runner.core.decide import FAILURE_CHOICES, OUTPUT_CHOICES
from runner.core.ending import NEXT_CHOICES
from runner.core.paths import forgotten_item, is_closed_at
from runner.core.scopes import ASIDE_CHOICES
from runner.core.state import HandOff, State
from runner.core.status import standing_of
from runner.core.undoing import COMPENSATION_CHOICES, FAILED_CHOICES
from runner.core.waits import STEP_CHOICES
from runner.recorded import retold
from runner.tongue import _, marked

Answer = Literal["done", "perhaps", "already", "refused"]

ACTIONS: Mapping[str, tuple[str, str]] = {
    "pause": ("begin nothing new until it is resumed", marked("it cannot be paused")),
    "resume": ("let a paused run go on", marked("it cannot be resumed")),
    "stop": ("stop here: what was done stays and is listed", marked("it cannot be stopped")),
    "stop_compensate": ("stop, and make good what was done", marked("it cannot be stopped")),
    "compensate": ("make good what was done, or the rest of it", marked("it cannot be made good")),
    "retry": ("try a failed step, or a failed compensation, again", marked("there is no failed step to try again")),
    "again": ("ask the service once more what became of a call", marked("no call of it is in doubt")),
    "skip": ("go on without a failed step", marked("there is no failed step to go on without")),
    "happened": ("say that a call in doubt did happen", marked("no call of it is in doubt")),
    "did_not": ("say that it did not", marked("no call of it is in doubt")),
    "go_on": ("go on where the flow handed over, or with the rest", marked("no question of it waits for that")),
    "close": ("close it: what was done stays", marked("no question of it waits for that")),
    "done": ("say that it was put right by hand", marked("no compensation of it waits for a person")),
    "stands": ("say that an effect stays as it is", marked("no compensation of it waits for a person")),
    "take_over": (
        "take it over by hand: nothing more is done by itself",
        marked("it asks nothing that you could take over"),
    ),
    "rerun": ("start it anew with the same inputs and key", marked("it cannot be started anew")),
    "acknowledge": ("say that somebody looks at a question, or has seen how it ended", marked("it asks nothing")),
}
"""Each action: what it does, and what is said where it is refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """How a run stands. `is_so` follows "run X", `way_out` says what can be done there.

    `done`: the actions that are done; `already`: those that are so already, with what is said then. The rest is
    refused. `perhaps`: done where the question offers it.
    """

    shown: str
    is_so: str = ""
    way_out: str = ""
    done: tuple[str, ...] = ()
    already: Mapping[str, str] = field(default_factory=dict)
    perhaps: tuple[str, ...] = ()

    def answer(self, action: str) -> Answer:
        """What the table says."""
        if action in self.perhaps:
            return "perhaps"
        return "done" if action in self.done else "already" if action in self.already else "refused"


_SHOW = marked("`amends runs show {run}` says what can be done")
_STOP_IT = marked("to end it, stop it: `amends runs stop {run}`")
_RESUME = marked("resume it first: `amends runs resume {run}`")
_FOR_WHOM = marked("see for whom: `amends runs show {run}`")
_ANEW = marked("start it anew: `amends runs rerun {run}`")
_OTHER_KEY = marked("what is to be done again needs a run under another key")
_ORDERS = ("pause", "stop", "stop_compensate", "compensate")
_AGAIN = ("again", "retry")
_UNDO = (*_AGAIN, "happened", "did_not", "go_on", "done", "stands")
_GOES = {"resume": marked("is not paused: it {is_so}")}
_MAKES_GOOD = {"stop_compensate": marked("is compensating already"), "compensate": marked("is compensating already")}
_STOPPING = {"stop": marked("is being stopped already")}
_PAUSED = {"pause": marked("is paused already; resume it with `amends runs resume {run}`")}


def _goes(shown: str, is_so: str, way_out: str = _STOP_IT) -> Situation:
    return Situation(shown=shown, is_so=is_so, way_out=way_out, done=_ORDERS, already=_GOES)


def _makes_good(shown: str, is_so: str) -> Situation:
    already = {**_MAKES_GOOD, **_GOES}
    return Situation(shown=shown, is_so=is_so, way_out=_SHOW, done=("pause", "stop"), already=already)


def _asks(
    shown: str, choices: tuple[str, ...] = (), *, closed: str = "", perhaps: tuple[str, ...] = (), beside: bool = False
) -> Situation:
    """An open question. `closed`: forward is closed, and the rest is made good, or was stopped. `beside` it the run
    goes on."""
    orders = {"": _ORDERS, "compensating": ("pause", "stop"), "stopping": ()}[closed]
    already = {"": {}, "compensating": _MAKES_GOOD, "stopping": _STOPPING}[closed]
    answer = marked("waits for a person's answer")
    is_so = marked("waits for a person's answer in one place and goes on elsewhere") if beside else answer
    return Situation(
        shown=shown, is_so=is_so, way_out=_SHOW, done=(*orders, *choices, "acknowledge"),
        already={**already, **_GOES} if beside else already, perhaps=perhaps,
    )  # fmt: skip


def _ended(shown: str, way_out: str, *done: str, **already: str) -> Situation:
    is_seen = () if shown.startswith(("succeeded", "drafted")) else ("acknowledge",)
    return Situation(
        shown=shown, is_so=marked("has ended ({status})"), way_out=way_out, done=done, already=already, perhaps=is_seen
    )  # fmt: skip


SITUATIONS: Mapping[str, Situation] = {
    "queued": _goes("queued", marked("has not begun")),
    "calling": _goes("running, a call is out", marked("waits for the answer to step {step}")),
    "between": _goes("running, between two calls", marked("is on its way")),
    "waiting": _goes("waits for a time", marked("waits for a time (step {step})")),
    "retrying": _goes("waits to try again", marked("tries step {step} again by itself")),
    "event": _goes("waits for an event", marked("waits for {waits} (step {step})")),
    "approval": _goes("waits for an approval", marked("waits for {waits} (step {step})")),
    "held": _goes("held: another run has its record", "{waits}", _FOR_WHOM),
    "locked": _goes("held: another run works on a record that it needs", "{waits}", _FOR_WHOM),
    "item_undoing": _goes(
        "makes an item good that failed alone", marked("is making good item {item}, which failed alone")
    ),
    "paused": Situation(
        shown="paused", is_so=marked("is paused"), way_out=_RESUME, already=_PAUSED,
        done=("resume", "stop", "stop_compensate", "compensate"),
    ),
    "paused_undoing": Situation(
        shown="paused while compensating", is_so=marked("is paused"), way_out=_RESUME, done=("resume", "stop"),
        already={**_PAUSED, **_MAKES_GOOD},
    ),
    "failure": _asks("asks: a step failed", FAILURE_CHOICES),
    "unknown": _asks("asks: did it happen?", UNKNOWN_CHOICES, perhaps=_AGAIN),
    "several": _asks("asks: which record is ours?", SEVERAL_CHOICES, perhaps=_AGAIN),
    "step": _asks("asks: the flow hands over", STEP_CHOICES),
    "late": _asks("asks: an event did not come", STEP_CHOICES),
    "set_aside": _asks("asks: items were set aside", ASIDE_CHOICES),
    "outputs": _asks("asks: the outputs have no answer", OUTPUT_CHOICES),
    "item_undo": _asks("asks about an item that is to be made good", ("take_over",), perhaps=_UNDO),
    "beside": _asks(
        "asks in one place, goes on elsewhere", perhaps=(*_UNDO, "skip", "close", "take_over"), beside=True
    ),
    "erased": Situation(
        shown="asks: its personal data was erased", is_so=marked("cannot go on: its personal data was erased"),
        way_out=marked("take it over (`amends runs take-over {run}`)"), done=("take_over", "acknowledge"),
    ),
    "undoing": _makes_good("compensating, a call is out", marked("is making good what it has done")),
    "undo_retrying": _makes_good(
        "compensating, waits to try again", marked("tries to make step {step} good again by itself")
    ),
    "undo_approval": _makes_good(
        "compensating, waits for an approval", marked("waits for {waits} to make step {step} good")
    ),
    "undoing_items": _makes_good(
        "compensating the ended items of a list", marked("is making good the items of a list")
    ),
    "cleaning": _makes_good("a clean-up run", marked("is making good what run {continues} left")),
    "doubt_undoing": _asks(
        "asks while compensating: did it happen?", ("happened", "did_not", "go_on", "take_over"),
        closed="compensating", perhaps=_AGAIN,
    ),
    "undo_unknown": _asks(
        "asks: was it made good?", UNKNOWN_CHOICES_UNDO, closed="compensating", perhaps=_AGAIN
    ),
    "undo_failed": _asks("asks: a compensation failed", FAILED_CHOICES, closed="compensating"),
    "undo_by_hand": _asks("asks: a person makes it good", COMPENSATION_CHOICES, closed="compensating"),
    "beside_undoing": _asks(
        "asks in one place, makes good elsewhere", ("take_over",), closed="compensating", perhaps=_UNDO, beside=True
    ),
    "then_run": _asks("asks: what is to follow cannot be started", NEXT_CHOICES, closed="compensating"),
    "stopping": Situation(
        shown="being stopped, a call is out", is_so=marked("is being stopped"), way_out=_SHOW,
        already=_STOPPING,
    ),
    "doubt_stopping": _asks(
        "asks while being stopped: did it happen?", ("happened", "did_not", "take_over"), closed="stopping",
        perhaps=(*_AGAIN, "done", "stands"),
    ),
    "succeeded": _ended("succeeded", _OTHER_KEY),
    "succeeded_bare": _ended("succeeded, nothing was changed", _ANEW, "rerun"),
    "drafted": _ended(
        "drafted, drafts are left", marked("remove its drafts first: `amends runs compensate {run}`"), "compensate"
    ),
    "drafted_bare": _ended("drafted, no draft is left", _ANEW, "rerun"),
    "failed": _ended("failed: nothing was done", _ANEW, "rerun"),
    "compensated": _ended(
        "compensated", _ANEW, "rerun", compensate=marked("was compensated already"),
        stop_compensate=marked("was compensated already"),
    ),
    "stopped": _ended(
        "stopped, something stands",
        marked(
            "make good what stands (`amends runs compensate {run}`), or take it over (`amends runs take-over {run}`)"
        ),
        "compensate", "take_over", stop=marked("was stopped already"),
    ),
    "stopped_bare": _ended("stopped, nothing stands", _ANEW, "rerun", stop=marked("was stopped already")),
    "closed": _ended("closed by a person, something stands", _OTHER_KEY, close=marked("was closed already")),
    "closed_bare": _ended("closed by a person, nothing stands", _ANEW, "rerun", close=marked("was closed already")),
    "taken_over": _ended("taken over by hand", _OTHER_KEY, take_over=marked("was taken over already")),
}  # fmt: skip

_BY_KIND: Mapping[str, str] = {
    "request": "undo_failed", "compensation_failed": "undo_failed", "compensation": "undo_by_hand",
    "compensation_unknown": "undo_unknown",
}  # fmt: skip
"""The kinds of questions that are no rows by themselves."""


def situation_of(state: State) -> str:
    """How a run stands, as a row of the table: for what is done to the run as a whole."""
    if state.has_ended:
        return _end_of(state)
    if state.is_paused:
        return "paused_undoing" if state.root.closed else "paused"
    if state.stops_here:
        return "doubt_stopping" if open_questions(state) else "stopping"
    asked = open_questions(state)
    return asked_by(state, asked[0]) if asked else _on_its_way(state)


def open_questions(state: State) -> tuple[HandOff, ...]:
    """The questions that wait for an answer. Once a stop is ordered only what became of a call is still asked."""
    if state.has_ended:
        return ()
    is_ordered = state.stop is not None and not state.root.closed
    return tuple(h for h in state.open_handoffs if h.asks_what_became or not is_ordered)


def _end_of(state: State) -> str:
    if state.is_taken_over:
        return "taken_over"
    if f"{state.status}_bare" not in SITUATIONS or something_stands(state):
        return state.status
    return f"{state.status}_bare"


def something_stands(state: State) -> bool:
    """An effect of the ended run is still there outside."""
    return state.left("stands") > 0 or any(effect.disposition == "stands" for effect in state.effects.values())


def _on_its_way(state: State) -> str:
    at_step = standing_of(state).at_step
    is_out = any(call.is_open for call in state.calls.values())
    retries = not is_out and any(name[0] == at_step and call.due is not None for name, call in state.calls.items())
    asks_leave = not is_out and any(gate.status == "open" for gate in state.gates.values())
    if state.root.closed or state.stop is not None:
        if state.continues:
            return "cleaning"
        if any(forgotten_item(state, path) for path, undo in state.undo.items() if undo.status == "open"):
            return "undoing_items"
        return "undo_approval" if asks_leave else "undo_retrying" if retries else "undoing"
    if failed_item(state):
        return "item_undoing"
    if is_out:
        return "calling"
    if state.held:
        return "locked" if state.held[at_step].why == "lock" else "held"
    step = state.steps.get(at_step)
    if asks_leave or retries:
        return "approval" if asks_leave else "retrying"
    if step is not None and (step.event or step.due is not None):
        return "event" if step.event else "waiting"
    return "queued" if state.seq <= 1 else "between"


def failed_item(state: State) -> str:
    """An item that failed alone and is being made good; empty where there is none."""
    return next((path for path, scope in state.scopes.items() if path and scope.closed), "")


def asked_by(state: State, handoff: HandOff) -> str:
    """The row of the table for the answers to one open question."""
    is_closed = state.root.closed or state.stop is not None
    if (is_closed or state.failure is None) and _moves(state):
        return "beside_undoing" if is_closed else "beside"
    if handoff.purpose == "do" and handoff.kind in ("unknown", "several") and is_closed:
        return "doubt_undoing"
    kind = _BY_KIND.get(handoff.kind, handoff.kind)
    return "item_undo" if not is_closed and is_closed_at(state, handoff.step) else kind


def _moves(state: State) -> bool:
    """Something goes on, or waits for its time, that no question is about."""
    return bool(
        state.held
        or any(call.is_open or (call.due is not None and not call.is_applied) for call in state.calls.values())
        or any(step.due is not None or step.event for step in state.steps.values())
        or any(gate.status == "open" for gate in state.gates.values())
    )


def sentence(state: State, action: str) -> tuple[Answer, str]:
    """What the table says of an action on this run, and in which words."""
    situation, standing = SITUATIONS[situation_of(state)], standing_of(state)
    answer = situation.answer(action)
    words = {
        "run": state.run, "step": standing.at_step, "status": _(standing.status),
        "waits": retold(standing.waiting_for), "item": failed_item(state), "continues": state.continues,
    }  # fmt: skip
    words |= {"is_so": _(situation.is_so, **words), "way_out": _(situation.way_out, **words)}
    if answer == "already":
        return answer, _("run {run} {so}", run=state.run, so=_(situation.already[action], **words))
    if answer == "done":
        return answer, _("run {run} {is_so}; {way_out}", **words)
    return answer, _("run {run} {is_so}, so {why}; {way_out}", why=_(ACTIONS[action][1]), **words)


HOLDS: Mapping[str, Mapping[str, Answer]] = {
    "free": {"hold": "done", "release": "already"},
    "held by a person": {"hold": "already", "release": "done"},
    "kept by a run": {"hold": "done", "release": "refused"},
}
"""The same for a record (and, but for the last row, a connection or a flow)."""


def as_markdown() -> str:
    """The table as the README shows it: ● done, ○ perhaps, = so already, nothing where it is refused."""
    heads = [name.replace("_", " ") for name in ACTIONS]
    signs = {"done": "●", "perhaps": "○", "already": "=", "refused": ""}
    lines = [f"| a run that is … | {' | '.join(heads)} |", f"|---|{':-:|' * len(heads)}"]
    for situation in SITUATIONS.values():
        cells = " | ".join(signs[situation.answer(action)] for action in ACTIONS)
        lines.append(f"| {situation.shown} | {cells} |")
    meanings = [f"- **{head}**: {what}." for head, (what, _why) in zip(heads, ACTIONS.values(), strict=True)]
    lines += ["", "| a record that is … | hold | release |", "|---|:-:|:-:|"]
    lines += [f"| {shown} | {' | '.join(signs[answer] for answer in row.values())} |" for shown, row in HOLDS.items()]
    return "\n".join([*lines, "", *meanings])
