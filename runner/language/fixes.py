"""What can be put right by itself: quotes around what would change, ASCII signs, a key with one letter wrong, a word
in capitals, an id with `-`. Each is one edit of the text at its place: comments, order and spaces stay as they are.

An edit is kept only where its problem is gone with it and nothing new is wrong on the lines that it changed. Whatever
could be meant in two ways is left to a person.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from pydantic import BaseModel

from runner.errors import Problem
from runner.language.called import CheckedFlow
from runner.language.clauses import (
    COMPENSATION_MODELS,
    TRIGGER_MODELS,
    LockModel,
    OnFailureModel,
    RecordModel,
    RetryModel,
)
from runner.language.model import STEP_MODELS, ChooseBranchModel, FlowModel
from runner.language.places import as_quoted
from runner.language.signs import find_braces, with_ascii

MOST_EDITS = 200

_ALL_MODELS: tuple[type[BaseModel], ...] = (
    FlowModel, ChooseBranchModel, LockModel, OnFailureModel, RecordModel, RetryModel,
    *STEP_MODELS.values(), *COMPENSATION_MODELS.values(), *TRIGGER_MODELS.values(),
)  # fmt: skip
KEYS = frozenset(info.alias or name for model in _ALL_MODELS for name, info in model.model_fields.items())
"""Every key of the flow language."""

_MEANT = re.compile(r'^did you mean "([^"]+)"\?$')
_NO_NAME = re.compile(r'^"([A-Za-z][A-Za-z0-9-]*)" is not a name$')

Check = Callable[[str], CheckedFlow]
"""Checks a text as if the flow's file held it."""

Edit = Mapping[int, str]
"""Lines by number, as they should be."""


def put_right(text: str, check: Check) -> tuple[str, tuple[Problem, ...]]:
    """The text with all that is certain put right, and the problems that are gone. No line comes or goes."""
    checked, gone = check(text), []
    for _ in range(MOST_EDITS):
        found = _first_edit(text, checked, check)
        if found is None:
            break
        problem, text, checked = found
        gone.append(problem)
    return text, tuple(gone)


def _first_edit(text: str, checked: CheckedFlow, check: Check) -> tuple[Problem, str, CheckedFlow] | None:
    lines = text.split("\n")
    for problem in checked.problems:
        edit = _edit_for(problem, lines, checked) if 0 < problem.line <= len(lines) else {}
        if not edit:
            continue
        new = "\n".join(edit.get(number, line) for number, line in enumerate(lines, 1))
        after = check(new)
        if _is_better(problem, edit, checked, after):
            return problem, new, after
    return None


def _is_better(problem: Problem, edit: Edit, before: CheckedFlow, after: CheckedFlow) -> bool:
    known = Counter((one.code, one.what) for one in before.problems)
    now = Counter((one.code, one.what) for one in after.problems)
    new = {(one.code, one.what) for one in after.problems if one.line in edit}
    return now[problem.code, problem.what] < known[problem.code, problem.what] and not any(
        now[key] > known[key] for key in new
    )


# --- one edit each --------------------------------------------------------------------------------------------------


def _edit_for(problem: Problem, lines: list[str], checked: CheckedFlow) -> Edit:
    line, start = lines[problem.line - 1], problem.column - 1
    part = line[start : start + problem.length]
    for edit in _EDITS.get(problem.code, ()):
        new = edit(problem, line, part)
        if new and new != line:
            return {problem.line: new}
    return dict(_renamed(problem, lines, checked)) if problem.code == "FL006" else {}


def _put(line: str, problem: Problem, new: str) -> str:
    start = problem.column - 1
    return line[:start] + new + line[start + problem.length :]


def _quotes(problem: Problem, line: str, part: str) -> str:
    return _put(line, problem, as_quoted(part)) if problem.hint == f"write it in quotes: {as_quoted(part)}" else ""


def _signs(problem: Problem, line: str, part: str) -> str:
    fixed = with_ascii(line)
    return fixed if problem.hint == f"write the line so:  {fixed.strip()}" else ""


def _braces(problem: Problem, line: str, part: str) -> str:
    fixed = next((found.fixed for found in find_braces(line) if found.kind == "braces"), "")
    return fixed if fixed and "${{" in line and problem.hint == f"write the line so:  {fixed.strip()}" else ""


def _key(problem: Problem, line: str, part: str) -> str:
    meant = _MEANT.match(problem.hint)
    near = [key for key in KEYS if is_one_apart(part, key)]
    return _put(line, problem, near[0]) if meant is not None and near == [meant[1]] else ""


def _word(problem: Problem, line: str, part: str) -> str:
    meant = _MEANT.match(problem.hint)
    is_same = meant is not None and part.lower().replace("-", "_") == meant[1]
    return _put(line, problem, meant[1]) if meant is not None and is_same else ""


_EDITS: Mapping[str, tuple[Callable[[Problem, str, str], str], ...]] = {
    "FL002": (_quotes,),
    "FL003": (_signs, _key),
    "FL004": (_braces,),
    "FL006": (_word,),
}


def _renamed(problem: Problem, lines: list[str], checked: CheckedFlow) -> Iterator[tuple[int, str]]:
    """An id with `-`, and every place that names it."""
    match = _NO_NAME.match(problem.what)
    name = match[1] if match is not None else ""
    line, start = lines[problem.line - 1], problem.column - 1
    new = name.replace("-", "_")
    is_taken = any(re.search(rf"\bid: *[\"']?{new}\b", one) for one in lines)
    if not name or is_taken or not re.search(r"\bid: *[\"']?$", line[:start]):
        return
    used = re.compile(rf"\b(steps|outcome)\.{name}(?![\w-])")
    covered = re.compile(rf"(?<![\w.-]){name}(?![\w-])")
    for number, one in enumerate(lines, 1):
        changed = used.sub(rf"\1.{new}", one)
        if re.match(r"\s*(?:- )?(?:covers|may_edit):", one):
            changed = covered.sub(new, changed)
        if number == problem.line:
            changed = changed[:start] + changed[start:].replace(name, new, 1)
        if changed != one:
            yield number, changed


def is_one_apart(one: str, other: str) -> bool:
    """Whether one letter too many, missing, wrong, or two that changed places make the difference."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1 or one == other:
        return False
    if len(one) < len(other):
        return any(one == other[:at] + other[at + 1 :] for at in range(len(other)))
    wrong = [at for at in range(len(one)) if one[at] != other[at]]
    is_turned = len(wrong) == 2 and wrong[1] == wrong[0] + 1 and one[wrong[0]] == other[wrong[1]]
    return len(wrong) == 1 or (is_turned and one[wrong[1]] == other[wrong[0]])
