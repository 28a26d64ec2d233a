"""What commands load: a command that looks at something pays for no library that it has no use for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

HEAVY = frozenset((
    "aiohttp", "alembic", "apprise", "apscheduler", "babel", "email_validator", "fastapi", "httpx", "jinja2", "jsonschema",
    "markdown_it", "openpyxl", "opentelemetry", "prometheus_client", "pydantic", "requests", "rich.console", "ruamel",
    "sqlalchemy", "structlog", "temporalio", "typer", "uvicorn", "runner.core", "runner.engine", "runner.store",
))  # fmt: skip

LOADED: dict[str, set[str]] = {
    "--help": set(),
    "check": {"jinja2", "pydantic", "ruamel", "typer"},
    "runs list": {"pydantic", "rich.console", "ruamel", "sqlalchemy", "typer", "runner.core", "runner.store"},
}
"""What of it a command loads, the second time, in a project without a mistake."""


def loaded(words: str, folder: Path) -> frozenset[str]:
    """The modules of `HEAVY` whose code has run at the end of a command."""
    told = (
        "import sys, types; from runner.cli import run_command; code = run_command(sys.argv[1:]);"
        "print('loaded', *(name for name, one in sys.modules.items() if type(one) is types.ModuleType)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", told, *words.split()], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return HEAVY & set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("words", LOADED)
def test_a_command_loads_what_it_uses(words: str, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "wait.yaml").write_text(
        "flow: wait\ntitle: Wait\nowner: person:me\nsteps: [{ id: a, wait: 1 s }]\n", encoding="utf-8"
    )
    if words == "check":
        loaded(words, tmp_path)
    assert loaded(words, tmp_path) == LOADED[words]


@pytest.mark.parametrize(
    "inner",
    ["runner.language.check.context.Context", "httpx._models.Response", "email_validator.exceptions.EmailSyntaxError"],
)
def test_a_module_of_a_late_package_is_loaded_once(inner: str) -> None:
    """Whoever imports it first loads its package, and with that the module: rules were then entered in one list, and another was read."""
    module, _, name = inner.rpartition(".")
    told = (
        "import importlib, sys; from runner.cli import late; late.install();"
        f"first = importlib.import_module('{module}'); package = sys.modules['{module.rpartition('.')[0]}'];"
        f"print(first.{name} is package.{name}, first.__spec__.origin == first.__file__)"
    )
    run = [sys.executable, "-W", "error", "-c", told]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("True True\n", "")
