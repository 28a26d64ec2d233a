"""The room's README: its tables are fresh and its example loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import connectors
from connectors.declarative import kind_from_text
from connectors.model import schema
from tests.connectors.tables import kinds, with_tables

README = Path(connectors.__file__ or "").parent / "README.md"


def test_the_tables_are_fresh() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_tables(text), "run: python -m tests.connectors.test_readme"


def test_a_stale_table_is_seen() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_tables(text.replace("`message_id` text", "`messageid` text", 1)) == text
    with pytest.raises(ValueError, match="the README has no"):
        with_tables("nothing")


def test_the_example_loads() -> None:
    match = re.search(r"```yaml\n(connector: .*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    kind, problems = kind_from_text(match[1], "billing.yaml")
    assert problems == ()
    assert kind is not None


def test_every_action_says_how_it_is_made_good() -> None:
    for kind in kinds():
        for action in kind.actions().values():
            assert action.title, f"{kind.name}.{action.name}"


def test_the_schema_has_words_for_every_key() -> None:
    made = schema()
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for name, model in made["$defs"].items():
        if name == "RetryModel":
            continue
        for key, said in model["properties"].items():
            assert said.get("description"), f"{name}.{key}"
    assert made["additionalProperties"] is False


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
