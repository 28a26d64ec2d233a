"""A flow out of its text: every default filled in, every key read, every mistake in its shape told."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.language.flow import Approval, Branch, Compensation, Duration, Flow, Lock, OnFailure, RetryWords, Step
from runner.language.load import load_flow
from runner.language.problems import columns, render, render_all

SMALL = """flow: small
title: A small flow
owner: person:me
steps:
  - id: got
    read: crm.get
"""


def loaded(text: str) -> Flow:
    flow, source, problems = load_flow(text, "small.yaml")
    assert flow is not None
    assert source is not None
    assert not problems, render_all(problems, text)
    return flow


def step(text: str) -> Step:
    return loaded(SMALL.replace("  - id: got\n    read: crm.get\n", text)).steps[0]


def told(text: str) -> list[str]:
    return [f"{one.code} {one.line}:{one.column} {one.what} | {one.hint}" for one in load_flow(text, "small.yaml")[2]]


def test_the_defaults_are_filled_in() -> None:
    assert loaded(SMALL) == Flow(
        id="small",
        title="A small flow",
        owner="person:me",
        file="small.yaml",
        steps=(Step(id="got", verb="read", line=5, action="crm.get"),),
    )


def test_every_key_of_the_top_is_read() -> None:
    text = SMALL + (
        "mode: live\nrun_key: ${{ inputs.no }}\nrecord: order/${{ inputs.no }}\ntrigger:\n  - form: orders\n  - manual: true\n"
        "inputs: { no: text }\non_failure: { do: review, tell: team:ops, within: 4 hours, escalate_to: person:cto, if_one_fails: stop }\n"
        "outputs: { no: '${{ inputs.no }}' }\nkeep: 30 days\n"
    )
    flow = loaded(text)
    assert (flow.mode, flow.run_key, flow.record) == ("live", "${{ inputs.no }}", "order/${{ inputs.no }}")
    assert flow.trigger == ({"form": "orders"}, {"manual": True})
    assert flow.on_failure == OnFailure(
        do="review",
        tell="team:ops",
        within=Duration(amount=4, unit="hour"),
        escalate_to="person:cto",
        if_one_fails="stop",
    )
    assert flow.keep == Duration(amount=30, unit="day")
    assert flow.outputs == {"no": "${{ inputs.no }}"}


def test_short_and_long_forms_come_to_the_same() -> None:
    assert loaded(SMALL + "trigger: manual\n").trigger == ({"manual": True},)
    assert loaded(SMALL + "trigger: { form: x }\n").trigger == ({"form": "x"},)
    assert loaded(SMALL + "on_failure: review\n").on_failure == OnFailure(do="review")
    assert loaded(SMALL + "record: { id: order/1 }\n").record == "order/1"


def test_a_do_step_is_read_whole() -> None:
    found = step(
        """  - id: made
    do: crm.make
    when: ${{ inputs.x }}
    with: { a: 1 }
    find: { email: x }
    key: ${{ inputs.no }}
    retry: { tries: 4, pause: 10 s, growth: linear, longest: 5 min, never_on: [rate_limited] }
    timeout: 2 min
    owner: team:ops
    rule: Never twice.
    unattended: Nobody minds.
    accept_order: Nobody minds.
    if_refused: continue
    compensate: cancel
