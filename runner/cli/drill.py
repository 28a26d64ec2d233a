"""`amends drill`: every step of a flow, every way it can fail, and what is left when it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner.app import Amends
from runner.cli import FAILED, OK, page, place
from runner.cli.place import AsJson
from runner.cli.run import opened, read_given, warn
from runner.clock import iso
from runner.contract import Json
from runner.drill.table import Drill
from runner.drilling import drill_of
from runner.language import drills
from runner.telling import drilled, words
from runner.telling.drilled import Line
from runner.web.drill_page import printed

COMMANDS = place.verb()
LONGEST = 20
"""Signs of a step that stand in one line."""
WIDE = 100
"""Columns from which on the table stands side by side."""


@COMMANDS.command(
    help="Fail every step of a flow in every way, with nothing sent: what is made good, what is left, who is told."
)
def drill(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id, or the path of its file.")],
    given: Annotated[list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--inputs", metavar="FILE", help="A JSON file with inputs; may be repeated.")
    ] = None,
    html: Annotated[str, typer.Option("--html", metavar="FILE", help="Write the table as one page.")] = "",
    record: Annotated[bool, typer.Option("--record", help="Keep it as the drill of this version of the flow.")] = False,
    as_json: AsJson = False,
) -> None:
    with opened(flow) as (amends, wanted):
        checked = amends.project.checked(wanted)
        assert checked.flow is not None
        warn(checked)
        found = drill_of(amends.project, wanted, list(_given(given or [], inputs or [], checked.flow.inputs)))
        _keep(amends, found, html, is_record=record)
        if as_json:
            page.say_json(drilled.as_json(found, iso(amends.clock.now())))
        else:
            page.show(*_told(found))
        raise typer.Exit(FAILED if found.untold or found.failing or found.left_out else OK)


def _given(given: list[str], files: list[str], fields: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The author's inputs, each file for itself, with what --input says over it."""
    for file in files or ([""] if given else []):
        yield (Path(file).name if file else "--input"), read_given(given, file, fields)


def _keep(amends: Amends, found: Drill, html: str, *, is_record: bool) -> None:
    when = iso(amends.clock.now())
    if html:
        place.write(Path(html), printed(found, when))
        page.complain(f"The page is in {html}.")
    if is_record:
        kept = drills.record(amends.project.folder, found.flow, drilled.as_json(found, when))
        page.complain(f"It is on record for this version of {found.flow}: {kept}")


def _told(found: Drill) -> Iterator[RenderableType]:
    out = page.console()
    yield Text(f"{found.flow}: {words.plain(found.title)}", style="bold")
    if len(found.situations) > 1 or found.failing:
        yield Group(*(Text(drilled.situation_line(*each), style="dim") for each in enumerate(found.situations)))
    lines = drilled.shown_lines(found)
    if lines:
        yield Text()
        yield _side_by_side(lines, out) if out.width >= WIDE else Group(*_one_by_one(lines, out))
        yield Text()
    if found.unreached:
        yield Text("Not reached (give --inputs that lead there):")
        yield Group(*(Text(f"  {drilled.unreached_line(one)}") for one in found.unreached))
    yield from (Text(legend, style="dim") for legend in drilled.legends(lines))
    yield Text(drilled.verdict(found), style="bold red" if found.untold or found.failing else "bold")
    yield from map(Text, drilled.hints(found))


def _side_by_side(lines: list[Line], out: Console) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", expand=True)
    table.add_column("")
    table.add_column("step", width=min(max(len(line.step) for line in lines), LONGEST), overflow="fold")
    for head, ratio in (("what fails", 7), ("made good, in this order", 8), ("still outside", 7), ("who knows", 5),
                        ("ends", 4)):  # fmt: skip
        table.add_column(head, ratio=ratio, overflow="fold")
    before = ""
    for line in lines:
        shown = "" if line.step == before else line.step
        style = "red" if line.sign == "failed" else ""
        cells = (shown, line.fails, line.good, line.there, line.knows, line.end)
        table.add_row(page.sign(line.sign, out), *(Text(cell, style=style) for cell in cells))
        before = line.step
    return table


def _one_by_one(lines: list[Line], out: Console) -> Iterator[RenderableType]:
    before = ""
    for line in lines:
        if line.step and line.step != before:
            yield Text(line.step, style="bold")
        before = line.step
        head = Text.assemble(page.sign(line.sign, out), f" {line.fails}: ", (line.end, "bold"))
        yield Padding(head, (0, 0, 0, 2))
        for name, text in (("made good", line.good), ("outside", line.there), ("knows", line.knows)):
            if text != "-":
                yield Padding(Text(f"{name}: {text}", style="red" if line.sign == "failed" else "dim"), (0, 0, 0, 6))
