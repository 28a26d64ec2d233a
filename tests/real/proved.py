"""`amends connectors test`, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.house import ROOT


@dataclass(frozen=True, kw_only=True, slots=True)
class Proved:
    """What it printed: checks as "action: check"."""

    holds: set[str]
    fails: list[str]
    untested: list[str]
    left: list[str]


def prove(
    folder: Path,
    connector: str,
    line: Mapping[str, Any],
    secrets: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    only: tuple[str, ...] = (),
) -> Proved:
    """Holds a shipped connector against the server that the line leads to."""
    with (folder / "connections.yaml").open("w") as file:
        YAML().dump({"ours": {"connector": connector, "allow_private": True, **line}}, file)
    (folder / "people.yaml").write_text("people:\n  me: { name: Me, mail: me@example.com }\n")
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))
    words = [word for name, value in (given or {}).items() for word in ("--with", f"{name}={value}")]
    words += [word for name in only for word in ("--action", name)]
    command = ["connectors", "test", "ours", "--yes-really", "--json", *words]
    done = subprocess.run(
        [sys.executable, "-c", "from runner.cli import main; main()", *command],
        cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=150, text=True,
    )  # fmt: skip
    assert not any(value in done.stdout + done.stderr for value in secrets.values())
    told = json.loads(done.stdout)
    rows = {
        verdict: [f"{one['action']}: {one['check']}{': ' + one['why'] if verdict != 'holds' else ''}" for one in told["checks"] if one["verdict"] == verdict]
        for verdict in ("holds", "fails", "not tested")
    }  # fmt: skip
    return Proved(holds=set(rows["holds"]), fails=rows["fails"], untested=rows["not tested"], left=told["left"])
