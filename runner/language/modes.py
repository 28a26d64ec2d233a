"""The one word that takes a flow live, or back to draft, written into its file: nothing else of the text changes."""

from __future__ import annotations

import re
from typing import Literal

from runner.errors import NotPossible
from runner.language.source import read

Mode = Literal["draft", "live"]
_WORD = re.compile(r"""(["']?)(?:draft|live)\1""")


def with_mode(text: str, file: str, mode: Mode) -> str:
    """The text of a flow with this mode; where it has none yet, a line under its owner. Comments, blanks and line ends
    stay. Raises NotPossible where the word cannot be changed alone."""
    source, _ = read(text, file)
    if source is None or not isinstance(source.data, dict):
        raise NotPossible(f"{file} cannot be read, so its mode cannot be changed; amends check {file} says why")
    lines = re.split(r"(?<=\n)", text)
    place = source.values.get(("mode",))
    if place is not None:
        line, column = lines[place.line - 1], place.column - 1 + (place.line == 1 and text.startswith("\ufeff"))
        lines[place.line - 1] = line[:column] + _WORD.sub(
            lambda found: f"{found[1]}{mode}{found[1]}", line[column:], count=1
        )
    else:
        above = max((source.key((key,)).line for key in ("flow", "title", "owner") if key in source.data), default=0)
        end = "\r\n" if "\r\n" in text else "\n"
        if 0 < above <= len(lines) and not lines[above - 1].endswith(("\n", "\r")):
            lines[above - 1] += end
        lines.insert(above, f"mode: {mode}{end}")
    changed = "".join(lines)
    after, _ = read(changed, file)
    if after is None or after.data != {**source.data, "mode": mode}:
        raise NotPossible(f"{file}: mode cannot be changed by itself here; write mode: {mode} on a line of its own")
    return changed
