"""The rules of the house, each a function from the parsed product code to the places that break it.

`tests/test_floors.py` holds the real tree to them and shows for each one that it can fail.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FLOORS = {
    "runner": 0,
    "runner.errors": 0,
    "runner.contract": 0,
    "runner.quick": 0,
    "runner.cells": 0,
    "runner.chat": 0,
    "runner.stamping": 0,
    "runner.clock": 0,
    "runner.guard": 0,
    "runner.settings": 0,
    "runner.secrets": 0,
    "runner.language": 0,
    "runner.core": 1,
    "runner.store": 2,
    "runner.engine": 3,
    "runner.people": 4,
    "runner.triggers": 4,
    "runner.drill": 4,
    "runner.rehearsal": 4,
    "runner.driver": 5,
    "runner.drilling": 5,
    "runner.engines": 5,
    "runner.far": 5,
    "runner.following": 5,
    "runner.orders": 5,
    "runner.current": 5,
    "runner.outside": 5,
    "runner.reading": 5,
    "runner.tracing": 5,
    "runner.telling": 5,
    "runner.drawing": 5,
    "runner.tongue": 0,
    "runner.locales": 0,
    "runner.recorded": 0,
    "runner.app": 5,
    "runner.serving": 5,
    "runner.backfill": 5,
    "runner.cli": 6,
    "runner.editor": 6,
    "runner.web": 6,
    "runner.demo": 6,
}
"""Each room's floor. A room imports from floors below its own, and on its own floor only where no circle arises."""

HOMES = {
    "aiohttp": ("connectors", "runner.demo"),
    "aiosmtpd": ("runner.demo",),
    "aiosmtplib": ("connectors.email",),
    "alembic": ("runner.store",),
    "apprise": ("runner.chat",),
    "apscheduler": ("runner.triggers.schedule",),
    "argon2": ("runner.people.access",),
    "asyncssh": ("connectors.sftp",),
    "authlib": ("runner.people.provider", "connectors.oauth"),
    "babel": ("runner.locales",),
    "cryptography": ("runner.store.vault", "runner.store.signing", "runner.stamping"),
    "click": ("runner.cli",),
    "email_validator": ("runner.language.types",),
    "fastapi": ("runner.web",),
    "httptools": ("runner.web",),
    "holidays": ("runner.language.holidays",),
    "httpx": ("connectors", "runner.people.provider", "runner.stamping"),
    "icalendar": ("connectors.calendar",),
    "imapclient": ("connectors.imap",),
    "joserfc": ("runner.people.provider",),
    "jinja2": ("runner.language.expressions", "runner.language.templates", "runner.web"),
    "jsonschema": ("runner.language.validity",),
    "lsprotocol": ("runner.editor.server",),
    "markdown_it": ("runner.language.templates",),
    "opentelemetry": ("runner.tracing",),
    "openpyxl": ("runner.backfill.sheets", "connectors.sheet"),
    "markupsafe": ("runner.web", "runner.language", "runner.people"),
    "pydantic": ("runner.language", "runner.settings", "connectors", "runner.triggers", "runner.web"),
    "pydantic_core": ("runner.language", "runner.settings", "connectors"),
    "prometheus_client": ("runner.web",),
    "psycopg": ("connectors.sql", "runner.store.postgres"),
    "pygls": ("runner.editor.server",),
    "pymysql": ("connectors.sql",),
    "python_calamine": ("connectors.sheet",),
    "requests": ("runner.chat",),
    "rfc3161_client": ("runner.stamping",),
    "rich": ("runner.cli",),
    "ruamel": ("runner.language.source", "runner.language.foreign"),
    "sqlalchemy": ("runner.store", "connectors.sql"),
    "sqlite3": ("runner.store", "runner.demo"),
    "starlette": ("runner.web",),
    "structlog": ("runner.cli.logs",),
    "temporalio": ("runner.engine.temporal",),
    "typer": ("runner.cli",),
    "uvicorn": ("runner.web",),
}
"""Which rooms may import which library. A library that stands nowhere here has no home yet."""

LAZY = "runner.cli"
"""The one module that imports inside a function: `--help` stays quick because only the chosen noun is loaded."""

