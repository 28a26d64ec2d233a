"""How the doors print: one console, times in the reader's zone, JSON, lists, and signs that the terminal can show."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from runner.clock import DAY, HOUR, MINUTE, SECOND
from runner.contract import Json
from runner.language.zones import zone_fault

WIDEST = 110
Sign = Literal["done", "failed", "unknown", "good", "person", "note", "wait"]

SIGNS: Mapping[Sign, tuple[str, str, str]] = {
    "done": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "unknown": ("?", "?", "yellow"),
    "good": ("↩", "<", "cyan"),
    "person": ("!", "!", "yellow"),
    "note": ("·", "-", "dim"),
    "wait": ("…", ".", "dim"),
}
"""Each sign, how it looks where the terminal is ASCII only, and its colour."""


def console(*, to_errors: bool = False) -> Console:
    """A console on standard output (or error). NO_COLOR is respected; no markup is read out of anybody's text."""
    made = Console(stderr=to_errors, highlight=False, markup=False, emoji=False)
    if made.width > WIDEST:
        made.width = WIDEST
    return made


def sign(which: Sign, out: Console) -> Text:
    """A sign in its colour."""
    shown, ascii_sign, style = SIGNS[which]
    return Text(shown if out.encoding.lower().startswith("utf") else ascii_sign, style=style)


def say(*lines: str) -> None:
    """Plain lines on standard output."""
    print(*lines, sep="\n", flush=True)


def complain(*lines: str) -> None:
    """Plain lines on standard error."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def say_json(value: Json) -> None:
    """A value as JSON on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str), flush=True)


def grid(widths: Sequence[int | None]) -> Table:
    """A table without lines: the columns have these widths, or what they need (the last one wraps)."""
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for width in widths:
        table.add_column(width=width, no_wrap=width is not None, overflow="ellipsis" if width is not None else "fold")
    return table


def listed(heads: Sequence[str], rows: Iterable[Sequence[str]], *, fixed: Sequence[int] = ()) -> Table:
    """A list with a heading; the columns numbered in `fixed` are never cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=number in fixed)
    for row in rows:
        table.add_row(*row)
    return table


def show(*parts: RenderableType, out: Console | None = None) -> None:
    """Prints renderables one under the other; where nobody looks on, without blanks at the ends of lines."""
    out = out or console()
    if out.is_terminal:
        for part in parts:
            out.print(part)
        return
    with out.capture() as kept:
        for part in parts:
            out.print(part)
    out.file.write("\n".join(line.rstrip() for line in kept.get().split("\n")))
    out.file.flush()


# --- times -----------------------------------------------------------------------------------------------------------


def reader_zone(zone: str = "", has_zone: bool = False) -> str:
    """The zone to show times in: the project's, else that of this computer, else UTC."""
    if has_zone:
        return zone
    for name in (os.environ.get("TZ", "").lstrip(":"), _linked_zone(Path("/etc/localtime"))):
        if name and not zone_fault(name):
            return name
    return "UTC"


def _linked_zone(link: Path) -> str:
    try:
        return str(link.resolve(strict=True)).partition("zoneinfo/")[2]
    except OSError:
        return ""


def moment(at: int, zone: str) -> datetime:
    """A time in a zone."""
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(zone))


def offset(at: int, zone: str) -> str:
    """The zone's offset at that time: +09:00."""
    text = moment(at, zone).strftime("%z")
    return f"{text[:3]}:{text[3:]}"


def short(at: int, zone: str) -> str:
    """A time for a column whose head tells the offset (`offsets`): 2026-09-01 09:00."""
    return f"{moment(at, zone):%Y-%m-%d %H:%M}"


def offsets(times: Iterable[int], zone: str) -> str:
    """The offsets of these times, for the head of a column."""
    return "/".join(sorted({offset(at, zone) for at in times}))


def left(ms: int) -> str:
    """What is left of a wait: in 3 s; now."""
    return f"in {span(-(-ms // SECOND) * SECOND)}" if ms > 0 else "now"


def counted(count: int, word: str) -> str:
    """1 flow; 2 flows."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def span(ms: int) -> str:
    """A length of time in words: 450 ms, 3 s, 2 min, 5 h, 4 days."""
    if ms < SECOND:
        return f"{max(ms, 0)} ms"
    for unit, word, longest in ((SECOND, "s", 2 * MINUTE), (MINUTE, "min", 2 * HOUR), (HOUR, "h", 2 * DAY)):
        if ms < longest:
            return f"{ms // unit} {word}"
    return f"{ms // DAY} days"