"""
    )
    assert found == Step(
        id="made",
        verb="do",
        line=5,
        action="crm.make",
        when="${{ inputs.x }}",
        with_={"a": 1},
        find={"email": "x"},
        key="${{ inputs.no }}",
        retry=RetryWords(tries=4, pause=10_000, growth="linear", longest=300_000, never_on=frozenset({"rate_limited"})),
        timeout=120_000,
        owner="team:ops",
        rule="Never twice.",
        unattended="Nobody minds.",
        accept_order="Nobody minds.",
        if_refused="continue",
        compensate=Compensation(word="cancel"),
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("cancel", Compensation(word="cancel")),
        ("{ cancel: crm.drop, with: { id: 1 } }", Compensation(word="cancel", action="crm.drop", with_={"id": 1})),
        ("{ mark: crm.flag }", Compensation(word="mark", action="crm.flag")),
        ("{ correct: mail.send, timeout: 1 min }", Compensation(word="correct", action="mail.send", timeout=60_000)),
        ("{ quarantine: customer }", Compensation(word="quarantine", target="customer")),
        ("{ quarantine: crm.aside }", Compensation(word="quarantine", action="crm.aside")),
        (
            "{ hand_off: team:x, say: Look., show: crm.get }",
            Compensation(word="hand_off", target="team:x", say="Look.", show={"read": "crm.get"}),
        ),
        ("{ none: It is a cache. }", Compensation(word="none", reason="It is a cache.")),
        (
            "{ cancel: crm.drop, unattended: Always right. }",
            Compensation(word="cancel", action="crm.drop", unattended="Always right."),
        ),
    ],
)
def test_the_words_of_compensation(written: str, expected: Compensation) -> None:
    assert step(f"  - id: made\n    do: crm.make\n    compensate: {written}\n").compensate == expected


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30 s", Duration(amount=30, unit="s")),
        ("10 min", Duration(amount=10, unit="min")),
        ("1 hour", Duration(amount=1, unit="hour")),
        ("4 hours", Duration(amount=4, unit="hour")),
        ("1 day", Duration(amount=1, unit="day")),
        ("2 weeks", Duration(amount=2, unit="week")),
        ("2 business days", Duration(amount=2, unit="business_day")),
        ("4 business hours", Duration(amount=4, unit="business_hour")),
    ],
)
def test_durations(text: str, duration: Duration) -> None:
    assert step(f"  - id: pause\n    wait: {text}\n").wait == duration


def test_wait_until_and_hand_off() -> None:
    assert step("  - id: pause\n    wait: { until: '${{ inputs.day }}' }\n").wait == "${{ inputs.day }}"
    found = step("  - id: look\n    hand_off: team:x\n    say: Look.\n    show: [inputs.a]\n")
    assert (found.hand_off_to, found.say, found.show) == ("team:x", "Look.", {"inputs.a": "${{ inputs.a }}"})


VERBS = """  - id: ask
    approve: Shall we?
    covers: [made]
    by: [team:x, person:y]
    within: 2 business days
    proof: code
  - id: heard
    wait_for: paid
    match: { id: 1 }
    within: 3 days
    if_late: hand_off
  - id: pick
    choose:
      - when: ${{ inputs.x }}
        steps:
          - id: inner
            read: crm.get
      - steps: [{ id: other, read: crm.get }]
  - id: all
    each: ${{ inputs.rows }}
    named: ${{ item.no }}
    at_once: 5
    if_one_fails: continue
    steps:
      - { id: one, read: crm.get }
  - id: both
    parallel: { left: [{ id: l, read: crm.get }], right: [{ id: r, read: crm.get }] }
  - { id: sub, call: other, with: { a: 1 } }
  - { id: out, emit: done, with: { a: 1 } }
