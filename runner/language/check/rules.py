"""The register of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from runner.errors import Problem
from runner.language.check.context import Context

Find = Callable[[Context], Iterator[Problem]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule: the codes of the problems it may give, and how it finds them."""

    codes: tuple[str, ...]
    find: Find


RULES: list[Rule] = []


def rule(*codes: str) -> Callable[[Find], Find]:
    """Registers a rule under the codes it gives."""

    def register(find: Find) -> Find:
        RULES.append(Rule(codes=codes, find=find))
        return find

    return register
