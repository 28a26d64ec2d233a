"""A quick dataclass is in every way the frozen one that it was."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from runner.core.events import VOCABULARY
from runner.quick import quick


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    at: int
    step: str = ""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Made(Base):
    words: dict[str, int] = field(default_factory=dict)
    key: str

    @property
    def both(self) -> str:
        return f"{self.step}{self.key}"


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Further(Made):
    more: tuple[str, ...] = ()


def test_it_is_made_compared_and_copied_like_before() -> None:
    one = Made(at=1, key="k")
    assert (one.at, one.step, one.words, one.key, one.both) == (1, "", {}, "k", "k")
    assert type(one) is Made
    assert one == Made(at=1, step="", words={}, key="k")
    assert replace(one, step="s").both == "sk"
    assert Made(at=1, key="k").words is not one.words
    far = Further(at=2, key="k", more=("x",))
    assert (far.more, far.both, type(far), isinstance(far, Made)) == (("x",), "k", Further, True)
    assert repr(far) == "Further(at=2, step='', words={}, key='k', more=('x',))"


@pytest.mark.parametrize("kind", [Made, Further])
def test_it_is_as_frozen_as_before(kind: type[Made]) -> None:
    one = kind(at=1, key="k")
    with pytest.raises(FrozenInstanceError):
        one.key = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del one.key
    assert one.key == "k"


def test_what_is_missing_or_unknown_is_refused() -> None:
    words: dict[str, Any]
    for words in ({"at": 1}, {"at": 1, "key": "k", "other": 2}):
        with pytest.raises(TypeError, match="key|other"):
            Made(**words)


def test_every_fact_has_the_fields_that_it_declares() -> None:
    for kind in VOCABULARY.values():
        given = {each.name: f"value of {each.name}" for each in fields(kind)}
        made = kind(**given)  # type: ignore[arg-type]
        assert type(made) is kind
        assert {name: getattr(made, name) for name in given} == given
        with pytest.raises(FrozenInstanceError):
            made.at = 2  # type: ignore[misc]
