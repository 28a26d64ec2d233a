"""A flow over a database, a sheet and a folder, run by the command as a user does: it succeeds, or nothing stands."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from connectors.sql.kind import keys_statement
from tests.house import ROOT

CONNECTIONS = """
shop:
  connector: sql
  database: sqlite
  file: shop.db
  keys: amends_keys
  statements:
    add:
      writes: insert into customers (email) values (:email) returning id
      input: { email: text }
      undo: { action: remove, with: { id: "${{ output.row.id }}" } }
    remove: { writes: "delete from customers where id = :id", input: { id: integer }, cannot_undo: It is gone. }
orders: { connector: sheet, file: orders.csv, key: ref }
box: { connector: files, folder: box }
"""
FLOW = """
flow: sign_up
title: Signs a customer up
owner: person:me
mode: live
run_key: ${{ inputs.email }}
inputs: { email: text, note: text }
steps:
  - id: add
    do: shop.add
    with: { email: "${{ inputs.email }}" }
    compensate: cancel
  - id: row
    do: orders.append
    with: { row: { no: "${{ steps.add.row.id }}", name: "=${{ inputs.email }}" } }
    compensate: cancel
  - id: note
    do: box.write
    with: { path: "notes/${{ inputs.note }}.txt", text: "For ${{ inputs.email }}" }
    compensate: cancel
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "box").mkdir()
    (tmp_path / "flows" / "sign_up.yaml").write_text(FLOW)
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    (tmp_path / "people.yaml").write_text("people:\n  me: { name: Me, mail: me@example.com }\n")
    (tmp_path / "orders.csv").write_text("no,name,ref\r\n")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("create table customers (id integer primary key, email text unique)")
        shop.execute(keys_statement("amends_keys"))
        shop.commit()
    return tmp_path


def run(project: Path, email: str) -> int:
    words = ["run", "sign_up", "--input", f"email={email}", "--input", "note=one"]
    command = [sys.executable, "-c", "from runner.cli import main; main()", *words]
    done = subprocess.run(command, cwd=project, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60)
    return done.returncode


def test_it_goes_through_and_the_next_one_is_made_good(project: Path) -> None:
    assert run(project, "aya@example.com") == 0
    assert run(project, "ben@example.com") == 1, "the note is taken, so everything before it is taken back"
    with closing(sqlite3.connect(project / "shop.db")) as shop:
        assert shop.execute("select email from customers").fetchall() == [("aya@example.com",)]
        assert len(shop.execute("select * from amends_keys").fetchall()) == 3
    rows = list(csv.reader((project / "orders.csv").read_text().splitlines()))
    assert [row[:2] for row in rows[1:]] == [["1", "'=aya@example.com"]]
    assert rows[1][2].startswith("am_")
    assert (project / "box/notes/one.txt").read_text() == "For aya@example.com"
