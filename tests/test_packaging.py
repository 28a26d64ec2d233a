"""The wheel works where nothing else is: an empty folder, an environment of its own."""

from __future__ import annotations

import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from time import perf_counter

import pytest
from packaging.markers import Marker

import runner
from tests.house import ROOT, imports, product

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
NOT_YET = not (ROOT / "runner/cli/__init__.py").exists()
HELP_SECONDS = 0.3
COMES_ALONG = {"pydantic-core"}
"""One version of it belongs to each version of pydantic, which asks for exactly that."""
NEVER_IMPORTED = {"python-multipart", "tzdata"}
"""Zone names for machines that have none: read by the standard library."""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """What the command printed. Fails with everything it said when it did not end with 0."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=inherited | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    run(sys.executable, *build, folder=folder)
    [made] = folder.glob("amends-*.whl")
    return made


@pytest.fixture(scope="module")
def amends(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that has the wheel, and this environment's libraries to lean on."""
    if NOT_YET:
        pytest.skip("the command line is not there yet")
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    target = run(folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    site = Path(target.strip())
    install = ("-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-deps", wheel)
    run(sys.executable, *install, folder=folder)
    # A plain path entry: libraries are found there, a checkout that is linked into this environment is not.
    (site / "libraries.pth").write_text(str(Path(pytest.__file__).parent.parent), encoding="utf-8")
    return folder / "bin/amends"


def test_the_wheel_holds_the_product_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} <= {
        "runner",
        "connectors",
        f"amends-{runner.__version__}.dist-info",
    }
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]
    for folder in ("runner", "connectors"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names
    for schema in (ROOT / "schemas").glob("*.json"):
        assert f"runner/schemas/{schema.name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_help_from_an_empty_folder(amends: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took, said = [], ""
    for _ in range(5):
        began = perf_counter()
        said = run(amends, "--help", folder=tmp_path)
        took.append(perf_counter() - began)
    with capsys.disabled():
        print(f"\namends --help: {statistics.median(took):.2f} s, best {min(took):.2f} s (to hold: {HELP_SECONDS} s)")
    assert "demo" in said
    assert "check" in said
    assert not list(tmp_path.iterdir()), "help leaves nothing behind"
    assert min(took) < HELP_SECONDS


def test_the_connectors_are_found_by_entry_point(amends: Path, tmp_path: Path) -> None:
    ask = (
        "from importlib.metadata import entry_points\n"
        "for each in sorted(entry_points(group='amends.connectors')): print(each.name, each.load() is not None)\n"
        "import runner; print(runner.__file__)"
    )
    said = run(amends.parent / "python", "-c", ask, folder=tmp_path).splitlines()
    assert said[:-1] == [f"{name} True" for name in sorted(PROJECT["entry-points"]["amends.connectors"])]
    assert Path(said[-1]).is_relative_to(amends.parent.parent)


def test_every_dependency_is_constrained_to_one_version() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: normal(line.split("==")[0]))
    pinned = {normal(line.split("==")[0]): line for line in lines}
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    wanted = [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["test"],
        *SETTINGS["build-system"]["requires"],
    ]
    seen: set[str] = set()
    while wanted:
        asked = wanted.pop()
        name = normal(re.split(r"[^A-Za-z0-9._-]", asked, maxsplit=1)[0])
        if name in seen or not applies(asked):
            continue
        seen.add(name)
        assert name in pinned, f"{asked} has no line in constraints.txt"
        assert pinned[name].split("==")[1] == importlib.metadata.version(name)
        wanted += importlib.metadata.requires(name) or []


def test_the_dependencies_are_what_is_imported() -> None:
    imported = {named.split(".")[0] for module in product() for _, named, _ in imports(module)}
    offers = importlib.metadata.packages_distributions()
    foreign = imported - set(sys.stdlib_module_names) - {"runner", "connectors", ""}
    assert not [name for name in foreign if name not in offers]
    extras = [one for name, wanted in PROJECT["optional-dependencies"].items() if name != "test" for one in wanted]
    declared = {
        normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in (*PROJECT["dependencies"], *extras)
    }
    offered = [{normal(one) for one in offers[name]} for name in foreign]  # by several, where the name is a namespace
    used = set().union(*(of & declared or of for of in offered)) - COMES_ALONG
    assert used - declared == set(), "imported, and not in pyproject.toml"
    assert declared - used <= NEVER_IMPORTED, "in pyproject.toml, and not imported"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def applies(requirement: str) -> bool:
    """Whether a requirement counts here: extras and other platforms do not."""
    marker = requirement.partition(";")[2]
    return not marker or Marker(marker).evaluate({"extra": ""})