FORBIDDEN = re.compile(r"^(job|task|node|manager|helper|util|base|common)s?$")
WORDS_OF_OTHERS = {
    "task": ("runner.demo", "connectors"),
    "manager": ("runner.language.people", "runner.people"),
    "node": ("runner.language.expressions", "runner.language.check"),
}
"""Where a forbidden word is somebody else's: the tasks of a back office, a person's manager, a node of Jinja's tree."""

WORKPIECES = {
    "runner.engine.bounds.Part",
    "connectors.openapi.operations.Said",
    "connectors.service.Service",
    "runner.engine.driven.Driven",
    "runner.language.connections.Kinds",
    "runner.store.batch.Batch",
    "runner.store.batch.Head",
    "runner.store.callers.Waiting",
    "runner.store.record_locks.Use",
}
"""Dataclasses that change while they are worked on and are seen outside their module. Values are never among them."""

FILE_LINES, FUNCTION_LINES, FUNCTION_LINES_P95, NESTING, MOCKS_PER_100 = 450, 70, 40, 4, 10

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One parsed file. `name` is dotted, a package's `__init__` bears the package's name."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def at(self, place: ast.AST) -> str:
        return f"{self.path}:{getattr(place, 'lineno', 1)}"


Rule = Callable[[list[Module]], list[str]]


def read_modules(root: Path, *folders: str) -> list[Module]:
    """Every Python file below the folders, parsed."""
    found = []
    with no_collector():
        for path in sorted(each for folder in folders for each in (root / folder).rglob("*.py")):
            relative = path.relative_to(root)
            text = path.read_text(encoding="utf-8")
            name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            found.append(Module(name=name, path=relative.as_posix(), text=text, tree=ast.parse(text)))
    return found


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """While nothing but what stays is made, the garbage collector would look through all of it again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@cache
def product() -> list[Module]:
    """The product's own code, parsed once and only where somebody looks at it."""
    return read_modules(ROOT, "runner", "connectors")


def belongs(name: str, room: str) -> bool:
    """Whether a module is the room or lies in it."""
    return name == room or name.startswith(room + ".")


def room_of(name: str) -> str:
    """`runner.core.decide` -> `runner.core`; all of the side house is one room."""
    return "connectors" if belongs(name, "connectors") else ".".join(name.split(".")[:2])


