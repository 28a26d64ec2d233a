"""What a rule of connector files gets: one action with its file; and where rules register themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from connectors.model import ActionModel, ConnectorModel
from runner.errors import Problem
from runner.language.nearest import did_you_mean
from runner.language.source import Path, Source, problem_at


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One action of a file that is being checked."""

    source: Source
    connector: ConnectorModel
    name: str
    action: ActionModel

    @property
    def path(self) -> Path:
        return ("actions", self.name)

    def on_key(self, code: str, path: Path, what: str, hint: str = "") -> Problem:
        """A problem of a key below this action."""
        return self.source.problem(code, (*self.path, *path), what, hint, on="key")

    def on_value(self, code: str, path: Path, what: str, hint: str = "") -> Problem:
        """A problem of what stands behind a key."""
        return self.source.problem(code, (*self.path, *path), what, hint)

    def on_part(self, code: str, path: Path, offset: int, length: int, what: str, hint: str = "") -> Problem:
        """A problem of a part of a text."""
        place = self.source.inside((*self.path, *path), offset, length)
        return problem_at(self.source.file, place, code, what, hint)

    def strangers(
        self, code: str, path: Path, names: Iterable[str], known: Iterable[str], what: str
    ) -> Iterator[Problem]:
        """A problem for each name that is not known; `what` has a place for the name."""
        for name in names:
            if name not in known:
                yield self.on_key(code, (*path, name), what.format(name), did_you_mean(name, known))


Rule = Callable[[Subject], Iterator[Problem]]
RULES: list[Rule] = []


def rule(check: Rule) -> Rule:
    """Registers a rule."""
    RULES.append(check)
    return check