"""


def test_an_approval_is_read_whole() -> None:
    flow, _, problems = load_flow(SMALL + VERBS + "  - id: bad\n    read: crm.get\n    wiht: {}\n", "small.yaml")
    assert [one.what for one in problems] == ['"wiht" is not a key of a read step']
    assert flow is not None
    assert [
        found.id for found in flow.every_step()
    ] == "got ask heard pick inner other all one both l r sub out bad".split()
    assert flow.steps[1].approval == Approval(
        question="Shall we?", covers=("made",), by=("team:x", "person:y"), proof="code",
        within=Duration(amount=2, unit="business_day"),
    )  # fmt: skip
    more = "  - id: made\n    do: crm.make\n    compensate: { cancel: crm.drop, approve_by: team:x }\n"
    assert step(more).compensate == Compensation(word="cancel", action="crm.drop", approve_by=("team:x",))


def test_lists_calls_events_and_locks_are_read_whole() -> None:
    flow = loaded(
        SMALL
        + VERBS.partition("  - id: heard\n")[1]
        + VERBS.partition("  - id: heard\n")[2]
        + "  - id: made\n    do: crm.make\n    lock: { record: invoice, id: '${{ inputs.no }}' }\n    compensate: cancel\n"
        + "record: { id: x, one_at_a_time: true }\non_failure: { then_run: other, with: { a: 1 } }\n"
    )
    steps = {found.id: found for found in flow.every_step()}
    assert steps["heard"] == Step(
        id="heard", verb="wait_for", line=7, event="paid", match={"id": 1}, if_late="hand_off",
        within=Duration(amount=3, unit="day"),
    )  # fmt: skip
    assert steps["all"] == Step(
        id="all", verb="each", line=19, each="${{ inputs.rows }}", named="${{ item.no }}", at_once=5,
        if_one_fails="continue", branches=(Branch(steps=(steps["one"],)),),
    )  # fmt: skip
    assert steps["sub"] == Step(id="sub", verb="call", line=28, flow="other", with_={"a": 1})
    assert steps["out"] == Step(id="out", verb="emit", line=29, event="done", with_={"a": 1})
    assert steps["made"].lock == Lock(record="invoice", id="${{ inputs.no }}")
    assert (flow.record, flow.one_at_a_time) == ("x", True)
    assert flow.on_failure == OnFailure(then_run="other", then_with={"a": 1})
    plain = step("  - id: all\n    each: [a, b]\n    steps: [{ id: one, read: crm.get }]\n")
    assert (plain.each, plain.named, plain.at_once, plain.if_one_fails) == (["a", "b"], "", 1, "stop")


@pytest.mark.parametrize(
    "trigger",
    [
        "{ webhook: orders, signed_by: shop, id: '${{ body.id }}', only_if: '${{ body.x }}', fill: { a: 1 } }",
        "{ schedule: every weekday at 09:00, zone: Asia/Tokyo, missed: latest, overlap: skip }",
        "{ cron: '0 9 * * 1-5', zone: Asia/Tokyo }",
        "{ mail: orders }",
        "{ poll: crm.new, every: 10 min, seen_by: '${{ item.id }}' }",
        "{ event: paid, entity: x, order_by: y }",
        "{ form: signup, sign_in: true }",
    ],
)
def test_every_trigger_is_read(trigger: str) -> None:
    assert len(loaded(SMALL + f"trigger: {trigger}\n").trigger) == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("flow: small", "flow: sm-all", 'FL006 1:7 "sm-all" is not a name | a name has letters, digits and _, a letter first; for example "sm_all"'),
        ("flow: small", "flow: other", 'FL006 1:7 the flow is called "other" and its file "small.yaml" | give both the same name'),
        ("title: A small flow", "title: 42", 'FL002 2:8 "title" is a text, and 42 would be read as the number 42 | write it in quotes: "42"'),
        ("title: A small flow", "title:", 'FL006 2:1 nothing is written after "title" | '),
        ("title: A small flow", "title: [a]", 'FL006 2:8 "title" needs a text, not a list | for example title: New signup becomes a paying customer'),
        ("title: A small flow\n", "", 'FL005 1:1 the flow has no "title" | for example title: New signup becomes a paying customer'),
        ("owner: person:me", "ownr: person:me", 'FL003 3:1 "ownr" is not a key of the flow | did you mean "owner"?'),
        ("owner: person:me", "owner: me", 'FL006 3:8 "me" names nobody | write person:… or team:… (people.yaml has the names), or person:me'),
        ("owner: person:me", "owner: person:me\nmode: lve", 'FL006 4:7 "mode" cannot be "lve" | did you mean "live"?'),
        ("owner: person:me", "owner: person:me\nmode: off", 'FL006 4:7 "mode" cannot be "off" | it is one of: draft, live'),
        ("read: crm.get", "read: crm", 'FL006 6:11 "crm" is not an action | write it as connection.action'),
        ("read: crm.get", "read: crm.get\n    timeout: 2 business days", 'FL006 7:14 "2 business days" needs a calendar | here a duration is in s, min, hours, days or weeks'),
        ("read: crm.get", "read: crm.get\n    timeout: 3", 'FL006 7:14 "timeout" needs a text, not the number 3 | for example timeout: 30 s'),
        ("read: crm.get", "read: crm.get\n    retry: { tries: 0 }", 'FL006 7:21 "tries" must be at least 1, and 0 is not | '),
        ("read: crm.get", "read: crm.get\n    do: crm.make", 'FL006 7:5 a step has one of these words, and "read" is there already | keep one: read, do'),
        ("    read: crm.get", "    when: ${{ x }}", "FL005 5:5 a step needs one of these words | read, do, approve, wait, wait_for, choose, each, parallel, call, emit, hand_off"),
        ("- id: got\n    read: crm.get", "- 7", "FL006 5:5 a step cannot be the number 7 | it is a map with one of: read, do, approve, wait, wait_for, choose, each, parallel, call, emit, hand_off"),
        ("steps:\n  - id: got\n    read: crm.get", "steps: []", 'FL006 4:8 "steps" is empty | '),
        ("id: got", "id: 7", 'FL006 5:9 "id" needs a text, not the number 7 | for example id: contact'),
        ("read: crm.get", "do: crm.make\n    compensate: { cancle: a.b }", 'FL003 7:19 "cancle" is not a word that a compensation can have | did you mean "cancel"?'),
        ("read: crm.get", "do: crm.make\n    compensate: cancle", "FL006 7:17"),
        ("read: crm.get", "do: crm.make\n    compensate: {}", "FL005 7:17 a compensation needs one of these words | cancel, mark, correct, quarantine, hand_off, none"),
        ("read: crm.get", "do: crm.make\n    compensate: { none: }", 'FL006 7:19 nothing is written after "none" | '),
        ("read: crm.get", "do: crm.make\n    compensate: { cancel: a.b, when: x }", 'FL003 7:32 "when" is not a key of a cancel compensation | its keys: approve_by, cancel, retry, timeout, unattended, with'),
    ],
)  # fmt: skip
def test_a_mistake_in_the_shape_is_told(old: str, new: str, expected: str) -> None:
    found = told(SMALL.replace(old, new))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_an_empty_file_and_a_list_are_no_flow() -> None:
    assert told("") == ["FL005 1:1 the file is empty | "]
    assert told("- a\n") == ["FL006 1:1 the file is not a map (lines of key: value) | "]


def test_all_mistakes_of_a_file_come_at_once() -> None:
    text = SMALL.replace("title", "titel").replace("read", "reed") + "mode：live\nkeep: soon\non_failure: [a]\n"
    assert [one.split()[0] for one in told(text)] == ["FL003", "FL003", "FL003", "FL006", "FL006"]


def test_the_whole_example_of_the_language_is_read() -> None:
    text = (Path(__file__).parent / "whole_flow.yaml").read_text(encoding="utf-8")
    flow, _, problems = load_flow(text, "whole_flow.yaml")
    assert flow is not None
    assert problems == ()
    assert [found.verb for found in flow.steps] == ["read", "do", "do", "approve", "do", "do"]


# --- how a problem is shown ----------------------------------------------------------------------------------------


def test_carets_stand_under_wide_letters() -> None:
    text = "title: 佐藤さま ${{ inputs.x }}\n"
    _, _, problems = load_flow(text, "small.yaml")
    problem = problems[0]
    shown = render(
        type(problem)(code="FL101", level="error", file="f.yaml", line=1, column=13, length=6, what="x"), text
    )
    line, carets = shown.split("\n")[1:]
    assert columns(line[: line.index("${{")]) == columns(carets[: carets.index("^")])
    assert carets.strip() == "^" * 6


def test_a_problem_of_the_whole_file_shows_no_line() -> None:
    _, _, problems = load_flow("a: " + "x" * 1_000_000, "big.yaml")
    assert render(problems[0], "").split("\n") == [
        "big.yaml error FL004  the file has 1,000,003 bytes; more than 1,000,000 are not read"
    ]
