"""What is printed and logged never holds up what the process drives: with real pipes that nobody empties."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from runner.cli.outlet import left_out, never_waiting
from tests.cli.terminal import PROGRAM, amends, environment
from tests.support.ports import free_port
from tests.web.ground import make_project

ROOM = 4_096
QUICK = """\
flow: quick
title: A note is made
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: note
    do: records.create
    with: { collection: notes, name: Ada }
    compensate: cancel
"""


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """(the end to read, the end to write) of a pipe in which there is no room for one more byte."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, ROOM)
    os.set_blocking(into, False)
    for size in (ROOM, 1):
        try:
            while os.write(into, b"." * size):
                continue
        except BlockingIOError:
            continue
    os.set_blocking(into, True)
    try:
        yield out, into
    finally:
        os.close(out)
        os.close(into)


@contextmanager
def begun(folder: Path, *words: str, out: int, err: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A command that writes there; ended in any case."""
    process = subprocess.Popen(
        [*PROGRAM, *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=err
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def emptied(out: int) -> str:
    """What can be read by now."""
    os.set_blocking(out, False)
    found = b""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            found += os.read(out, 1_000_000)
        except BlockingIOError:
            time.sleep(0.02)
    return found.decode().lstrip(".")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("logs", ["plain", "json"])
def test_an_engine_whose_output_nobody_reads_goes_on(logs: str, tmp_path: Path) -> None:
    folder, port = make_project(tmp_path / "shop"), free_port()
    (folder / "flows" / "quick.yaml").write_text(QUICK, encoding="utf-8")
    with (folder / "amends.yaml").open("a", encoding="utf-8") as settings:
        settings.write(f"logs: {logs}\n")
    with full_pipe() as (out, into), begun(folder, "serve", "--port", str(port), out=into, err=into) as serving:
        assert until_it_answers(f"http://127.0.0.1:{port}/health") == {"status": "ok"}
        for _ in range(2):
            assert amends("run", "quick", folder=folder).code == 0
        assert until_it_answers(f"http://127.0.0.1:{port}/health") == {"status": "ok"}
        read = emptied(out)
        assert "Amends drives shop" in read
        assert read.count('"status": "succeeded"' if logs == "json" else "(quick) succeeded") == 2
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0
        assert "Stopped." in emptied(out)


def until_it_answers(address: str) -> object:
    """What it says, once it is there; nothing where it stands still."""
    until = time.monotonic() + 40
    while time.monotonic() < until:
        try:
            return httpx.get(address, timeout=5).json()
        except (httpx.ConnectError, httpx.ReadTimeout):
            time.sleep(0.1)
    return None


def test_an_engine_that_is_told_to_end_waits_for_no_reader(tmp_path: Path) -> None:
    folder, port = make_project(tmp_path / "shop"), free_port()
    with full_pipe() as (_, into), begun(folder, "serve", "--port", str(port), out=into) as serving:
        assert until_it_answers(f"http://127.0.0.1:{port}/health") == {"status": "ok"}
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0


@contextmanager
def printing_to(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        yield


def test_what_is_left_out_is_counted_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with full_pipe() as (out, into), printing_to(into, monkeypatch):
        began = time.monotonic()
        with never_waiting(most=1_000, patience=0.1):
            for number in range(1_000):
                print(f"line {number:04}")
            assert time.monotonic() - began < 5
            lines = emptied(out).splitlines()
            kept = lines[:-1]
            assert kept == [f"line {number:04}" for number in range(len(kept))]
            assert 90 <= len(kept) <= 101
            assert lines[-1] == left_out(1_000 - len(kept))
            print("line 1000")
        assert emptied(out) == "line 1000\n"


def test_a_command_leaves_nothing_out(tmp_path: Path) -> None:
    """Of what a person asked for every line comes, however late it is read; its run is not late."""
    folder = make_project(tmp_path / "shop")
    (folder / "flows" / "quick.yaml").write_text(QUICK, encoding="utf-8")
    with full_pipe() as (out, into), begun(folder, "run", "quick", out=into) as watching:
        until = time.monotonic() + 40
        while time.monotonic() < until and "succeeded" not in amends("runs", "list", folder=folder).out:
            time.sleep(0.2)
        assert watching.poll() is None
        assert [run["status"] for run in json.loads(amends("runs", "list", "--json", folder=folder).out)] == [
            "succeeded"
        ]
        told = emptied(out)
        assert watching.wait(20) == 0
        told += emptied(out)
        assert "of quick" in told
        assert "succeeded" in told
