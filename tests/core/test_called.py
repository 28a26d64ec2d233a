"""Called flows: a scope of this run that sees its own inputs, and is made good as one."""

from __future__ import annotations

import pytest

from runner.core import events as e
from runner.core import recall
from tests.core.stage import REFUSED, bundle_of, do, facts, flow_of, run, undone

LOG = flow_of(
    "log",
    do("write", with_='{ name: "${{ inputs.who }}" }') + do("mail"),
    'inputs: { who: text }\noutputs: { number: "${{ steps.write.id }}" }\n',
)
CALL = "  - { id: log, call: log, with: { who: me } }\n"


def test_a_called_flow_has_its_own_names() -> None:
    result = run(bundle_of(CALL + do("after", with_='{ name: "${{ steps.log.number }}" }'), called=[LOG]))
    assert result.state.status == "succeeded"
    intents = facts(result, e.CallIntended)
    assert [(event.step, dict(event.input)) for event in intents] == [
        ("log/write", {"name": "me"}),
        ("log/mail", {"name": "x"}),
        ("after", {"name": "log/write-0"}),
    ]


def test_what_is_left_of_it_is_made_good_before_what_is_older_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items are read back two at a time, and the branch beside it began in between."""
    monkeypatch.setattr(recall, "PAGE", 2)
    item = """      - id: write
        do: svc.keyed
        with: { name: "${{ item }}" }
        compensate: { cancel: svc.undo, with: { id: "${{ output.id }}" } }
"""
    every = flow_of("every", f"  - id: rows\n    each: [1, 2, 3]\n    steps:\n{item}")
    steps = "  - id: both\n    parallel:\n      one:\n        - { id: all, call: every }\n      two:\n"
    steps += "".join("      " + line + "\n" for line in (do("a") + do("b")).splitlines())
    result = run(bundle_of(steps + do("last"), called=[every]), {("last", "do"): [REFUSED]})
    assert next(event.start_no for event in facts(result, e.CallIntended) if event.step == "b") == 4
    assert undone(result) == ["all/rows/3/write", "all/rows/2/write", "all/rows/1/write", "b", "a"]


def test_it_is_made_good_as_one() -> None:
    result = run(bundle_of(do("first") + CALL + do("last"), called=[LOG]), {("last", "do"): [REFUSED]})
    assert result.state.status == "compensated"
    assert undone(result) == ["log/mail", "log/write", "first"]


def test_a_failure_inside_is_the_callers() -> None:
    result = run(bundle_of(do("first") + CALL, called=[LOG]), {("log/mail", "do"): [REFUSED]})
    assert result.state.status == "compensated"
    assert undone(result) == ["log/write", "first"]
    assert result.state.root.failure is not None
    assert result.state.root.failure.step == "log/mail"
