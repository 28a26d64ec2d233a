"""The house holds: floors, homes of libraries, sizes, shapes, words. Each rule is shown to find a planted mistake."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import house

RULES: list[house.Rule] = [
    house.imports_go_downwards,
    house.imports_are_absolute,
    house.libraries_stay_home,
    house.imports_stand_at_the_top,
    house.no_module_circle,
    house.no_room_circle,
    house.files_are_short,
    house.functions_fit_a_screen,
    house.nesting_is_shallow,
    house.dataclasses_are_frozen,
    house.models_are_strict,
    house.names_are_ours,
    house.rooms_introduce_themselves,
]

Files = dict[str, str]

DEEP = """
def walk(rows):
    for a in rows:
        if a:
            with a:
                try:
                    while a:
                        a()
                finally:
                    pass
"""
LONG = "def walk():\n" + "    walk()\n" * 71
MIDDLING = "\n\n".join(f"def walk_{number}():\n" + "    walk()\n" * 45 for number in range(4))

PLANTED: list[tuple[house.Rule, str, Files]] = [
    (house.imports_go_downwards, "imports upwards", {"runner/core/decide.py": "from runner.store import log"}),
    (house.imports_go_downwards, "imports upwards", {"runner/language/flow.py": "import runner.core.state"}),
    (house.imports_go_downwards, "imports upwards", {"connectors/http.py": "from runner.core import events"}),
    (house.imports_go_downwards, "by entry point", {"runner/app.py": "import connectors.http"}),
    (house.imports_go_downwards, "by entry point", {"runner/app.py": "from connectors import http"}),
    (house.imports_go_downwards, "has no floor", {"runner/attic/box.py": "x = 1"}),
    (house.imports_are_absolute, "relative", {"runner/core/decide.py": "from . import events"}),
    (house.libraries_stay_home, "lives in", {"runner/engine/perform.py": "import httpx"}),
    (house.libraries_stay_home, "lives in", {"runner/core/state.py": "from pydantic import BaseModel"}),
    (house.libraries_stay_home, "lives in", {"runner/demo/story.py": "from rich.console import Console"}),
    (house.libraries_stay_home, "no home", {"connectors/http.py": "import urllib3"}),
    (house.imports_stand_at_the_top, "inside go", {"runner/cli/run.py": "def go():\n    import json\n"}),
    (
        house.no_module_circle,
        "runner.core.a -> runner.core.b -> runner.core.a",
        {
            "runner/core/__init__.py": "",
            "runner/core/a.py": "from runner.core import b",
            "runner/core/b.py": "from runner.core.a import x",
        },
    ),
    (
        house.no_room_circle,
        "runner.people -> runner.triggers -> runner.people",
        {
            "runner/people/a.py": "import runner.triggers.a",
            "runner/people/b.py": "x = 1",
            "runner/triggers/a.py": "x = 1",
            "runner/triggers/b.py": "from runner.people.b import x",
        },
    ),
    (house.files_are_short, "451 lines", {"runner/core/decide.py": "x = 1\n" * 451}),
    (house.functions_fit_a_screen, "walk has 72 lines", {"runner/core/decide.py": LONG}),
    (house.functions_fit_a_screen, "95 of 100", {"runner/core/decide.py": MIDDLING}),
    (house.nesting_is_shallow, "nests 5 deep", {"runner/core/decide.py": DEEP}),
    (house.dataclasses_are_frozen, "lacks frozen", {"runner/core/state.py": "@dataclass\nclass A:\n    x: int\n"}),
    (
        house.dataclasses_are_frozen,
        "lacks kw_only",
        {"runner/core/state.py": "@dataclass(frozen=True, slots=True)\nclass A:\n    x: int\n"},
    ),
    (
        house.dataclasses_are_frozen,
        "lacks kw_only",
        {"runner/store/batch.py": "@dataclass\nclass Batch:\n    x: int\n"},
    ),
    (house.models_are_strict, "extra='forbid'", {"runner/settings.py": "class A(BaseModel):\n    x: int\n"}),
    (house.names_are_ours, "says helper", {"runner/core/helpers.py": "x = 1"}),
    (house.names_are_ours, "says manager", {"runner/core/state.py": "class RunManager: ..."}),
    (house.names_are_ours, "says job", {"runner/core/state.py": "def start_job(): ..."}),
    (house.names_are_ours, "says task", {"runner/engine/embedded.py": "def start(task): ..."}),
    (house.names_are_ours, "says manager", {"runner/store/work.py": "manager = 1"}),
    (house.names_are_ours, "says node", {"runner/core/state.py": "for node in []: ..."}),
    (house.rooms_introduce_themselves, "no docstring", {"runner/core/__init__.py": "x = 1"}),
    (house.rooms_introduce_themselves, "no __init__", {"runner/core/state.py": '"""State."""'}),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_holds(rule: house.Rule) -> None:
    wrong = rule(house.product())
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(("rule", "said", "files"), PLANTED, ids=lambda each: getattr(each, "__name__", None))
def test_a_planted_mistake_is_found(rule: house.Rule, said: str, files: Files, tmp_path: Path) -> None:
    wrong = rule(plant(tmp_path, files))
    assert any(said in line for line in wrong), wrong


def test_every_rule_has_a_planted_mistake() -> None:
    assert {rule.__name__ for rule in RULES} == {rule.__name__ for rule, _, _ in PLANTED}


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    modules = plant(
        tmp_path,
        {
            "runner/cli/__init__.py": "def load():\n    import json\n",
            "runner/demo/books.py": "import sqlite3\n\ndef close_task(task): ...\n",
            "runner/core/decide.py": "from runner.errors import Problem\nimport base64\n\nbase64_text = ''\n",
            "connectors/http.py": "import httpx\nfrom runner.contract import Action\n",
            "runner/errors.py": "x = 1\n",
            "runner/store/log.py": "def read(rows):\n    if rows: ...\n"
            + "".join(f"    elif rows == {number}: ...\n" for number in range(9)),
        },
    )
    for rule in RULES:
        if rule is not house.rooms_introduce_themselves:
            assert rule(modules) == []


def test_the_lists_name_what_is_there() -> None:
    names = {module.name for module in house.product()}
    classes = {
        f"{module.name}.{each.name}"
        for module in house.product()
        for each in ast.walk(module.tree)
        if isinstance(each, ast.ClassDef)
    }
    assert classes >= house.WORKPIECES
    assert house.LAZY in names or "runner.cli" not in {house.room_of(name) for name in names}


def test_tests_fake_little() -> None:
    assert not house.mocks_are_rare(house.read_modules(house.ROOT, "tests"))


def test_too_many_mocks_are_found(tmp_path: Path) -> None:
    body = (
        "def test_it(monkeypatch):\n" + '    monkeypatch.setattr("a", 1)\n' * 10 + '    monkeypatch.setenv("A", "1")\n'
    )
    assert house.mocks_are_rare(plant(tmp_path, {"runner/test_it.py": body})) == []
    wrong = house.mocks_are_rare(plant(tmp_path, {"runner/test_more.py": "from unittest.mock import Mock\n"}))
    assert "11 mocks in 1 tests" in wrong[0]


def test_the_size_of_the_product_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    product = house.product()
    lines = sum(module.lines for module in product)
    code = sum(house.code_lines(module) for module in product)
    longest = sorted((house.length_of(each) for module in product for each in house.functions(module)), reverse=True)
    with capsys.disabled():
        print(
            f"\nproduct code: {len(product)} files, {lines} lines, {code} of them code; {len(longest)} functions,"
            f" the longest {longest[0]}, p95 {house.percentile(longest, 0.95)} lines"
        )
    assert 0 < code < lines


def test_lines_of_code_are_counted(tmp_path: Path) -> None:
    documented = '"""What it is,\n\nat length."""\n\n# why\nx = (\n    1,  # one\n)\n\n\n'
    text = documented + 'def f():\n    """Says."""\n    return """a\nb"""\n'
    [module] = plant(tmp_path, {"runner/x.py": text})
    assert house.code_lines(module) == 6


def plant(folder: Path, files: Files) -> list[house.Module]:
    """A small product tree with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return house.read_modules(folder, "runner", "connectors")