def imports(module: Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """(statement, module named, name taken from it or ""), type-checking imports included."""
    for statement in ast.walk(module.tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield statement, alias.name, ""
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield statement, "." * statement.level + (statement.module or ""), alias.name


def own_imports(module: Module, known: set[str]) -> Iterator[tuple[ast.stmt, str]]:
    """(statement, our own module that is imported), as exactly as can be told."""
    for statement, named, taken in imports(module):
        exact = f"{named}.{taken}"
        if belongs(named, "runner") or belongs(named, "connectors"):
            yield statement, exact if exact in known else named


def functions(module: Module) -> Iterator[Function]:
    for each in ast.walk(module.tree):
        if isinstance(each, Function):
            yield each


# Rules about imports.


def imports_go_downwards(modules: list[Module]) -> list[str]:
    """A room imports from lower floors; connectors see the ground alone, and nobody inside sees connectors."""
    wrong = []
    known = {module.name for module in modules}
    for module in modules:
        room = room_of(module.name)
        if room != "connectors" and room not in FLOORS:
            wrong.append(f"{module.path}: the room {room} has no floor")
            continue
        for statement, target in own_imports(module, known):
            other = room_of(target)
            if other == room:
                continue
            if other == "connectors":
                wrong.append(f"{module.at(statement)}: runner finds connectors by entry point, not by import")
            elif other not in FLOORS:
                wrong.append(f"{module.at(statement)}: {target} has no floor")
            elif FLOORS[other] > (0 if room == "connectors" else FLOORS[room]):
                wrong.append(f"{module.at(statement)}: {room} imports upwards, {target}")
    return wrong


def imports_are_absolute(modules: list[Module]) -> list[str]:
    """No `from . import x`: the reader sees the room."""
    return [
        f"{module.at(statement)}: a relative import"
        for module in modules
        for statement, named, _ in imports(module)
        if named.startswith(".")
    ]


def libraries_stay_home(modules: list[Module]) -> list[str]:
    """Each foreign library is imported where it lives and nowhere else."""
    wrong = []
    for module in modules:
        for statement, named, _ in imports(module):
            library = named.split(".")[0]
            if library in {"runner", "connectors", ""}:
                continue
            homes = HOMES.get(library)
            if homes is None and library not in sys.stdlib_module_names:
                wrong.append(f"{module.at(statement)}: {library} has no home in this house")
            elif homes is not None and not any(belongs(module.name, home) for home in homes):
                wrong.append(f"{module.at(statement)}: {library} lives in {', '.join(homes)}")
    return wrong


def imports_stand_at_the_top(modules: list[Module]) -> list[str]:
    """No import inside a function, with one exception."""
    return sorted(
        {
            f"{module.at(statement)}: an import inside {function.name}"
            for module in modules
            if module.name != LAZY
            for function in functions(module)
            for statement in ast.walk(function)
            if isinstance(statement, ast.Import | ast.ImportFrom)
        }
    )


def circles(edges: dict[str, set[str]]) -> list[str]:
    """One line for each circle that a walk along the edges closes."""
    found: list[str] = []
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            found.append(" -> ".join((*way[way.index(name) :], name)))
            return
        if name in done:
            return
        for other in sorted(edges.get(name, ())):
            walk(other, (*way, name))
        done.add(name)

    for name in sorted(edges):
        walk(name, ())
    return found


def no_module_circle(modules: list[Module]) -> list[str]:
    """No module reaches itself through imports."""
    known = {module.name for module in modules}
    edges = {
        module.name: {target for _, target in own_imports(module, known) if target != module.name} for module in modules
    }
    return circles(edges)


def no_room_circle(modules: list[Module]) -> list[str]:
    """No two rooms above the ground import each other, even where no module does."""
    known = {module.name for module in modules}
    edges: dict[str, set[str]] = {}
    for module in modules:
        room = room_of(module.name)
        others = {room_of(target) for _, target in own_imports(module, known)} - {room}
        edges.setdefault(room, set()).update(other for other in others if FLOORS.get(other))
    return circles(edges)


# Rules about size.


def files_are_short(modules: list[Module]) -> list[str]:
    return [f"{each.path}: {each.lines} lines" for each in modules if each.lines > FILE_LINES]


def code_lines(module: Module) -> int:
    """How many lines bear code: neither blank, nor comment, nor docstring."""
    texts: set[int] = set()
    for each in ast.walk(module.tree):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            texts.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    bearing: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in SILENT:
            bearing.update(range(token.start[0], token.end[0] + 1))
    return len(bearing - texts)


def length_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def functions_fit_a_screen(modules: list[Module]) -> list[str]:
    """No function is long, and hardly one is middling."""
    sizes = [(length_of(each), module.at(each), each.name) for module in modules for each in functions(module)]
    wrong = [f"{place}: {name} has {size} lines" for size, place, name in sizes if size > FUNCTION_LINES]
    p95 = percentile([size for size, _, _ in sizes], 0.95)
    if p95 > FUNCTION_LINES_P95:
        longest = "; ".join(f"{place} {name} {size}" for size, place, name in sorted(sizes, reverse=True)[:12])
        wrong.append(f"95 of 100 functions have up to {p95} lines: {longest}")
    return wrong


def percentile(values: list[int], part: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0


def depth_of(statements: list[ast.stmt]) -> int:
    """How deep blocks stand in blocks. `elif` is no deeper than its `if`; an inner function is counted by itself."""
    deepest = 0
    for statement in statements:
        if isinstance(statement, BLOCKS):
            deepest = max(deepest, 1 + max(depth_of(part) for part in parts_of(statement)))
            if isinstance(statement, ast.If) and is_elif(statement.orelse):
                deepest = max(deepest, depth_of(statement.orelse))
    return deepest


def is_elif(orelse: list[ast.stmt]) -> bool:
    return len(orelse) == 1 and isinstance(orelse[0], ast.If)


def parts_of(block: ast.stmt) -> Iterator[list[ast.stmt]]:
    yield getattr(block, "body", [])
    orelse = getattr(block, "orelse", [])
    if not (isinstance(block, ast.If) and is_elif(orelse)):
        yield orelse
    yield getattr(block, "finalbody", [])
    for inner in (*getattr(block, "handlers", ()), *getattr(block, "cases", ())):
        yield inner.body


def nesting_is_shallow(modules: list[Module]) -> list[str]:
    return [
        f"{module.at(function)}: {function.name} nests {depth_of(function.body)} deep"
        for module in modules
        for function in functions(module)
        if depth_of(function.body) > NESTING
    ]


# Rules about shape and words.


def dataclasses_are_frozen(modules: list[Module]) -> list[str]:
    """Inside, values are frozen and made by keyword. What a module changes as it works is private to it, or listed."""
    wrong = []
    for module in modules:
        for each in ast.walk(module.tree):
            if not isinstance(each, ast.ClassDef):
                continue
            for decorator in each.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(call) not in {"dataclass", "dataclasses.dataclass"}:
                    continue
                given = {word.arg: word.value for word in getattr(decorator, "keywords", ())}
                may_change = each.name.startswith("_") or f"{module.name}.{each.name}" in WORKPIECES
                wanted = ("kw_only",) if may_change else ("frozen", "kw_only")
                lacking = [name for name in wanted if not is_true(given.get(name))]
                if lacking:
                    wrong.append(f"{module.at(each)}: the dataclass lacks {', '.join(lacking)}")
    return wrong


def is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def models_are_strict(modules: list[Module]) -> list[str]:
    """What data enters through refuses unknown keys and does not guess types."""
    wrong = []
    for module in modules:
        for each in ast.walk(module.tree):
            if not isinstance(each, ast.ClassDef) or "BaseModel" not in {ast.unparse(name) for name in each.bases}:
                continue
            config = " ".join(ast.unparse(part) for part in each.body if "model_config" in ast.unparse(part))
            if "extra='forbid'" not in config or "strict=True" not in config:
                wrong.append(f"{module.at(each)}: {each.name} needs ConfigDict(extra='forbid', strict=True)")
    return wrong


def names_are_ours(modules: list[Module]) -> list[str]:
    """No file, class, function, argument or variable bears a word that says nothing."""
    wrong = []
    for module in modules:
        names = [(module.path, module.name.split(".")[-1])]
        names += [(module.at(place), name) for place, name in defined_names(module.tree)]
        for place, name in names:
            words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]
            for word in filter(FORBIDDEN.match, words):
                rooms = WORDS_OF_OTHERS.get(word.removesuffix("s"), ())
                if not any(belongs(module.name, room) for room in rooms):
                    wrong.append(f"{place}: {name} says {word}")
    return wrong


def defined_names(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef | Function):
            yield each, each.name
        elif isinstance(each, ast.arg):
            yield each, each.arg
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each, each.id
        elif isinstance(each, ast.ExceptHandler) and each.name:
            yield each, each.name


def rooms_introduce_themselves(modules: list[Module]) -> list[str]:
    """Every file says what it is, and every folder with code is a package."""
    wrong = [f"{each.path}: no docstring" for each in modules if not ast.get_docstring(each.tree)]
    packages = {each.name for each in modules if each.is_package}
    for each in modules:
        parent = each.name.rpartition(".")[0]
        if parent and parent not in packages and not each.is_package:
            wrong.append(f"{each.path}: {parent} has no __init__.py")
    return wrong


def mocks_are_rare(modules: list[Module]) -> list[str]:
    """At most ten patches per hundred tests. Environment and working folder are no mocks."""
    tests = sum(each.name.startswith("test_") for module in modules for each in functions(module))
    places = [module.at(each) for module in modules for each in ast.walk(module.tree) if is_mock(each)]
    if len(places) * 100 > MOCKS_PER_100 * max(tests, 100):
        return [f"{len(places)} mocks in {tests} tests: {', '.join(places)}"]
    return []


def is_mock(each: ast.AST) -> bool:
    if isinstance(each, ast.ImportFrom):
        return each.module in {"unittest.mock", "mock", "pytest_mock"}
    if isinstance(each, ast.Import):
        return any(alias.name in {"unittest.mock", "mock"} for alias in each.names)
    if not isinstance(each, ast.Call):
        return False
    called = ast.unparse(each.func)
    patches = {"monkeypatch.setattr", "monkeypatch.setitem", "monkeypatch.delattr", "monkeypatch.delitem"}
    return called in patches or called.split(".")[-1] in {"Mock", "MagicMock", "AsyncMock"} or called == "patch"
