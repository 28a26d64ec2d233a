"""Five hundred broken flows: no traceback, every problem has its place and can be shown, none takes a second.

And every word that keeps a flow safe is missed when it is taken out of the examples.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.errors import Problem
from runner.language.check import check_flow
from runner.language.facts import ProjectFacts
from runner.language.fitting import value_at
from runner.language.load import load_flow, steps_in
from runner.language.problems import render_all
from runner.language.source import Path as Place
from runner.language.source import read
from tests.flows.stage import FLOWS, copy_flows, project_of
from tests.language.ground import check
from tests.support.cpu import spent

HERE = Path(__file__).parent
AROUND = {"amends", "people", "connections"}
EXAMPLES = sorted(file for file in FLOWS.glob("*.yaml") if "." not in file.stem and file.stem not in AROUND)
WHOLE = (HERE / "whole_flow.yaml").read_text(encoding="utf-8")
CORPUS = [
    WHOLE, *(file.read_text(encoding="utf-8") for file in EXAMPLES),
    *(file.read_text(encoding="utf-8") for file in sorted((HERE / "rules").glob("*/*.good.yaml"))),
]  # fmt: skip

SIGNS = (
    "${{ |}}|{|}|[|]|: |- |\t|：|｛|，|－|\u3000|\u00a0|\n|\r|'|\"|#| #|&a |*a|!x |null|~|1.10|00123|5319E7|+49|2026-02-30"
    "|steps|inputs.|steps.|outcome.|item.|compensate|choose|each|call|approve|read|(|)|..|\\|\ud7ff|\x07|% |@|`|<<: |? |---|..."
    "|${{ inputs.x | default( }}|when: false|0 s|-1|9999999999999999999|🙂"
).split("|")


def edited(text: str, number: int, start: int, length: int, sign: str, way: int) -> str:
    """The text with one mistake in it."""
    lines = text.split("\n")
    number %= len(lines)
    line = lines[number]
    start = start % (len(line) + 1)
    if way < 5:
        lines[number] = line[:start] + sign + line[start + length :]
    elif way == 5:
        lines.insert(number, lines[start % len(lines)])
    elif way == 6:
        del lines[number : number + 1 + length]
    else:
        lines[number] = (line[2:] if way == 7 else "  " + line) if line else sign
    return "\n".join(lines)


EDITS = st.lists(
    st.tuples(
        st.integers(0, 400), st.integers(0, 120), st.integers(0, 6), st.sampled_from(SIGNS), st.integers(0, 8)
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


def hold(text: str) -> tuple[Problem, ...]:
    """Everything that must hold whatever somebody wrote."""
    with spent() as cpu:
        flow, problems = check(text)
    assert cpu.seconds < 1, f"{cpu.seconds:.2f} s"
    assert flow is not None or problems
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for one in problems:
        assert "\n" not in one.what + one.hint
        assert 1 <= one.line <= len(lines), one
        assert 1 <= one.column <= len(lines[one.line - 1]) + 1, one
        assert one.length >= 1, one
    assert render_all(problems, text).count("\n") >= len(problems) - 1
    return problems


@given(text=st.sampled_from(CORPUS), edits=EDITS)
@settings(max_examples=260, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_is_broken_is_told_with_its_place(text: str, edits: list[tuple[int, int, int, str, int]]) -> None:
    for edit in edits:
        text = edited(text, *edit)
    hold(text)


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_language_broken_at_random(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(45):
        text = WHOLE
        for _ in range(chance.randint(1, 4)):
            numbers = chance.randrange(400), chance.randrange(120), chance.randrange(7)
            text = edited(text, *numbers, chance.choice(SIGNS), chance.randrange(9))
        hold(text)


BY_HAND = [
    "", "\n", "\ufeff", "a", "- a", "[]", "{}", "null", "flow:", "flow: x\nsteps: []", "flow: x\nsteps: {}", "steps:\n- \n- \n",
    "flow: x\ntitle: y\nowner: person:me\nsteps: [" + "{ id: a, choose: [{ steps: [" * 12 + "]}]}" * 12 + "]",
    "flow: x\ntitle: y\nowner: person:me\nsteps:\n" + "  - { id: a, wait: 1 day }\n" * 300,
    "flow: x\ntitle: y\nowner: person:me\nsteps:\n" + "".join(f"  - {{ id: a{n}, wait: 1 day }}\n" for n in range(300)),
    "flow: x\ntitle: " + "${{ " * 500 + "}}" * 500 + "\nowner: person:me\nsteps: []\n",
    "flow: x\ntitle: y\nowner: person:me\nsteps:\n  - { id: a, wait: 1 day, when: '${{ " + "not " * 400 + "true }}' }\n",
    "flow: x\ntitle: y\nowner: person:me\nsteps:\n  - { id: a, wait: 1 day, when: '${{ " + "(" * 400 + "1" + ")" * 400 + " }}' }\n",
    "flow: x\ntitle: y\nowner: person:me\nsteps:\n  - { id: a, wait: 1 day, when: '${{ 1 " + "+ 1 " * 800 + "> 2 }}' }\n",
    "a: &a [*a]", "a: &a b\nb: *a", "? [a]\n: b", "a: !!python/object:os.system x", "%YAML 1.2\n---\na: b", "a: b\n---\nc: d",
    "flow: x\n\tsteps: 1", "flow: x\nsteps:\n - id: a\n   wait: 1 day\n  - id: b\n    wait: 1 day\n", "\x00", "flow: \x07",
    *(WHOLE.replace(old, new, 1) for old, new in [
        ("steps:", "stpes:"), ("compensate:", "compensate"), ("- id:", "-id:"), ("with:", "with: with:"), ("${{", "{{"), ("}}", "}"),
        ("mode: live", "mode: [live]"), ("owner:", "owner: {"), ("inputs:", "inputs: text"), ("trigger:", "trigger: []"), ("find:", "find: 1"),
        ("approve:", "approve: []"), ("covers:", "covers: {}"), ("choose:", "choose: 1"), ("retry:", "retry: -1"), ("timeout:", "timeout: 0"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BY_HAND)))
def test_what_was_thought_of_by_hand(number: int) -> None:
    hold(BY_HAND[number])


def test_these_are_five_hundred() -> None:
    assert 260 + 4 * 45 + len(BY_HAND) + 17 >= 500


# --- the words that keep a flow safe -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> ProjectFacts:
    folder = tmp_path_factory.mktemp("examples") / "flows"
    copy_flows(folder, backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    return project_of(folder).facts()


def data_of(file: Path) -> Any:
    source, _ = read(file.read_text(encoding="utf-8"), file.name)
    assert source is not None
    return source.data


def checked(data: Any, facts: ProjectFacts, name: str) -> list[Problem]:
    """What is wrong with a flow that is written as JSON, which YAML reads too; drills left out."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    flow, source, problems = load_flow(text, f"{name}.yaml", facts.read_file)
    rules = check_flow(flow, source, facts) if flow is not None and source is not None else ()
    return [one for one in (*problems, *rules) if one.code != "FL210"]


