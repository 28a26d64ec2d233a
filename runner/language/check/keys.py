"""Keys and names that are the same for everything: what is done once stands for all that come after (FL206), and
items that nobody can tell apart (FL108)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Text, rule

_NO_EVENT = {("run", "flow"), ("run", "mode")}
"""Names that are the same in every run."""
_EVENT = {"id": "every event", "seen_by": "every item"}


@rule("FL206")
def find_keys_of_everything(context: Context) -> Iterator[Problem]:
    """A key without anything of the event in it."""
    for text in context.texts:
        whose = _same_for(text)
        if whose and text.text.strip():
            name = str(text.path[-1])
            what = f'"{name}" is the same for {whose}, so only the first of them would be done'
            hint = "name what tells them apart" if whose != "every item" else "name the item: ${{ item.… }}"
            if text.text.strip().split(".")[0] in ("inputs", "event", "item", "steps"):
                hint = f"write ${{{{ {text.text.strip()} }}}}"
            yield context.source.problem("FL206", text.path, what, hint)


def _same_for(text: Text) -> str:
    """Of what the key is the same each time; empty where it is not, or the text is no key."""
    uses, name = {use.path for use in text.uses}, text.path[-1]
    is_blank = not uses - _NO_EVENT
    if text.path == ("run_key",):
        return "every run" if is_blank and _is_fixed(text) else ""
    if text.reach == "trigger":
        is_key = name in _EVENT and text.path[-2] != "fill" and text.path[-2] != "with"
        return _EVENT[str(name)] if is_key and is_blank and _is_fixed(text) else ""
    placed = text.placed
    if placed is None or text.path != (*placed.path, "key"):
        return ""
    lists = [outer for outer in placed.around if outer.step.verb == "each"]
    inside = {step.id for outer in lists[-1:] for branch in outer.step.branches for step in branch.steps}
    if lists and not any(path[0] == "item" or (path[0] == "steps" and path[1] in inside) for path in uses):
        return "every item"
    return "every run" if is_blank and _is_fixed(text) else ""


def _is_fixed(text: Text) -> bool:
    """A clock has a problem of its own."""
    return "now(" not in text.text and "today(" not in text.text


@rule("FL108")
def find_items_of_one_name(context: Context) -> Iterator[Problem]:
    """`named` without anything of the item in it: the run stops at the second one."""
    for text in context.texts:
        placed = text.placed
        is_name = placed is not None and text.path == (*placed.path, "named") and bool(text.text.strip())
        if placed is not None and is_name and not any(use.path[0] == "item" for use in text.uses):
            what = f'"named" is the same for every item of "{placed.step.id}", and two items never have one name'
            yield context.source.problem("FL108", text.path, what, "name what tells them apart: ${{ item.… }}")
