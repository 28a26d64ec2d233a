"""A plan as text: an indented outline for a terminal, and a flowchart in Mermaid's language."""

from __future__ import annotations

from collections.abc import Iterator

from runner.drawing.plan import CHIPS, SIGNS, Good, Plan, Row
from runner.tongue import _

INDENT = "    "


def outline(plan: Plan) -> str:
    """The flow as lines of text, without a newline at the end."""
    return "\n".join(_outlined(plan))


def _outlined(plan: Plan) -> Iterator[str]:
    yield from (plan.title, plan.about, plan.begins, "")
    for row in plan.rows:
        before = INDENT * (row.depth * 2 - (0 if row.step or not row.depth else 1))
        if not row.step:
            yield f"{before}{row.text}:"
            continue
        code = f": {row.code}" if row.code and row.code != row.text else ""
        yield f"{before}{row.step} [{', '.join(_chips(row))}] {row.text}{code}"
        yield from (f"{before}{INDENT}{note}" for note in row.notes)
        good = row.good or (Good(word="bare", text=_("nothing is said")) if row.verb == "do" else None)
        if good is not None:
            more = "; ".join(part for part in (good.action, *good.notes) if part)
            yield f"{before}{INDENT}{_('if a later step fails:')} {good.text}{f': {more}' if more else ''}"
    yield ""
    yield " ".join(plan.fails)
    yield from (f"{_(SIGNS[chip])}: {_(CHIPS[chip])}" for chip in plan.chips if chip != "final")


def _chips(row: Row) -> list[str]:
    return [_(SIGNS[chip]) for chip in row.chips] or [row.verb.replace("_", " ")]


# --- Mermaid -------------------------------------------------------------------------------------------------------


def mermaid(plan: Plan) -> str:
    """The flow as a flowchart. What makes a step good hangs at it by a dashed line, and so do the steps that need a
    yes at the approval."""
    return "\n".join(_charted(plan)) + "\n"


def _charted(plan: Plan) -> Iterator[str]:
    yield from ("---", f'title: "{_safe(plan.title)}"', "---", "flowchart TB", f'    start(["{_safe(plan.begins)}"])')
    rows = {row.step for row in plan.rows if row.step}
    last = "start"
    opened: list[str] = []
    for number, row in enumerate(plan.rows):
        before = INDENT * (len(opened) + 1)
        if not row.step:
            yield f'{before}b{number}["{_safe(row.text)}"]:::branch'
            yield f"{before}{_name(opened[-1])} --> b{number}"
            last = f"b{number}"
            continue
        if row.is_open:
            yield f'{before}subgraph in_{row.step}[" "]'
            opened.append(row.step)
        yield from (f"{INDENT * (len(opened) + 1)}{line}" for line in _boxes(row, last))
        last = _name(row.step)
        for _each in range(row.ends):
            yield f"{INDENT * len(opened)}end"
            last = f"in_{opened.pop()}"
    for row in plan.rows:
        yield from (f"    {_name(row.step)} -. yes .-> {_name(step)}" for step in row.covers if step in rows)
    yield "    classDef undo stroke-dasharray: 4 3"
    yield "    classDef branch stroke-width: 0px"


def _boxes(row: Row, last: str) -> Iterator[str]:
    text = "<br>".join(_safe(part) for part in (f"{row.step} ({', '.join(_chips(row))})", row.text, row.code) if part)
    left, right = ("{{", "}}") if row.verb in ("approve", "hand_off") else ("[", "]")
    yield f'{_name(row.step)}{left}"{text}"{right}'
    yield f"{last} --> {_name(row.step)}"
    if row.good is not None:
        undo = "<br>".join(_safe(part) for part in (row.good.text, row.good.action) if part)
        yield f'{_name(row.step)} -.-> u_{row.step}["{undo}"]:::undo'


def _name(step: str) -> str:
    """A name that is no word of Mermaid."""
    return f"s_{step}"


def _safe(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "#quot;").replace("<", "&lt;").replace(">", "&gt;")
