"""What each problem is, why it matters, and how it is put right: `problems.md`, one page for each code.

The same pages stand in flows/README.md. A page begins with `### CODE`, then its level and one sentence, then why, then
a wrong example and a right one: steps, or keys of a flow, or a whole flow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

_PAGE = re.compile(
    r"### (?P<code>FL\d{3})\n\n\*(?P<level>\w+)\* · (?P<what>[^\n]+)\n\n(?P<why>.+?)\n\n"
    r"```yaml wrong\n(?P<wrong>.*?)```\n\n```yaml\n(?P<right>.*?)```",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One code, explained. `level` is error, warning, or live: an error in a live flow and a warning in a draft."""

    code: str
    level: str
    what: str
    why: str
    wrong: str
    right: str


def all_text() -> str:
    """Every page as Markdown."""
    return (files("runner.language") / "problems.md").read_text(encoding="utf-8")


def pages() -> dict[str, Page]:
    """Every page by its code, in order."""
    found = (Page(**match.groupdict()) for match in _PAGE.finditer(all_text()))
    return {page.code: page for page in found}
