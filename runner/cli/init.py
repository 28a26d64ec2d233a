"""`amends init`: a small project that works, to be changed into one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.errors import NotPossible
from runner.language.settings import project_name

COMMANDS = place.verb()

AMENDS = """\
project: {project}
zone: {zone}
language: en
"""

FLOW = """\
# A first flow. It only writes to this project's own tables, so it needs no service and no password.
flow: first_flow
title: A request is noted and a reminder is set
owner: person:me  # whoever starts it from the terminal
mode: draft  # a draft sends nothing; write live when it is right
run_key: ${{ inputs.request }}  # the same request twice is one run

inputs:
  request: text
  name: text
  note: text or empty

steps:
  - id: request
    do: records.create
    with:
      collection: requests
      number: ${{ inputs.request }}
      name: ${{ inputs.name }}
      note: ${{ inputs.note | default("none") }}
    compensate: cancel  # if a later step fails, the record is taken out again

  - id: reminder
    do: records.create
    with:
      collection: reminders
      text: Call ${{ inputs.name }} about request ${{ inputs.request }}
      due: ${{ today() | add_days(3) }}
    compensate: cancel

outputs:
  reminder: ${{ steps.reminder.id }}
"""

CONNECTIONS = """\
# What the names in the flows stand for here. Built in without a line: http, records, quarantine. For example:
# mail:
#   connector: email
#   host: smtp.example.test
#   port: 587
#   user: ops
#   password: { secret: SMTP_PASSWORD }  # the value stands in .env
#   from: "Ops <ops@example.test>"
"""

ENV = """\
# Copy this file to .env and fill it in. .env is not for version control.
# SMTP_PASSWORD=
"""

IGNORED = """\
.amends/
.env
"""


def files_of(folder: Path, zone: str) -> Mapping[str, str]:
    """The files of a new project by name."""
    return {
        "amends.yaml": AMENDS.format(project=project_name(folder.resolve().name), zone=zone),
        "flows/first_flow.yaml": FLOW,
        "connections.yaml": CONNECTIONS,
        ".env.example": ENV,
        ".gitignore": IGNORED,
    }


@COMMANDS.command(help="Begin a project: a few small files with a flow that works. Nothing that is there is changed.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder; made where it is missing.")] = Path(),
) -> None:
    if (folder / "amends.yaml").exists():
        raise NotPossible(f"{folder.absolute()} holds a project already (amends.yaml)")
    made, kept = [], []
    for name, text in files_of(folder, page.reader_zone()).items():
        file = folder / name
        if file.exists():
            kept.append(name)
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NotPossible(f"{file} cannot be written: {error.strerror or error}") from None
        made.append(name)
    page.say(f"Made in {folder}: {', '.join(made)}." + (f" Left as they were: {', '.join(kept)}." if kept else ""))
    page.say(
        "Go on with",
        *([f"  cd {folder}"] if folder.resolve() != Path.cwd() else []),
        "  amends check",
        "  amends run first_flow --input request=R-1 --input name=Aya",
    )
