"""A flow is read again where one of its files was changed, and only then."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from runner.current import Current
from runner.errors import InvalidFlow
from runner.language.project import Project

FLOW = "flow: one\ntitle: {title}\nowner: person:me\nmode: live\nrun_key: '${{{{ trigger.id }}}}'\nsteps:\n  - {{ id: nap, wait: 1 s }}\n"


def write(file: Path, text: str, *, ago: int = 10) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    for one in (file, file.parent):
        os.utime(one, (time.time() - ago, time.time() - ago))


def test_what_was_read_is_read_again_only_where_it_changed(tmp_path: Path) -> None:
    write(tmp_path / "flows" / "one.yaml", FLOW.format(title="One"))
    write(tmp_path / "amends.yaml", "zone: UTC\n")
    read: list[Project] = []
    current = Current(Project.open(tmp_path), read.append)
    first = current.bundle("one")
    assert current.bundle("one") is first
    assert len(read) == 1
    write(tmp_path / "flows" / "one.yaml", FLOW.format(title="Two"), ago=5)
    assert current.bundle("one").flow.title == "Two"
    assert len(read) == 2
    write(tmp_path / "people.yaml", "people: {}\n", ago=4)
    current.bundle("one")
    assert len(read) == 3, "a file that was added counts as well"
    write(tmp_path / "flows" / "one.yaml", "flow: one\n", ago=3)
    with pytest.raises(InvalidFlow):
        current.bundle("one")


def test_a_file_that_was_just_written_is_read_each_time(tmp_path: Path) -> None:
    """What is written to it in the same moment would leave no trace in its time."""
    write(tmp_path / "flows" / "one.yaml", FLOW.format(title="One"), ago=-3600)
    read: list[Project] = []
    current = Current(Project.open(tmp_path), read.append)
    current.bundle("one")
    current.bundle("one")
    assert len(read) == 2


def renamed(text: str) -> str:
    return f"people:\n  ann: {{ name: {text}, mail: ann@acme.test, role: admin }}\n"


async def test_files_are_looked_at_once_in_each_round_of_the_loop(tmp_path: Path) -> None:
    """Another process writes and then sends: what it sends is heard of in a later round, and finds what it wrote."""
    write(tmp_path / "flows" / "one.yaml", FLOW.format(title="One"))
    write(tmp_path / "people.yaml", renamed("Ann"))
    read: list[Project] = []
    current = Current(Project.open(tmp_path), read.append)
    mine, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=mine)
    with theirs:
        current.glance()
        current.bundle("one")
        known = len(read)
        write(tmp_path / "people.yaml", renamed("Bea"), ago=5)
        write(tmp_path / "flows" / "one.yaml", FLOW.format(title="Two"), ago=5)
        theirs.send(b"now")
        for _ in range(100):
            current.glance()
        assert current.bundle("one").flow.title == "One"
        assert len(read) == known, "the round in which both were looked at has not ended"
        assert await reader.read(3) == b"now"
        writer.close()
    current.glance()
    assert read[-1].people.people["ann"].name == "Bea"
    assert current.bundle("one").flow.title == "Two"


async def test_a_look_is_anew_in_any_round(tmp_path: Path) -> None:
    write(tmp_path / "people.yaml", renamed("Ann"))
    read: list[Project] = []
    current = Current(Project.open(tmp_path), read.append)
    for number, looks in enumerate(((current.look,), (current.glance,), (current.forget, current.glance))):
        write(tmp_path / "people.yaml", renamed(f"Bea{number}"), ago=5 - number)
        for look in looks:
            look()
    assert [project.people.people["ann"].name for project in read] == ["Bea0", "Bea2"]


def test_without_a_loop_every_glance_is_a_look(tmp_path: Path) -> None:
    write(tmp_path / "people.yaml", renamed("Ann"))
    read: list[Project] = []
    current = Current(Project.open(tmp_path), read.append)
    for number in range(3):
        write(tmp_path / "people.yaml", renamed(f"Bea{number}"), ago=5 - number)
        current.glance()
        assert read[-1].people.people["ann"].name == f"Bea{number}"
