"""Fuzz in its short form: each reader a few times, the strings that try to leave the expressions, the bombs."""

from __future__ import annotations

import pytest

from tests.language.test_expressions_closed import HOSTILE
from tests.trust import fuzz
from tests.trust.bombs import BOMBS


@pytest.mark.parametrize("name", list(fuzz.READERS))
def test_what_comes_from_outside_is_read_or_refused(name: str) -> None:
    assert fuzz.fuzzed(name, 40) == []


def test_no_string_leaves_the_expressions() -> None:
    assert len(HOSTILE) >= 150
    assert fuzz.escapes() == []


@pytest.mark.parametrize("name", list(BOMBS))
def test_each_bomb_is_refused_inside_its_limit(name: str) -> None:
    assert fuzz.tried(name, BOMBS[name], fuzz.REFUSED) == ""


def test_what_is_wrong_is_seen() -> None:
    assert all(fuzz.see_mistakes().values())
