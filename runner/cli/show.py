"""`amends show`: a flow as an outline, or as a picture."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.cli.check import find
from runner.drawing.outline import mermaid, outline
from runner.drawing.plan import Plan, plan_of
from runner.drawing.svg import drawing
from runner.errors import InvalidFlow, NotPossible

COMMANDS = place.verb()

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIMIT = 60
"""Seconds that the browser may take for a picture."""


@COMMANDS.command(
    help="Show a flow: its steps with what they do outside, who is asked, and how each is made good. As an outline, or "
    "as a picture in a file."
)
def show(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id or file.")],
    svg: Annotated[str, typer.Option("--svg", metavar="FILE", help="A picture for browsers; - prints it.")] = "",
    png: Annotated[str, typer.Option("--png", metavar="FILE", help="A picture in pixels; needs Chromium here.")] = "",
    chart: Annotated[str, typer.Option("--mermaid", metavar="FILE", help="A Mermaid flowchart; - prints it.")] = "",
) -> None:
    plan = _plan(flow)
    if svg:
        _put(svg, drawing(plan))
    if chart:
        _put(chart, mermaid(plan))
    if png:
        _photograph(drawing(plan), Path(png))
    if not (svg or chart or png):
        page.say(outline(plan))


def _plan(flow: str) -> Plan:
    project, wanted = find(flow)
    [checked] = project.check(wanted)
    if checked.flow is None:
        raise InvalidFlow(checked.problems, {checked.file: checked.text})
    return plan_of(checked.flow, project.connections.actions())


def _put(where: str, text: str) -> None:
    if where == "-":
        page.say(text.removesuffix("\n"))
        return
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotPossible(f"{where} cannot be written: {error.strerror or error}") from None
    page.say(where)


def _photograph(picture: str, file: Path) -> None:
    """The picture as pixels, by a browser without a window."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise NotPossible(
            "a picture in pixels needs Chromium or Chrome, and none is on this computer: write it with --svg, which "
            "every browser shows"
        )
    size = re.search(r'width="(\d+)" height="(\d+)"', picture)
    assert size is not None
    with tempfile.TemporaryDirectory() as folder:
        shown, made = Path(folder) / "flow.html", Path(folder) / "flow.png"
        shown.write_text(f'<meta charset="utf-8"><style>body {{ margin: 0 }}</style>{picture}', encoding="utf-8")
        words = [
            browser, "--headless", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2",
            *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--user-data-dir={folder}/profile",
            f"--window-size={size[1]},{size[2]}", f"--screenshot={made}", shown.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise NotPossible(
                f"{Path(browser).name} has not made the picture within {LIMIT} s; write it with --svg"
            ) from None
        if not made.is_file():
            raise NotPossible(f"{Path(browser).name} has not made the picture; write it with --svg")
        try:
            shutil.copyfile(made, file)
        except OSError as error:
            raise NotPossible(f"{file} cannot be written: {error.strerror or error}") from None
    page.say(str(file))
