"""`amends flows`: the flows of the project."""

from __future__ import annotations

from runner.cli import page, place, watching
from runner.telling import times

COMMANDS = place.noun("The flows of the project.")


@COMMANDS.command("list", help="List the project's flows.")
def list_(as_json: place.AsJson = False) -> None:
    with watching.opened() as amends:
        checked = amends.project.check()
    found, rows = [], []
    for each in checked:
        flow = each.flow
        errors, warnings = (sum(one.level == level for one in each.problems) for level in ("error", "warning"))
        about = {"flow": flow.id, "title": flow.title, "mode": flow.mode, "owner": flow.owner} if flow else {}
        fit = {"is_fit_to_run": each.is_fit_to_run, "errors": errors, "warnings": warnings}
        found.append({"file": each.file, **about, **fit})
        faults = times.counted(errors, "error") if errors else times.counted(warnings, "warning") if warnings else "ok"
        rows.append((*((flow.id, flow.mode, flow.title, flow.owner) if flow else (each.file, "", "", "")), faults))
    if as_json:
        page.say_json(found)
    elif rows:
        page.show(page.listed(("flow", "mode", "title", "owner", "check"), rows, fixed=(0,)))
    else:
        page.say(f"There is no flow in {amends.folder}; `amends init` makes a first one.")
