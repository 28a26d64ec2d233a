"""Problems for other programs: GitHub's annotations, and SARIF 2.1.0 for whatever shows findings beside code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from runner import __version__
from runner.contract import Json
from runner.errors import Problem
from runner.language.explain import Page, pages

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

FileOf = Callable[[str], str]
"""A problem's file by its name from the project folder -> its path from the root of what is looked at."""


def from_the_root(folder: Path) -> FileOf:
    """Paths from the folder that GitHub checked out, else from the current one; those outside stay whole."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()

    def file_of(name: str) -> str:
        path = folder / name
        return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()

    return file_of


# --- GitHub ----------------------------------------------------------------------------------------------------------


def github(problems: Sequence[Problem], file_of: FileOf) -> Iterator[str]:
    """One workflow command for each problem: `::error file=…,line=…,col=…,endColumn=…,title=FL101::…`."""
    for one in problems:
        place = {"line": one.line, "col": one.column, "endColumn": one.column + max(one.length, 1)} if one.line else {}
        said = {"file": file_of(one.file), **place, "title": one.code}
        shown = ",".join(f"{name}={_property(str(value))}" for name, value in said.items())
        yield f"::{_level(one)} {shown}::{_data(one.what + (chr(10) + one.hint if one.hint else ''))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _level(problem: Problem) -> str:
    return "warning" if problem.level == "warning" else "error"


# --- SARIF -----------------------------------------------------------------------------------------------------------


def sarif(problems: Sequence[Problem], file_of: FileOf) -> Json:
    """A SARIF 2.1.0 log with one run. Columns count characters."""
    known = pages()
    rules = sorted({one.code for one in problems} | set(known))
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "amends",
                        "semanticVersion": __version__,
                        "rules": [_rule(code, known.get(code)) for code in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, rules.index(one.code), file_of) for one in problems],
            }
        ],
    }


def _rule(code: str, page: Page | None) -> Json:
    if page is None:
        return {"id": code}
    example = f"Wrong:\n\n```yaml\n{page.wrong}```\n\nRight:\n\n```yaml\n{page.right}```\n"
    why = " ".join(page.why.split())
    return {
        "id": code,
        "shortDescription": {"text": page.what},
        "fullDescription": {"text": why},
        "help": {"text": why, "markdown": f"{why}\n\n{example}"},
        "defaultConfiguration": {"level": "warning" if page.level == "warning" else "error"},
    }


def _result(one: Problem, rule: int, file_of: FileOf) -> Json:
    where: Json = {"artifactLocation": {"uri": _address(file_of(one.file))}}
    if one.line:
        where["region"] = {
            "startLine": one.line,
            "startColumn": max(one.column, 1),
            "endColumn": max(one.column, 1) + max(one.length, 1),
        }
    text = one.what + (f"\n{one.hint}" if one.hint else "")
    return {
        "ruleId": one.code,
        "ruleIndex": rule,
        "level": _level(one),
        "message": {"text": text},
        "locations": [{"physicalLocation": where}],
    }


def _address(path: str) -> str:
    return Path(path).as_uri() if path.startswith("/") else quote(path)
