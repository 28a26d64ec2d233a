"""A flow is read again where one of its files was changed, and only then."""

from __future__ import annotations

import os
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
