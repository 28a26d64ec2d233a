"""Which edits of a flow a run may be moved to: a table of edits and states, with what is said of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import Effect, State, StepState
from runner.core.state import replace as replace_state
from runner.engine.simulated import Simulation
from runner.language.bundle import Bundle, patterns
from runner.language.load import load_flow
from runner.language.versions import changes
from runner.people.moving import gained_inputs, reasons_against, what_is_kept
from tests.core.stage import LOST, REFUSED, Act, Crowd, Script, Scripted
from tests.laws.flows import ACTIONS
from tests.laws.play import start_of

UNDO = '{ cancel: svc.undo, with: { id: "${{ output.id }}" } }'
BUSY_READ = "  - { id: r, read: svc.get }\n"


def do(id: str, action: str = "svc.keyed", with_: str = "{ name: x }", undo: str = UNDO, more: str = "") -> str:
    return f"  - id: {id}\n    do: {action}\n    with: {with_}\n    compensate: {undo}\n{more}"


def ask(id: str, say: str = "Go on?") -> str:
    return f"  - id: {id}\n    hand_off: person:owner\n    say: {say}\n"


A, B, C, STOP = do("a"), do("b"), do("c"), ask("stop")
INPUTS = "inputs: { email: email, amount: number }\n"
TOP = f"owner: person:owner\nmode: live\n{INPUTS}"
REVIEW = f"{TOP}on_failure: review\n"


def bundle(steps: str, top: str = TOP, digest: str = "old") -> Bundle:
    """A version of the flow `it`."""
    text = f"flow: it\ntitle: It\n{top}steps:\n{steps}"
    flow, _, problems = load_flow(text, "it.yaml")
    assert flow is not None
    assert not problems, problems
    steps_by_id = {} if "call:" in steps else patterns(flow, {})
    return Bundle(digest=digest, flow=flow, actions=ACTIONS, steps=steps_by_id, texts={"flow:it": text})


def state_of(
    old: Bundle, script: Script | None = None, acts: Sequence[Act] = (), until: Callable[[e.Event], bool] | None = None
) -> State:
    """The run where it comes to rest, or right after the first fact that `until` wants."""
    simulation = Simulation(old, Scripted(old, script or {}), start_of(old), people=Crowd(acts))
    events = simulation.run().events
    if until is not None:
        events = events[: next(n for n, event in enumerate(events, 1) if until(event))]
    return fold_all(events)


def calling(step: str, purpose: str = "do") -> Callable[[e.Event], bool]:
    return lambda event: isinstance(event, e.CallIntended) and (event.step, event.purpose) == (step, purpose)


def retrying(step: str, purpose: str = "do") -> Callable[[e.Event], bool]:
    return lambda event: isinstance(event, e.TimerSet) and (event.step, event.purpose) == (step, purpose)


BUSY = replace(REFUSED, reason="unavailable")
CHOOSE = """  - id: size
    choose:
      - when: ${{ inputs.amount > 10 }}
        steps:
          - { id: big, wait: 1 s }
          - { id: look, hand_off: person:owner }
      - steps:
          - { id: small, wait: 1 s }
"""
PARALLEL = """  - id: both
    parallel:
      stock:
        - { id: s1, wait: 1 s }
        - { id: s2, hand_off: person:owner }
      score:
        - { id: t1, wait: 1 s }
