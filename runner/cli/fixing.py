"""`amends check --fix` and `--diff`: what can be put right by itself, shown as a diff and written back."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.cli import page
from runner.errors import NotPossible, Problem
from runner.language.fixes import put_right
from runner.language.project import Project
from runner.telling.times import counted

_END = re.compile(r"(\r\n|\n|\r)")
_MARK = "\ufeff"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed:
    """One file as it is and as it would be, byte for byte."""

    path: Path
    name: str
    old: bytes
    new: bytes
    gone: tuple[Problem, ...]


def show_fixes(project: Project, wanted: str | None, *, write: bool) -> None:
    """Shows what can be put right as a diff, and writes it where `write` says so. Raises NotPossible, NotFound."""
    found = [one for one in _fixes(project, wanted) if one.gone]
    for one in found:
        page.say(*_diff(one), "")
    problems = counted(sum(len(one.gone) for one in found), "problem")
    where = counted(len(found), "file")
    if write:
        for one in found:
            _write(one)
        page.say(f"Put right: {problems} in {where}." if found else "Nothing can be put right by itself.", "")
    else:
        can = f"{problems} in {where} can be put right; `amends check --fix` does it."
        page.say(can if found else "Nothing can be put right by itself.", "")


def _fixes(project: Project, wanted: str | None) -> Iterator[Fixed]:
    facts = project.facts()
    for path in project.flow_files() if wanted is None else (project.path_of(wanted),):
        name = project.name_of(path)
        try:
            old = path.read_bytes()
            text = old.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # the check says so
        mark, pieces = (_MARK if text.startswith(_MARK) else ""), _END.split(text.removeprefix(_MARK))
        new, gone = put_right("\n".join(pieces[::2]), partial(project.check_text, file=name, facts=facts))
        pieces[::2] = new.split("\n")
        yield Fixed(path=path, name=name, old=old, new=(mark + "".join(pieces)).encode(), gone=gone)


def _diff(one: Fixed) -> Iterator[str]:
    before, after = (text.decode().removeprefix(_MARK).splitlines() for text in (one.old, one.new))
    yield from difflib.unified_diff(before, after, one.name, one.name, n=1, lineterm="")


def _write(one: Fixed) -> None:
    """The whole file at once, or nothing of it."""
    path = one.path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if path.read_bytes() != one.old:
            raise NotPossible(f"{one.name} has just been changed by somebody else; run the check again")
        new.write_bytes(one.new)
        shutil.copymode(path, new)
        new.replace(path)
    except OSError as error:
        raise NotPossible(f"{one.name} cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
