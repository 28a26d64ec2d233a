"""The writer's statements are worded once for each kind of database."""

from __future__ import annotations

from pathlib import Path

from runner.store.postgres import PostgresDatabase
from runner.store.sqlite import SqliteFile
from runner.store.statements import Statements, statements


def test_files_of_one_kind_share_their_statements(tmp_path: Path) -> None:
    one, other = SqliteFile(tmp_path / "one"), SqliteFile(tmp_path / "other")
    assert statements(one) is statements(other)
    made, worded = vars(Statements(other)), vars(statements(one))
    texts = {name: text for name, text in made.items() if isinstance(text, str)}
    assert texts == {name: worded[name] for name in texts}
    assert "?" in statements(one).seal


def test_another_kind_has_its_own() -> None:
    company = PostgresDatabase("postgresql://ops@127.0.0.1/ops")
    assert statements(company) is statements(company)
    assert "%s" in statements(company).seal
