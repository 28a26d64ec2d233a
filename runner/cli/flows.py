"""`amends flows`: the flows of the project."""

from __future__ import annotations

from runner.cli import page, place
from runner.contract import Json
from runner.language.project import CheckedFlow

COMMANDS = place.noun("The flows of the project.")


@COMMANDS.callback()
def _flows() -> None:
    """Keeps `list` a word of its own while it is the only one."""


@COMMANDS.command("list", help="List the project's flows.")
def list_(as_json: place.AsJson = False) -> None:
    with place.opened() as amends:
        found = amends.project.check()
        if as_json:
            page.say_json([_as_json(each) for each in found])
            return
        if not found:
            page.say(f"There is no flow in {amends.project.folder}; `amends init` makes a first one.")
            return
        page.show(page.listed(("flow", "mode", "title", "owner", "check"), [_row(each) for each in found], fixed=(0,)))


def _row(each: CheckedFlow) -> tuple[str, ...]:
    if each.flow is None:
        return each.file, "", "", "", _fitness(each)
    return each.flow.id, each.flow.mode, each.flow.title, each.flow.owner, _fitness(each)


def _fitness(each: CheckedFlow) -> str:
    errors = sum(problem.level == "error" for problem in each.problems)
    warnings = sum(problem.level == "warning" for problem in each.problems)
    if errors:
        return f"{errors} error{'' if errors == 1 else 's'}"
    return f"{warnings} warning{'' if warnings == 1 else 's'}" if warnings else "ok"


def _as_json(each: CheckedFlow) -> dict[str, Json]:
    flow = each.flow
    counts = {level: sum(problem.level == level for problem in each.problems) for level in ("error", "warning")}
    about = {"flow": flow.id, "title": flow.title, "mode": flow.mode, "owner": flow.owner} if flow is not None else {}
    return {
        "file": each.file,
        **about,
        "is_fit_to_run": each.is_fit_to_run,
        "errors": counts["error"],
        "warnings": counts["warning"],
    }
