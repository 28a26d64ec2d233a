"""The failure table of a flow as one page that stands alone: to print, and to show to an auditor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from runner.drill.table import Drill
from runner.telling import drilled
from runner.tongue import _, spoken

PAGES = Path(__file__).parent / "pages"
_JINJA = Environment(
    loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_JINJA.globals.update(_=_)


def shown(drill: Drill) -> dict[str, Any]:
    """What the table's template needs."""
    lines = drilled.shown_lines(drill)
    steps = dict.fromkeys(line.step for line in lines)
    return {
        "drill": drill,
        "groups": [(step, [line for line in lines if line.step == step]) for step in steps],
        "situations": [drilled.situation_line(*each) for each in enumerate(drill.situations)],
        "unreached": [drilled.unreached_line(one) for one in drill.unreached],
        "legend": " ".join(drilled.legends(lines)),
        "verdict": drilled.verdict(drill),
        "hint": " ".join(drilled.hints(drill)),
    }


def printed(drill: Drill, when: str) -> str:
    """The whole page. `when` it was made, as it is written there."""
    style = Markup((PAGES / "drill.css").read_text(encoding="utf-8"))
    return _JINJA.get_template("drill_alone.html").render(when=when, language=spoken(), style=style, **shown(drill))