"""
T2 = "        - { id: t2, wait: 1 s }\n"
USES_A = do("c", with_='{ name: "${{ steps.a.id }}" }')


@dataclass(frozen=True, kw_only=True)
class Case:
    """An edit (from the old steps to the new ones) at a state of a run, and how each reason begins."""

    old: str
    new: str
    reasons: tuple[str, ...] = ()
    top: str = TOP
    new_top: str = ""
    script: Script | None = None
    acts: Sequence[Act] = ()
    until: Callable[[e.Event], bool] | None = None


CASES: dict[str, Case] = {
    "a step to come is added": Case(old=A + STOP + B, new=A + STOP + B + C),
    "a step to come is removed": Case(old=A + STOP + B, new=A + STOP),
    "a step to come is changed": Case(old=A + STOP + B, new=A + STOP + do("b", "svc.once", "{ name: y }")),
    "steps to come change places": Case(old=A + STOP + B + C, new=A + STOP + C + B),
    "nothing but the words of what is done": Case(old=A + STOP, new=do("a", with_="{ name: z }") + STOP),
    "a step with an effect is gone": Case(old=A + STOP, new=STOP, reasons=("Step a has an effect that stands, and it is gone",)),
    "a step that read is gone": Case(old=BUSY_READ + STOP, new=STOP, reasons=("Step r is done, and it is gone",)),
    "a step that was skipped is gone": Case(old='  - { id: n, wait: 1 s, when: "${{ inputs.amount > 99 }}" }\n' + STOP, new=STOP),
    "the open question is gone": Case(old=A + STOP, new=A, reasons=("Step stop has begun, and it is gone",)),
    "a new step comes before a done one": Case(old=A + STOP, new=C + A + STOP, reasons=("Step c stands before step stop",)),
    "a new step comes before the open one": Case(old=A + STOP, new=A + C + STOP, reasons=("Step c stands before step stop",)),
    "a step to come is put before": Case(old=A + STOP + B, new=A + B + STOP, reasons=("Step b stands before step stop",)),
    "done steps are turned round": Case(old=A + B + STOP, new=B + A + STOP, reasons=("Step a was run before step b",)),
    "another verb": Case(old="  - { id: r, read: svc.get }\n" + STOP, new=do("r") + STOP, reasons=("Step r is done as read, and it is do now",)),
    "another action of what stands": Case(old=A + STOP, new=do("a", "svc.once") + STOP, reasons=("Step a has an effect that stands, and it was do svc.keyed and is do svc.once now",)),
    "a step that was refused may do something else": Case(
        old=A + B, new=A + do("b", "svc.once"), top=REVIEW, script={("b", "do"): [REFUSED]}
    ),
    "no compensation any more": Case(
        old=A + STOP, new=do("a", undo="{ none: It is fine. }") + STOP,
        reasons=("Step a has an effect that stands, and the new version leaves it as it is",),
    ),
    "another compensation": Case(old=A + STOP, new=do("a", undo='{ mark: svc.keyed, with: { name: "${{ output.id }}" } }') + STOP),
    "a compensation by a person": Case(old=A + STOP, new=do("a", undo="{ hand_off: person:owner }") + STOP),
    "a compensation that needs what was not answered": Case(
        old=A + STOP, new=do("a", undo='{ mark: svc.keyed, with: { name: "${{ output.label }}" } }') + STOP,
        reasons=("The compensation of step a uses output.label",),
    ),
    "a bare cancel of what has no undo": Case(
        old=A + STOP, new=do("a", undo="cancel") + STOP,
        reasons=("Step a has an effect that stands, and svc.keyed no longer names its own undo",),
    ),
    "a step to come needs what was not answered": Case(
        old=A + STOP + B, new=A + STOP + do("b", with_='{ name: "${{ steps.a.label }}" }'),
        reasons=("The new version uses steps.a.label",),
    ),
    "a step to come uses what was answered": Case(old=A + STOP + B, new=A + STOP + USES_A),
    "a call that is out sends something else": Case(
        old=A, new=do("a", with_="{ name: y }"), until=calling("a"),
        reasons=("Step a has been called and has no answer yet, and its with.name changed",),
    ),
    "a call that is out is compensated otherwise": Case(
        old=A, new=do("a", undo="{ hand_off: person:owner }"), until=calling("a")
    ),
    "a call in doubt sends something else": Case(
        old=do("a", "svc.once"), new=do("a", "svc.once", "{ name: y }"), script={("a", "do"): [LOST]},
        reasons=("Step a has a call of which nobody knows whether it happened, and its with.name changed",),
    ),
    "a call in doubt is gone": Case(
        old=do("a", "svc.once") + B, new=B, script={("a", "do"): [LOST]},
        reasons=("Step a has an effect that may stand, and it is gone",),
    ),
    "a retry keeps what it sends": Case(
        old=A, new=do("a", with_="{ name: y }"), script={("a", "do"): [BUSY]}, until=retrying("a")
    ),
    "a retry of another action": Case(
        old=A, new=do("a", "svc.plain"), script={("a", "do"): [BUSY]}, until=retrying("a"),
        reasons=("Step a is being tried again, and its action changed", "Step a has begun with svc.keyed, and it is svc.plain"),
    ),
    "a wait that runs": Case(
        old="  - { id: w, wait: 3 days }\n" + B, new="  - { id: w, wait: 5 days }\n" + B + C,
        until=lambda event: isinstance(event, e.TimerSet),
    ),
    "another question is asked": Case(
        old=A + STOP, new=A + ask("stop", "Really?"), reasons=("Step stop has begun with its say, which changed",)
    ),
    "who decides after a failure": Case(
        old=A + B, new=A + B, top=REVIEW, new_top=TOP, script={("b", "do"): [REFUSED]},
        reasons=("A person is asked what follows the failure",),
    ),
    "a step of the branch taken is added": Case(
        old=CHOOSE, new=CHOOSE.replace("      - steps:", "          - { id: more, wait: 1 s }\n      - steps:")
    ),
    "a step of the other branch is added": Case(old=CHOOSE, new=CHOOSE + "          - { id: more, wait: 1 s }\n"),
    "and its outcome is used": Case(
        old=CHOOSE, new=CHOOSE + "          - { id: more, wait: 1 s }\n", new_top=TOP + 'outputs: { m: "${{ outcome.more }}" }\n',
        reasons=("Step more stands in branch 2 of size, which was not taken",),
    ),
    "the branches are turned round": Case(
        old=CHOOSE, new=CHOOSE.replace("big", "x").replace("small", "big").replace("x", "small").replace("- { id: look, hand_off: person:owner }\n", "- { id: small2, wait: 1 s }\n"),
        reasons=("Step big is done, and it stands at the beginning of branch 2 of size now", "Step look has begun, and it is gone", "Step size has taken branch 1"),
    ),
    "a step joins a branch that goes on": Case(old=PARALLEL, new=PARALLEL + T2),
    "a branch is added beside": Case(old=PARALLEL, new=PARALLEL + "      third:\n" + T2),
    "a done step leaves its branch": Case(
        old=PARALLEL, new=PARALLEL.replace("        - { id: s1, wait: 1 s }\n", "") + "  - { id: s1, wait: 1 s }\n",
        reasons=("Step s1 is done, and it stands after both now, not at the beginning of branch stock of both",),
    ),
    "a step inside a parallel that is done": Case(
        old=PARALLEL.replace("hand_off: person:owner", "wait: 1 s") + STOP, new=PARALLEL.replace("hand_off: person:owner", "wait: 1 s") + T2 + STOP,
        reasons=("Step t2 stands inside both, which is done",),
    ),
    "a needed input is added": Case(
        old=STOP, new=STOP, new_top=TOP.replace("email: email", "email: email, shoe: text"), reasons=("Input shoe does not fit",)
    ),
    "an input with a default is added": Case(
        old=STOP, new=STOP, new_top=TOP.replace("email: email", 'email: email, shoe: { text: { max: 9 }, default: "42" }')
    ),
    "an input is of another type": Case(
        old=STOP, new=STOP, new_top=TOP.replace("amount: number", "amount: email"), reasons=("Input amount does not fit",)
    ),
    "an input is gone": Case(old=STOP, new=STOP, new_top=TOP.replace(", amount: number", "")),
    "the new version is a draft": Case(
        old=STOP, new=STOP, new_top=TOP.replace("live", "draft"), reasons=("The new version is a draft",)
    ),
    "it has ended": Case(old=A, new=A + B, reasons=("It has ended (succeeded).",)),
    "compensating: steps to come do not matter": Case(
        old=A + B + C, new=A, script={("b", "do"): [REFUSED]}, until=calling("a", "undo")
    ),
    "compensating: the effect is gone": Case(
        old=A + B, new=B, script={("b", "do"): [REFUSED]}, until=lambda event: isinstance(event, e.CompensationBegun),
        reasons=("Step a has an effect that stands, and it is gone",),
    ),
    "compensating: by another action": Case(
        old=A + B, new=do("a", undo="{ cancel: svc.plain }") + B, script={("b", "do"): [REFUSED]}, until=calling("a", "undo"),
        reasons=("Step a is being made good by svc.undo, and is cancel svc.plain now",),
    ),
    "compensating: what gave up may be made good otherwise": Case(
        old=A + B, new=do("a", undo="{ cancel: svc.plain }") + B, script={("b", "do"): [REFUSED], ("a", "undo"): [REFUSED]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    case = CASES[name]
    old = bundle(case.old, case.top)
    new = bundle(case.new, case.new_top or case.top, "new")
    state = state_of(old, case.script, case.acts, case.until)
    reasons = reasons_against(old, new, state)
    assert len(reasons) >= len(case.reasons), reasons
    for reason in reasons:
        assert any(reason.startswith(begin) for begin in case.reasons), reasons
    for begin in case.reasons:
        assert any(reason.startswith(begin) for reason in reasons), reasons
    assert changes(old, new) or old.flow == new.flow


def test_an_open_approval_is_for_what_it_shows() -> None:
    old = bundle(STOP + B)
    asks = e.ApprovalRequested(at=1, step="stop", approval="stop", covers=("b",), hash="h")
    state = state_of(old)
    assert reasons_against(old, bundle(STOP + do("b", undo="{ hand_off: person:owner }")), state, [asks]) == ()
    for steps, what in ((STOP, "it"), (STOP + do("b", with_="{ name: y }"), "with.name")):
        [reason] = reasons_against(old, bundle(steps, digest="new"), state, [asks])
        assert reason == f"The approval of step stop is asked for, and {what} of step b changed."


def test_another_flow_is_no_version() -> None:
    old = bundle(STOP)
    new = replace(old, flow=replace(old.flow, id="other"), digest="d" * 64)
    assert reasons_against(old, new, state_of(old)) == (
        "Version dddddddd is one of flow other, and this is a run of it.",
    )


def test_what_the_run_lacks_comes_by_default() -> None:
    old = bundle(STOP)
    new = bundle(
        STOP, TOP.replace("email: email", 'email: email, shoe: { text: { max: 9 }, default: "42" }, hat: text or empty')
    )
    found = gained_inputs(new, state_of(old))
    assert found == ({"shoe": "42", "hat": None}, {})


# --- inside lists and called flows, at states made by hand --------------------------------------------------------------

SEND = "      - id: send\n        do: svc.keyed\n        with: { name: x }\n        compensate: {undo}\n"
MARK = "      - id: mark\n        do: svc.keyed\n        with: { name: x }\n        compensate: { none: It only counts. }\n"
EACH = "  - id: rows\n    each: ${{ inputs.email }}\n    named: ${{ item }}\n    at_once: 2\n    steps:\n"
SENDS = SEND.replace("{undo}", UNDO)
CALL = "  - { id: sub, call: inner }\n"


def calling_bundle(steps: str, inner: str, digest: str) -> Bundle:
    """A version that calls the flow `inner`."""
    outer = bundle(steps, digest=digest)
    text = f"flow: inner\ntitle: Inner\nowner: person:owner\nsteps:\n{inner}"
    flow, _, problems = load_flow(text, "inner.yaml")
    assert flow is not None
    assert not problems, problems
    called = {"inner": flow}
    return replace(outer, called=called, steps=patterns(outer.flow, called))


def made(old: Bundle, effects: Sequence[str] = (), **steps: str) -> State:
    """A state of these steps (`__` is a slash) and effects."""
    known = {path.replace("__", "/"): StepState(status=status) for path, status in steps.items()}  # type: ignore[arg-type]
    done = {n: Effect(path=path, part=0, action="svc.keyed", external_id="") for n, path in enumerate(effects, 1)}
    return replace_state(fold_all([start_of(old)]), steps=known, effects=done)


LISTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "another width": (SENDS + MARK, EACH.replace("at_once: 2", "at_once: 9") + SENDS + MARK, ()),
    "another list": (SENDS, EACH.replace("inputs.email", "inputs.amount") + SENDS, ("Step rows has begun with its each",)),
    "a step for some items": (SENDS, EACH + SENDS + MARK, ("Step rows/mark stands inside rows, which has begun",)),
    "its steps turned round": (SENDS + MARK, EACH + MARK + SENDS, ("Step rows/send was run before step rows/mark",)),
    "what was sent is gone": (SENDS + MARK, EACH + MARK, ("Step rows/1/send has an effect that stands, and it is gone", "Step rows/2/send is done, and it is gone")),
    "what was sent is left": (SENDS, EACH + SEND.replace("{undo}", "{ none: It is fine. }"), ("Step rows/1/send has an effect that stands, and the new version leaves it",)),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_has_begun(name: str) -> None:
    """Item 1 is done and forgotten but for its effect, item 2 is under way."""
    inside, new, begins = LISTS[name]
    old = bundle(EACH + inside)
    state = made(old, ["rows/1/send"], rows="open", rows__2="open", rows__2__send="done")
    reasons = reasons_against(old, bundle(new, digest="new"), state)
    assert [reason[: len(begin)] for reason, begin in zip(reasons, begins, strict=True)] == list(begins)


NOTE = '      - { id: note, do: svc.note, compensate: { cancel: svc.undo, with: { id: "${{ output.id }}" } } }\n'
LOOK = "      - { id: look, read: svc.look }\n"
AGENT = "  - id: handle\n    agent: svc.agent\n    with: { goal: Help. }\n    limits: { calls: 3, within: 1 hour }\n    tools:\n"
AGENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "only moved in its file": ("open", "  - { id: before, wait: 1 s }\n" + AGENT + NOTE + LOOK, ("Step before stands before step handle, which has begun",)),
    "a tool more": ("open", AGENT + NOTE + LOOK + LOOK.replace("look,", "see,"), ("Step handle has begun with its tools, which changed",)),
    "tools turned round": ("done", AGENT + LOOK + NOTE, ()),
    "another limit": ("open", AGENT.replace("calls: 3", "calls: 9") + NOTE + LOOK, ("Step handle has begun with its limits",)),
    "another goal": ("open", AGENT.replace("Help.", "Stop.") + NOTE + LOOK, ("Step handle has begun with its with.goal",)),
    "what it did is gone": ("done", AGENT + LOOK, ("Step handle/2/note has an effect that stands, and it is gone",)),
}  # fmt: skip


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_has_begun(name: str) -> None:
    status, new, begins = AGENTS[name]
    old = bundle(AGENT + NOTE + LOOK)
    state = made(old, ["handle/2/note"], handle=status, handle__1__model="done", handle__2__note="done")
    state = replace_state(state, effects={1: replace(state.effects[1], action="svc.note")})
    reasons = reasons_against(old, bundle(new, digest="new"), state)
    assert [reason[: len(begin)] for reason, begin in zip(reasons, begins, strict=True)] == list(begins), reasons


CALLED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a step to come": ("open", A + B, ()),
    "a step to come of one that is done": ("done", A + B, ("Step sub/b stands inside sub, which is done",)),
    "a step before what is done": ("open", B + A, ("Step sub/b stands before step sub/a",)),
    "what stands is gone": ("open", B, ("Step sub/a has an effect that stands, and it is gone",)),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_called_flow_that_has_begun(name: str) -> None:
    status, inner, begins = CALLED[name]
    old = calling_bundle(CALL, A, "old")
    state = made(old, ["sub/a"], sub=status, sub__a="done")
    reasons = reasons_against(old, calling_bundle(CALL, inner, "new"), state)
    assert [reason[: len(begin)] for reason, begin in zip(reasons, begins, strict=True)] == list(begins)


def test_what_goes_on_as_it_began_is_said() -> None:
    old = bundle("  - { id: w, wait: 3 days }\n" + A)
    state = state_of(old, until=lambda event: isinstance(event, e.TimerSet))
    new = bundle("  - { id: w, wait: 5 days }\n" + do("a", with_="{ name: y }"))
    assert list(what_is_kept(old, new, state)) == ["Step w has begun, so the wait that it began with stays."]
    again = state_of(bundle(A), {("a", "do"): [BUSY]}, until=retrying("a"))
    said = list(what_is_kept(bundle(A), bundle(do("a", with_="{ name: y }")), again))
    assert said == ["Step a has begun, so the with.name that it began with stays."]
    assert list(what_is_kept(old, old, state)) == []
