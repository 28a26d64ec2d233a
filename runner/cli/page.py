"""How the doors print: one console, JSON, lists, and signs that the terminal can show."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich import console as consoles
from rich import table as tables
from rich import text as texts

from runner.contract import Json
from runner.telling.words import Sign

WIDEST = 110

SIGNS: Mapping[Sign, tuple[str, str, str]] = {
    "done": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "part": ("~", "~", "yellow"),
    "unknown": ("?", "?", "yellow"),
    "good": ("↩", "<", "cyan"),
    "person": ("!", "!", "yellow"),
    "note": ("·", "-", "dim"),
    "wait": ("…", ".", "dim"),
}
"""Each sign, how it looks where the terminal is ASCII only, and its colour."""
MEANS: Mapping[Sign, str] = {
    "done": "done", "failed": "failed", "part": "in part", "unknown": "not known", "good": "made good",
    "person": "a person", "note": "remark", "wait": "under way",
}  # fmt: skip
"""What each sign means."""


def console(*, to_errors: bool = False) -> consoles.Console:
    """A console on standard output (or error). NO_COLOR is respected; no markup is read out of anybody's text."""
    made = consoles.Console(stderr=to_errors, highlight=False, markup=False, emoji=False)
    if made.width > WIDEST:
        made.width = WIDEST
    return made


def sign(which: Sign, out: consoles.Console) -> texts.Text:
    """A sign in its colour."""
    shown, ascii_sign, style = SIGNS[which]
    return texts.Text(shown if out.encoding.lower().startswith("utf") else ascii_sign, style=style)


def legend(used: Collection[Sign], out: consoles.Console) -> texts.Text:
    """What these signs mean, in one line; empty where all of it is done, or goes on."""
    shown = [texts.Text.assemble(sign(which, out), f" {MEANS[which]}") for which in SIGNS if which in used]
    return texts.Text("  ").join(shown) if set(used) - {"done", "note", "wait"} else texts.Text()


def say(*lines: str) -> None:
    """Plain lines on standard output."""
    print(*lines, sep="\n", flush=True)


def complain(*lines: str) -> None:
    """Plain lines on standard error."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def say_json(value: Json) -> None:
    """A value as JSON on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str), flush=True)


def grid(widths: Sequence[int | None]) -> tables.Table:
    """A table without lines: the columns have these widths, or what they need (the last one wraps)."""
    table = tables.Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for width in widths:
        table.add_column(width=width, no_wrap=width is not None, overflow="ellipsis" if width is not None else "fold")
    return table


def grid_of(rows: Iterable[Sequence[str]]) -> tables.Table:
    """Rows of a table without lines or heads."""
    table = tables.Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def listed(heads: Sequence[str], rows: Iterable[Sequence[str]], *, fixed: Sequence[int] = ()) -> tables.Table:
    """A list with a heading; the columns numbered in `fixed` are never cut."""
    table = tables.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=number in fixed)
    for row in rows:
        table.add_row(*row)
    return table


def show(*parts: consoles.RenderableType, out: consoles.Console | None = None) -> None:
    """Prints renderables one under the other, none cut; where nobody looks on, without blanks at the ends of lines."""
    out = out or console()
    if out.is_terminal:
        _print(parts, out)
        return
    with out.capture() as kept:
        _print(parts, out)
    out.file.write("\n".join(line.rstrip() for line in kept.get().split("\n")))
    out.file.flush()


def _print(parts: Iterable[consoles.RenderableType], out: consoles.Console) -> None:
    for part in parts:
        is_whole = isinstance(part, texts.Text) and part.no_wrap  # rich forgets it of a text that it is given alone
        out.print(part, crop=False, no_wrap=is_whole or None, overflow="ignore" if is_whole else None)
