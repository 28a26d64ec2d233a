"""`amends secrets`: which secrets the project's connections name, and which are missing. Never a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import typer

from runner.cli import FAILED, OK, page, place, watching
from runner.contract import Json
from runner.errors import SecretMissing
from runner.language.project import Project
from runner.secrets import Secrets
from runner.telling import times

COMMANDS = place.noun("Which secrets are needed, and which are missing. Values are never shown.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """A secret that is named somewhere. `fault` says why it cannot be used, empty where it can."""

    name: str
    used_by: tuple[str, ...]
    fault: str

    def json(self) -> dict[str, Json]:
        """The same for machines."""
        return {"name": self.name, "named_by": list(self.used_by), "is_set": not self.fault, "fault": self.fault}


@COMMANDS.command("list", help="List the secrets that connections name, and those that stand in .env unused.")
def list_(as_json: place.AsJson = False) -> None:
    with watching.opened() as amends:
        found = needed(amends.project)
        unused = sorted(set(Secrets(amends.folder).known()) - {each.name for each in found})
    if as_json:
        page.say_json({"needed": [each.json() for each in found], "unused": unused})
        return
    rows = [(each.name, ", ".join(each.used_by), "MISSING" if each.fault else "set") for each in found]
    rows += [(name, "nothing names it", "set") for name in unused]
    if rows:
        page.show(page.listed(("secret", "named by", ""), rows, fixed=(0,)))
    else:
        page.say("No connection names a secret.")


@COMMANDS.command(help="Say which secrets cannot be used, and why; exit code 1 where there are any.")
def check(as_json: place.AsJson = False) -> None:
    with watching.opened() as amends:
        found = needed(amends.project)
    faults = [f"{each.name} (named by {', '.join(each.used_by)}): {each.fault}." for each in found if each.fault]
    if as_json:
        page.say_json([each.json() for each in found])
    else:
        page.say(*(faults or [f"{times.counted(len(found), 'secret')} named, none is missing."]))
    raise typer.Exit(FAILED if faults else OK)


def needed(project: Project) -> list[Needed]:
    """Every secret that a connection names, with what is wrong with it. Raises SettingsError for a broken .env."""
    users: dict[str, list[str]] = {}
    for name, connection in project.connections.by_name.items():
        for secret in dict.fromkeys(named_in(connection.settings)):
            users.setdefault(secret, []).append(name)
    secrets = Secrets(project.folder)
    return [Needed(name=name, used_by=tuple(by), fault=_fault(secrets, name)) for name, by in sorted(users.items())]


def _fault(secrets: Secrets, name: str) -> str:
    try:
        secrets.value(name)
    except SecretMissing as error:
        return str(error)
    return ""


def named_in(value: Json) -> Iterator[str]:
    """The secrets that a setting names: `{ secret: NAME }`, at any depth."""
    if isinstance(value, Mapping) and list(value) == ["secret"]:
        yield str(value["secret"])
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from named_in(inner)