def without(data: Any, place: Place) -> Any:
    """The data without what stands at this place."""
    data = json.loads(json.dumps(data))
    around: Any = value_at(data, place[:-1])
    del around[place[-1]]
    return data


def guards_of(file: Path) -> Iterator[tuple[str, Place]]:
    """Every word of a flow that keeps it safe: (what it is of, its place)."""
    data = data_of(file)
    for place, step in steps_in(data):
        tools = enumerate(step.get("tools", []))
        for path, one in [(place, step), *(((*place, "tools", number), tool) for number, tool in tools)]:
            if "do" in one and "compensate" in one:
                yield one["id"], (*path, "compensate")
            if "approve" in one:
                yield " ".join(one.get("covers", [one["id"]])), path if "covers" in one else (*path, "approve")
    kinds = data.get("trigger", "manual")
    changes = any("do" in step for _, step in steps_in(data))
    needed = {"manual", "mail", "poll", "schedule", "cron"}
    given = (
        set(kinds)
        if isinstance(kinds, dict)
        else {kinds}
        if isinstance(kinds, str)
        else {key for one in kinds for key in one}
    )
    if changes and given & needed:
        yield "", ("run_key",)


GUARDS = [(file, named, place) for file in EXAMPLES for named, place in guards_of(file)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_in_order_as_json_too(file: Path, facts: ProjectFacts) -> None:
    assert checked(data_of(file), facts, file.stem) == []


@pytest.mark.parametrize(
    ("file", "named", "place"), GUARDS, ids=[f"{file.stem}-{named}-{place[-1]}" for file, named, place in GUARDS]
)
def test_whatever_keeps_an_example_safe_is_missed(file: Path, named: str, place: Place, facts: ProjectFacts) -> None:
    found = checked(without(data_of(file), place), facts, file.stem)
    if place == ("run_key",):
        assert "FL209" in {one.code for one in found}
    elif place[-1] == "compensate":
        assert [one for one in found if one.code == "FL202" and f'"{named}"' in one.what]
    else:
        assert [
            one
            for one in found
            if one.code in ("FL203", "FL207") and any(f'"{name}"' in one.what for name in named.split())
        ]


def test_there_are_many_such_words() -> None:
    assert len(GUARDS) >= 40
    assert {place[-1] if isinstance(place[-1], str) else "approve" for _, _, place in GUARDS} >= {
        "compensate",
        "approve",
        "run_key",
    }
