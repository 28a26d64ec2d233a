"""Logs as files: `python -m tests.laws.record FLOW SEED` plays a run of the corpus and keeps its log for ever.

A file holds all that the log needs to be read: the flow's text, what its actions are, the inputs' facts, and what the
log meant when it was recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runner.contract import Action, Draft, Json, Retry, Undo
from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import State
from runner.core.status import standing_of
from runner.language.bundle import Bundle, patterns
from runner.language.flow import Flow
from runner.language.load import load_flow
from tests.laws.flows import CORPUS, corpus
from tests.laws.play import play

LOGS = Path(__file__).parent.parent / "logs"


def meaning_of(state: State) -> dict[str, Json]:
    """What a log says, in words that stay."""
    standing = standing_of(state)
    return {
        "status": standing.status,
        "phase": standing.phase,
        "steps": {path: step.outcome for path, step in state.steps.items()},
        "effects": {str(no): [each.path, each.part, each.disposition] for no, each in state.effects.items()},
        "questions": {name: [each.step, each.kind, each.choice] for name, each in state.handoffs.items()},
        "stands": list(state.stands),
        "summary": state.summary,
    }


def as_lines(events: Iterable[e.Event]) -> list[dict[str, Json]]:
    """The facts as JSON."""
    return [
        {"type": type(event).__name__, "at": event.at, "step": event.step, "external_id": event.external_id}
        | {"data": e.payload(event)}
        for event in events
    ]


def as_events(lines: Iterable[Mapping[str, Any]]) -> list[e.Event]:
    """The facts as they were."""
    return [
        e.restore(line["type"], at=line["at"], step=line["step"], external_id=line["external_id"], data=line["data"])
        for line in lines
    ]


def bundle_of(kept: Mapping[str, Any]) -> Bundle:
    """The bundle that a kept log was decided by."""
    flow = _flow_of(kept["name"], kept["flow"])
    actions = {name: _action(written) for name, written in kept["actions"].items()}
    called = {name: _flow_of(name, text) for name, text in kept.get("called", {}).items()}
    return Bundle(
        digest="kept", flow=flow, actions=actions, steps=patterns(flow, called), called=called,
        follow=called.get(flow.on_failure.then_run),
    )  # fmt: skip


def _flow_of(name: str, text: str) -> Flow:
    flow, _, problems = load_flow(text, f"{name}.yaml")
    assert flow is not None
    assert not problems
    return flow


def _action(written: Mapping[str, Any]) -> Action:
    made = dict(written)
    if made["undo"] is not None:
        made["undo"] = Undo(**made["undo"])
    if made.get("draft") is not None:
        made["draft"] = Draft(**made["draft"])
    if made["retry"] is not None:
        made["retry"] = Retry(**made["retry"] | {"never_on": frozenset(made["retry"]["never_on"])})
    return Action(**made | {"find_by": tuple(made["find_by"])})


def record(name: str, seed: int) -> Path:
    """Plays the run and writes its file."""
    bundle = corpus()[name]
    events = play(bundle, seed).story.raw
    text = (CORPUS / f"{name}.yaml").read_text(encoding="utf-8")
    called = {name: (CORPUS / "called" / f"{name}.yaml").read_text(encoding="utf-8") for name in bundle.called}
    text_of_all = "".join((text, *called.values()))
    used = {
        action: asdict(kind)
        for action, kind in bundle.actions.items()
        if action in text_of_all or action == "quarantine.add"
    }
    kept = {
        "name": name,
        "seed": seed,
        "flow": text,
        "called": called,
        "actions": used,
        "events": as_lines(events),
        "meaning": meaning_of(fold_all(events)),
    }
    path = LOGS / f"{name}_{seed}.json"
    path.write_text(json.dumps(kept, indent=1, default=sorted, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    print(record(sys.argv[1], int(sys.argv[2])))
