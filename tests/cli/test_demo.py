"""`amends demo`: real servers, four stories, the proof; and what it says to type next works without the servers."""

from __future__ import annotations

import json
import re
import smtplib
import socket
import time
from pathlib import Path

import pytest

from runner.cli import run_command
from runner.demo import STORIES
from tests.cli.terminal import Running, Terminal, amends

LINES = 15


def test_the_demo_tells_four_stories_and_proves_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    said = amends("demo", folder=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert time.monotonic() - began < 30
    stories = re.split(r"^\d\. ", said.out.partition("\nWhat truly happened")[0], flags=re.MULTILINE)[1:]
    assert [story.splitlines()[0] for story in stories] == [story.title for story in STORIES]
    for told, story in zip(stories, STORIES, strict=True):
        assert len(told.strip().splitlines()) <= LINES, told
        assert story.before in told
        assert f" {story.end.replace('_', ' ').replace('needs person', 'needs a person')}" in told
    assert "  Duplicates: 0.\n" in said.out
    assert "  Back office: 4 contacts made, 4 follow-ups made, 2 payments taken," in said.out
    folder = tmp_path / "amends-demo"
    terminal = Terminal(folder, capsys)
    commands = [line.split() for line in said.out.partition("Go on from here")[2].splitlines() if "amends runs" in line]
    next_ones = [words[1:] for words in commands if words[:2] == ["amends", "runs"] and "settle" not in words]
    assert len(next_ones) == 2
    for words in (*next_ones, ["handoffs", "list"], ["log", "verify"], ["doctor"]):
        answer = terminal.type(*words)
        assert (answer.code, answer.err) == (0, "")
    _goes_on_with_the_servers(folder, terminal, said.out)


def _goes_on_with_the_servers(folder: Path, terminal: Terminal, said: str) -> None:
    """The servers again, on the same ports; the mail's question is answered, and the run goes on to its end."""
    settle = next(line.split()[1:] for line in said.splitlines() if "runs settle" in line)
    with Running("demo", ".", "--servers", folder=folder) as serving:
        assert "Ctrl-C ends them." in serving.first
        wrong = terminal.type(*settle, "idd=T-8")
        assert (wrong.code, 'answers no field "idd"' in wrong.err) == (2, True)
        answer = terminal.type(*settle)
        assert (answer.code, "Succeeded." in answer.out) == (0, True)
        told = json.loads(terminal.type("runs", "show", settle[2], "--json").out)
        [mail] = [effect for effect in told["effects"] if effect["path"] == settle[3]]
        assert re.fullmatch(r"<.+@.+>", mail["external_id"]), "the id of the mail, which we made ourselves"
        ended = serving.end()
    assert (ended.code, ended.out) == (0, "The demo's servers have ended.\n")
    statuses = [each["status"] for each in json.loads(terminal.type("runs", "list", "--json").out)]
    assert sorted(statuses) == ["compensated", "succeeded", "succeeded", "succeeded"]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    assert run_command(["demo", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"amends: {tmp_path} is not empty; name a new folder: amends demo {tmp_path}-2\n"
    assert run_command(["demo", str(tmp_path), "--servers"]) == 2
    assert capsys.readouterr().err == f"amends: {tmp_path} holds no demo; make one with `amends demo`\n"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_mail_server_alone_keeps_what_it_gets(tmp_path: Path) -> None:
    with Running("demo", "--mail", "mails", "--port", "0", folder=tmp_path) as serving:
        line = serving.first
        port = int(line.partition("127.0.0.1:")[2].partition(" ")[0])
        with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
            client.sendmail("ops@example.test", ["aya@example.test"], "Subject: Hello\n\nIt is here.\n")
        ended = serving.end()
    assert (ended.code, "It is here." in (tmp_path / "mails" / "0001.eml").read_text(encoding="utf-8")) == (0, True)


def test_a_mail_server_says_where_it_cannot_listen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_command(["demo", "--mail", str(tmp_path / "mails"), "--port", str(port)]) == 2
    assert f"amends: no mail server can listen on port {port}" in capsys.readouterr().err
