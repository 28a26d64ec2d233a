"""The corpus: small flows out of `corpus/*.yaml`, and the one service whose actions they all use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from runner.contract import Action, Draft, Json, Retry, Undo
from runner.language.bundle import Bundle, patterns
from runner.language.flow import Flow
from runner.language.load import load_flow

CORPUS = Path(__file__).parent / "corpus"
HOUR = 3_600_000
ID = {"id": "text"}

ACTIONS: dict[str, Action] = {
    "svc.get": Action(name="get", effect="read", output={"id": "text", "label": "text"}),
    "svc.keyed": Action(name="keyed", effect="keyed", key_life=24 * HOUR, output=ID),
    "svc.looked": Action(name="looked", effect="lookup", has_lookup=True, lookup_delay=2_000, output=ID),
    "svc.once": Action(name="once", effect="once", output=ID),
    "svc.undo": Action(name="undo", effect="keyed", key_life=24 * HOUR, output=ID),
    "svc.undoable": Action(
        name="undoable", effect="keyed", key_life=24 * HOUR, output=ID,
        undo=Undo(action="undo", with_={"id": "${{ output.id }}", "name": "${{ input.name }}"}),
    ),
    "svc.brief": Action(name="brief", effect="keyed", key_life=60_000, output=ID),
    "svc.brief_asked": Action(
        name="brief_asked", effect="keyed", key_life=60_000, has_lookup=True, lookup_delay=500, output=ID
    ),
    "svc.findable": Action(name="findable", effect="once", find_by=("email",), output=ID),
    "svc.letter": Action(
        name="letter", effect="once", output=ID, fan_out="to", retry=Retry(tries=6, pause=300_000, longest=14_400_000)
    ),
    "svc.letters": Action(name="letters", effect="keyed", key_life=HOUR, output={"rows": "list", **ID}, fan_out="to"),
    "svc.picky": Action(name="picky", effect="once", output=ID, fan_out="to"),
    "svc.plain": Action(name="plain", effect="keyed", key_life=HOUR),
    "svc.mail": Action(
        name="mail", effect="once", output=ID, renders_template=True,
        input={"to": "text or empty", "text": "text or empty", "template": "text or empty", "values": "record or empty"},
    ),
    "svc.sampled": Action(name="sampled", effect="once", output=ID, sample={"id": "sample"}),
    "svc.unbuildable": Action(name="unbuildable", effect="keyed", key_life=HOUR, output=ID),
    "svc.refuses": Action(name="refuses", effect="keyed", key_life=HOUR, output=ID),
    "svc.agent": Action(
        name="agent", effect="read", is_agent=True, from_ai=True, input={"goal": "text", "context": "any or empty"},
        output={"text": "text", "calls": "list"}, sample={"text": "done", "calls": []},
    ),
    "svc.look": Action(
        name="look", title="Looks", effect="read", input={"email": "text"}, output={"id": "text", "label": "text"}
    ),
    "svc.note": Action(
        name="note", effect="keyed", key_life=24 * HOUR, output=ID,
        input={"id": "text", "text": "text or empty", "stars": {"integer": {"max": 5}, "empty": True}, "to": "text or empty"},
    ),
    "svc.asked": Action(name="asked", effect="lookup", has_lookup=True, lookup_delay=500, output=ID, input={"id": "text"}),
    "svc.once_told": Action(name="once_told", effect="once", output=ID, input={"id": "text"}),
    "svc.pay": Action(
        name="pay", effect="once", cannot_undo="It is gone.", output=ID, input={"amount": "integer", "scan": "file or empty", "pages": {"list": "file", "empty": True}}
    ),
    "svc.noted": Action(name="noted", effect="once", output=ID, draft=Draft(action="scribble", with_={"kind": "draft"})),
    "svc.posted": Action(
        name="posted", effect="keyed", key_life=HOUR, find_by=("email",), output=ID, sample={"id": "sample"},
        draft=Draft(action="leave", with_={"name": "DRAFT ${{ input.name }}"}),
    ),
    "svc.mailed": Action(
        name="mailed", effect="once", output={"to": "text", "rows": "list"}, input={"to": "any"}, fan_out="to",
        draft=Draft(action="write"),
    ),
    "svc.never_noted": Action(name="never_noted", effect="once", output=ID, draft=Draft(action="refuses")),
    "svc.scribble": Action(
        name="scribble", effect="lookup", has_lookup=True, lookup_delay=1_000, input={"name": "text", "kind": "text"},
        output=ID, undo=Undo(action="wipe", with_={"id": "${{ output.id }}", "kind": "${{ input.kind }}"}),
    ),
    "svc.leave": Action(
        name="leave", effect="once", output=ID, input={"email": "text", "name": "text"},
        undo=Undo(action="wipe", with_={"id": "${{ output.id }}"}),
    ),
    "svc.write": Action(
        name="write", effect="keyed", key_life=HOUR, input={"to": "any"}, output={"rows": "list", **ID}, fan_out="to",
        undo=Undo(action="wipe", with_={"id": "${{ output.each | pick('id') }}"}),
    ),
    "svc.wipe": Action(name="wipe", effect="keyed", key_life=24 * HOUR, output=ID, fan_out="id"),
    "quarantine.add": Action(name="add", effect="keyed", key_life=10_000 * HOUR, output=ID, own=True),
}  # fmt: skip

INPUTS: dict[str, Json] = {
    "email": "one@x.test", "amount": 20, "note": None, "id": "c1", "no": 7, "nobody": [],
    "many": [11, 12, 13, 14, 15, 16, 17, 18, 19],
    "rows": [
        {"name": "ann", "big": True, "lines": [1, 2]},
        {"name": "ben", "big": False, "lines": [3]},
        {"name": "cem", "big": True, "lines": []},
        {"name": "dee", "big": False, "lines": [4, 5, 6]},
    ],
}  # fmt: skip

NEVER_SUCCEEDS = (
    "adopts", "always_refused", "bad_condition", "bad_outputs", "bad_wait", "empty_key", "fan_empty", "silent", "unbuildable",
    "undo_classes", "undo_once", "picky_undo", "halts", "chooses_missing", "branches_undone", "branches_at_once",
    "branches_halt", "rows_undone", "rows_many", "called_list", "rows_refused", "rows_aside_undone", "rows_halt", "rows_nested_undone", "rows_parallel",
    "rows_beside", "rows_branches", "rows_call_undone", "rows_find", "rows_letters", "rows_bad", "called_rows",
    "agent_undone", "called_undone", "called_bad", "event_continue", "event_empty", "then_bad", "drafts_undone",
)  # fmt: skip


@lru_cache(maxsize=1)
def corpus() -> dict[str, Bundle]:
    """Every flow of the corpus by its id, pinned."""
    called = {flow.id: flow for flow in map(_load, sorted((CORPUS / "called").glob("*.yaml")))}
    return {flow.id: _pinned(flow, called) for flow in map(_load, sorted(CORPUS.glob("*.yaml")))}


def _load(path: Path) -> Flow:
    flow, _, problems = load_flow(path.read_text(encoding="utf-8"), path.name)
    assert flow is not None, path
    assert not problems, problems
    return flow


def _pinned(flow: Flow, every: Mapping[str, Flow]) -> Bundle:
    called = dict(_called(flow, every))
    return Bundle(
        digest=f"of {flow.id}", flow=flow, actions=ACTIONS, steps=patterns(flow, called), called=called,
        follow=every.get(flow.on_failure.then_run),
    )  # fmt: skip


def _called(flow: Flow, every: Mapping[str, Flow]) -> Iterator[tuple[str, Flow]]:
    for step in flow.every_step():
        if step.verb == "call":
            yield step.flow, every[step.flow]
            yield from _called(every[step.flow], every)


def inputs_of(bundle: Bundle) -> dict[str, Json]:
    """Something for every input."""
    return {name: INPUTS[name] for name in bundle.flow.inputs if name != "no" or bundle.flow.id != "empty_key"} | (
        {"no": None} if bundle.flow.id == "empty_key" else {}
    )
