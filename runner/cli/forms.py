"""`amends forms`: the forms of the project, and what was sent with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from runner.app import Amends
from runner.cells import csv_lines
from runner.cli import page, place, watching
from runner.cli.place import AsJson, Reveal
from runner.contract import Json
from runner.errors import NotFound, NotPossible
from runner.language.nearest import did_you_mean
from runner.telling.answers import answer_json, answer_rows, answers_to

COMMANDS = place.noun("The forms of the project, and what was sent with them: list, export.")


@COMMANDS.command("list", help="List the forms, their addresses and how many runs came from each.")
def list_(as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        found = _forms(amends)
    if as_json:
        page.say_json(found)
    elif found:
        rows = [[str(each[name]) for name in ("form", "flow", "runs", "address")] for each in found]
        page.show(page.listed(("form", "flow", "runs", "address"), rows, fixed=(0, 1, 2)))
    else:
        page.say("No flow has a form; `trigger: { form: NAME }` makes one out of its inputs.")


def _forms(amends: Amends) -> list[Mapping[str, Json]]:
    address = amends.pages
    flows = [each.flow for each in amends.project.check() if each.flow is not None]
    triggers = [(flow, said) for flow in flows for said in flow.trigger if "form" in said]
    return [
        {
            "form": said["form"], "flow": flow.id, "address": f"{address}/forms/{said['form']}",
            "sign_in": said.get("sign_in", False),
            "runs": sum(1 for _ in answers_to(amends.store, said["form"], reveal=True)) if amends.has_log else 0,
        }
        for flow, said in triggers
    ]  # fmt: skip


@COMMANDS.command(help="Print what was sent with a form, oldest first: as CSV for spreadsheets, or as JSON.")
def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The form's name.")],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV; this is the default.")] = False,
    as_json: AsJson = False,
    reveal: Reveal = False,
) -> None:
    if as_csv and as_json:
        raise NotPossible("--csv and --json do not go together; choose one")
    with watching.opened() as amends:
        zone = place.zone_of(amends)
        found = list(answers_to(amends.store, name, reveal=reveal)) if amends.has_log else []
        known = [str(each["form"]) for each in _forms(amends)] if not found else [name]
    if name not in known:
        raise NotFound(f'there is no form "{name}"; {did_you_mean(name, known, "there are") or "no flow has one"}')
    if as_json:
        page.say_json([answer_json(one, zone) for one in found])
    else:
        page.say("".join(csv_lines(answer_rows(found, zone))).rstrip("\r\n"))
