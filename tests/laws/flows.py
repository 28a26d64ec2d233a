"""The corpus: small flows out of `corpus/*.yaml`, and the one service whose actions they all use."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from runner.contract import Action, Json, Retry, Undo
from runner.language.bundle import Bundle, patterns
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
    "svc.mail": Action(name="mail", effect="once", output=ID, renders_template=True),
    "svc.sampled": Action(name="sampled", effect="once", output=ID, sample={"id": "sample"}),
    "svc.unbuildable": Action(name="unbuildable", effect="keyed", key_life=HOUR, output=ID),
    "svc.refuses": Action(name="refuses", effect="keyed", key_life=HOUR, output=ID),
    "quarantine.add": Action(name="add", effect="keyed", key_life=10_000 * HOUR, output=ID, own=True),
}  # fmt: skip

INPUTS: dict[str, Json] = {
    "email": "one@x.test", "amount": 20, "note": None, "id": "c1", "no": 7, "nobody": []
}  # fmt: skip

NEVER_SUCCEEDS = (
    "adopts", "always_refused", "bad_condition", "bad_outputs", "bad_wait", "empty_key", "fan_empty", "silent", "unbuildable",
    "undo_classes", "undo_once", "picky_undo", "halts", "chooses_missing", "branches_undone", "branches_at_once",
    "branches_halt",
)  # fmt: skip


@lru_cache(maxsize=1)
def corpus() -> dict[str, Bundle]:
    """Every flow of the corpus by its id, pinned."""
    found = {}
    for path in sorted(CORPUS.glob("*.yaml")):
        flow, _, problems = load_flow(path.read_text(encoding="utf-8"), path.name)
        assert flow is not None, path
        assert not problems, problems
        found[flow.id] = Bundle(digest=f"of {flow.id}", flow=flow, actions=ACTIONS, steps=patterns(flow, {}))
    return found


def inputs_of(bundle: Bundle) -> dict[str, Json]:
    """Something for every input."""
    return {name: INPUTS[name] for name in bundle.flow.inputs if name != "no" or bundle.flow.id != "empty_key"} | (
        {"no": None} if bundle.flow.id == "empty_key" else {}
    )
