"""`amends check --table`: what a person must know about a flow, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from runner.cli import page
from runner.errors import InvalidFlow
from runner.language.flow import Flow
from runner.language.project import Project
from runner.telling.duties import Duty, duties

HEADS = ("step", "does", "effect", "tried", "made good by", "who is asked")
NARROW = 100
"""Columns of a terminal: with fewer each step has lines of its own."""


def show_table(project: Project, wanted: str | None, *, as_json: bool) -> None:
    """The table of one flow or of all. Raises NotFound; InvalidFlow where nothing can be made of a file."""
    actions, found = project.facts().actions, []
    for checked in project.check(wanted):
        if checked.flow is None:
            raise InvalidFlow(checked.problems, {checked.file: checked.text})
        found.append((checked.flow, duties(checked.flow, actions)))
    if as_json:
        page.say_json([{"flow": flow.id, "steps": [asdict(one) for one in rows]} for flow, rows in found])
        return
    out = page.console()
    for number, (flow, rows) in enumerate(found):
        page.say(*[""] * (number > 0), f"{flow.id}: {flow.title} ({flow.mode}; {flow.owner})", "")
        if out.width < NARROW:
            page.say(*_lines(rows))
        else:
            page.show(page.listed(HEADS, [_cells(one) for one in rows], fixed=(0,)), out=out)
        page.say("", _on_failure(flow))


def _cells(one: Duty) -> tuple[str, ...]:
    return ("  " * one.depth + one.step, one.does, one.effect, one.tried, one.made_good, one.asked)


def _lines(rows: tuple[Duty, ...]) -> Iterator[str]:
    for one in rows:
        indent = "  " * one.depth
        yield f"{indent}{one.step}: {one.does}"
        for head, cell in zip(HEADS[2:], _cells(one)[2:], strict=True):
            if cell:
                yield f"{indent}    {head}: {cell}"


def _on_failure(flow: Flow) -> str:
    what = flow.on_failure
    does = "what was done is made good" if what.do == "compensate" else "nothing is undone, a person chooses"
    then = f", then {what.then_run} runs" if what.then_run else ""
    return f"If a step fails: {does}{then}; told: {what.tell or flow.owner}."
