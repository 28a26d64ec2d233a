"""Flows that other flows name: how a bundle pins them, and what the check says of them, word for word."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from runner.clock import MachineClock
from runner.contract import canonical, digest
from runner.engine.starting import Wish, start_run
from runner.errors import InvalidFlow, StoreCorrupt
from runner.language.bundle import Bundle, assemble, restore
from runner.language.facts import ProjectFacts
from runner.store.lock import EngineLock
from runner.store.sql import open_store
from tests.language.ground import facts

ROOT = """flow: root
title: A flow that calls others
owner: person:me
run_key: ${{ inputs.email }}
inputs: { email: email, lines: { list: { sku: text } } }
steps:
  - { id: log, call: logs, with: { email: "${{ inputs.email }}" } }
  - id: lines
    each: ${{ inputs.lines }}
    steps:
      - { id: one, read: billing.get_plan, with: { code: "${{ item.sku }}" } }
      - { id: more, call: small, with: { code: "${{ item.sku }}" } }
  - id: size
    choose:
      - steps: [{ id: last, read: billing.get_plan, with: { code: "${{ steps.log.id }}" } }]
on_failure: { then_run: after, with: { why: "${{ failure.summary }}" } }
"""
LOGS = """flow: logs
title: A called flow
owner: person:me
run_key: ${{ inputs.email }}
inputs: { email: email, note: text or empty }
steps:
  - id: note
    do: tasks.create
    with: { title: "${{ inputs.email }}" }
    compensate: cancel
  - { id: inner, call: small, with: { code: pro } }
outputs: { id: "${{ steps.note.id }}", plan: "${{ steps.inner.label }}" }
"""
SMALL = """flow: small
title: Called twice
owner: person:me
inputs: { code: text }
steps:
  - { id: plan, read: billing.get_plan, with: { code: "${{ inputs.code }}" } }
outputs: { label: "${{ steps.plan.label }}" }
"""
AFTER = """flow: after
title: What follows a failure
owner: person:me
run_key: ${{ trigger.id }}
inputs: { why: text }
steps:
  - id: letter
    do: mail.send
    with: { to: a@acme.example, template: sorry, values: { why: "${{ inputs.why }}" } }
    unattended: It says only that it did not work.
    compensate: { none: It was said. }
"""
FLOWS = {"logs": LOGS, "small": SMALL, "after": AFTER, "root": ROOT}


def around(**flows: str) -> ProjectFacts:
    """The project with these flows beside it."""
    texts = {f"flows/{name}.yaml": text for name, text in flows.items()}
    return facts(
        flows={name: f"flows/{name}.yaml" for name in flows},
        read_file=lambda name: (texts[name], None) if name in texts else None,
        templates={"sorry.md": "subject: Sorry\n\n${{ values.why }}\n"},
    )


def bundle(**changes: str) -> Bundle:
    flows = {**FLOWS, **changes}
    return assemble(flows["root"], "flows/root.yaml", around(**flows))


# --- what a bundle pins --------------------------------------------------------------------------------------------


def test_a_bundle_pins_every_called_flow_and_what_they_use() -> None:
    found = bundle()
    assert sorted(found.texts) == [
        "actions:billing", "actions:tasks", "flow:logs", "flow:root", "flow:small", "project",
    ]  # fmt: skip
    assert (found.flow.id, sorted(found.called)) == ("root", ["logs", "small"])
    assert sorted(found.actions) == ["billing.get_plan", "tasks.close", "tasks.create"]
    assert bundle(small=SMALL.replace("Called twice", "Changed")).digest != found.digest


def test_steps_are_found_by_pattern_and_by_path() -> None:
    found = bundle()
    assert list(found.steps) == [
        "log", "log/note", "log/inner", "log/inner/plan", "lines", "lines/one", "lines/more", "lines/more/plan",
        "size", "last",
    ]  # fmt: skip
    assert found.step("last") is found.steps["last"]
    assert found.step("lines/3/more/plan") is found.steps["lines/more/plan"]
    assert found.step("log/inner/plan") is found.called["small"].steps[0]
    assert found.step("lines/3").id == "lines"
    for wrong in ("plan", "log/plan", "one"):
        with pytest.raises(KeyError):
            found.step(wrong)


def test_every_scope_has_its_flow() -> None:
    found = bundle()
    flows = {scope: found.flow_at(scope).id for scope in ("", "log", "log/inner", "lines/3", "lines/3/more")}
    assert flows == {"": "root", "log": "logs", "log/inner": "small", "lines/3": "root", "lines/3/more": "small"}
    with pytest.raises(KeyError):
        found.flow_at("nobody")


def test_the_flow_that_follows_has_a_bundle_of_its_own_pinned_at_the_same_time() -> None:
    found = bundle()
    assert "flow:after" not in found.texts
    assert list(found.beside) == [found.follows]
    follows = restore(found.follows, found.beside[found.follows])
    assert (follows.flow.id, sorted(follows.templates)) == ("after", ["sorry.md"])
    assert bundle(after=AFTER.replace("a failure", "it")).digest != found.digest
    assert bundle(root=ROOT.partition("on_failure")[0]).follows == ""


def test_a_bundle_comes_back_from_its_texts() -> None:
    found = bundle(root=ROOT.replace("calls others", "comes back"))
    texts = json.loads(json.dumps(dict(found.texts)))
    texts["project"] = canonical({**json.loads(texts["project"]), "zone": "Asia/Tokyo"}).decode()
    again = restore(digest(texts), texts)
    assert (again.flow, again.called, again.steps) == (found.flow, found.called, found.steps)
    assert (again.follows, again.zone, dict(again.beside)) == (found.follows, "Asia/Tokyo", {})


def test_a_bundle_of_the_version_before_has_one_flow_and_no_name_for_it() -> None:
    around = {"file": "flows/small.yaml", "zone": "UTC", "language": "en", "project": "x"}
    texts = {"flow:small": SMALL, "project": canonical(around).decode()}
    old = restore(digest(texts), texts)
    assert (old.flow.id, dict(old.called), old.follows, list(old.steps)) == ("small", {}, "", ["plan"])
    texts["flow:logs"] = LOGS
    with pytest.raises(StoreCorrupt, match="has no flow"):
        restore(digest(texts), texts)


def test_what_follows_is_kept_with_the_bundle(tmp_path: Path) -> None:
    lock = EngineLock(tmp_path)
    assert lock.acquire()
    store = open_store(tmp_path, clock=MachineClock(), writable=True, lock=lock)
    try:
        found = bundle(root=ROOT.replace("calls others", "is kept"))
        asyncio.run(start_run(store, found, Wish(given={"email": "a@b.co", "lines": []}), now=1))
        assert store.bundle(found.digest) == found.texts
        assert store.bundle(found.follows) == found.beside[found.follows]
    finally:
        store.close()
        lock.release()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"root": ROOT.replace("call: logs", "call: lgos")}, 'there is no flow "lgos"'),
        ({"root": ROOT.replace("then_run: after", "then_run: aftr")}, 'there is no flow "aftr"'),
        ({"small": SMALL.replace("title", "titel")}, '"titel" is not a key of the flow'),
        (
            {"small": SMALL.replace("read: billing.get_plan, with: { code: \"${{ inputs.code }}\" }", "call: logs")},
            "the flows call each other without end: logs -> small -> logs",
        ),
        (
            {"after": AFTER + "on_failure: { then_run: root }\n"},
            "the flows follow each other without end: root -> after -> root",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_not_pinned(changes: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidFlow) as refused:
        bundle(**changes)
    assert what in {problem.what for problem in refused.value.problems}
