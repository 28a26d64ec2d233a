"""Called flows: a scope of this run that sees its own inputs, and is made good as one."""

from __future__ import annotations

from runner.core import events as e
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
