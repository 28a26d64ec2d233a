"""Whatever is printed as a command works as it stands: each is typed in a copy of the project where it was printed."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.reading import Reading
from runner.store.anchor import keep_anchor, read_anchor
from tests.cases.ground import Ground, write_project
from tests.cases.situations import ALONE, AT_ONCE, CHARGE, INNER, LAST, LEADS, LOST, POST, WAYS, Way, rows
from tests.cases.test_engine_table import Stage
from tests.cli.terminal import Terminal
from tests.support.http_service import running_http

PRINTED = re.compile(r" (amends [a-z].*)$", re.MULTILINE)
MORE = {
    "unknown in several items": Way(steps=rows(POST, AT_ONCE) + LAST, says={"POST /post": LOST}, follows={}),
    "unknown in a called flow": Way(
        steps=INNER + LAST, others={"inner": POST + LAST.replace("note: x", 'note: "${{ steps.charge.id }}"')},
        says={"POST /post": LOST}, follows={},
    ),
    "unknown in an item that may fail alone": Way(
        steps=rows(CHARGE, ALONE) + LAST, says={"POST /charge": LOST}, follows={}
    ),
}  # fmt: skip
RESTING = {**{name: way for name, way in WAYS.items() if not way.out and name not in ("between", "queued")}, **MORE}


def arrive(name: str, way: Way, ground: Ground) -> str:
    """A run in this situation, at rest, with no engine about it any more."""

    async def go() -> str:
        async with ground.engine() as engine:
            return await Stage(name, ground, engine, way).arrive()

    return asyncio.run(go())


def typed(command: str) -> list[str]:
    """The words of a printed command, the gaps filled in as a person would."""
    return shlex.split(command.replace("=…", "=seen-1").replace("…", "As agreed by phone."))[1:]


def entries(folder: Path) -> int:
    reading = Reading(folder)
    try:
        return sum(view.seq for view in reading.every_run())
    finally:
        reading.close()


@contextmanager
def printed_by(place: Path, name: str, terminal: Callable[[Path], Terminal]) -> Iterator[tuple[str, list[str]]]:
    """A run in a situation, and the commands that are printed of it; the services are there as long as it is held."""
    way = RESTING[name]
    with running_http() as shop:
        write_project(place, origin=shop.origin, smtp_port=9, text=way.shop())
        ground = Ground(folder=place, shop=shop, post=None)  # type: ignore[arg-type]
        ground.write(*way.flows(name.partition(" ")[0]))
        (place / "people.yaml").write_text(LEADS, encoding="utf-8")
        shop.world.put("/plans/pro", {})
        run = arrive(name, way, ground)
        yield run, PRINTED.findall(terminal(place).type("runs", "show", run).out)


@pytest.fixture(scope="module")
def tried() -> set[tuple[str, str]]:
    """What was typed in situations before: a command is tried once for each kind of question that it answers."""
    return set()


@pytest.mark.parametrize("name", RESTING)
def test_every_command_that_is_printed_works(
    name: str, tried: set[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    with printed_by(place, name, lambda folder: Terminal(folder, capsys)) as (run, commands):
        for number, command in enumerate(commands):
            answers = name.partition(" ")[0] if command.partition(run)[2] not in ("", " --compensate") else ""
            if (alike := (answers, command.replace(run, "RUN"))) in tried:
                continue
            tried.add(alike)
            copy = tmp_path / f"copy{number}"
            shutil.copytree(place, copy)
            anchor = read_anchor(copy / ".amends")
            assert anchor is not None
            keep_anchor(copy / ".amends", anchor)  # it lives here now, and need not ask
            before = entries(copy)
            said = Terminal(copy, capsys).type(*typed(command))
            assert said.code in (0, 1, 3, 4), (command, said)
            assert "amends:" not in said.out + said.err, (command, said)
            assert entries(copy) > before or " show " in command, (command, said)


def test_enough_of_them_were_typed(
    request: pytest.FixtureRequest, tried: set[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    if len([one for one in request.session.items if one.path == request.path]) <= len(RESTING):
        pytest.skip("not all of them are run")
    with capsys.disabled():
        print(f"\n{len(tried)} printed commands, each typed")
    assert len(tried) >= 60
