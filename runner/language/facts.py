"""What the rules know of the project around a flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.contract import Action
from runner.language.connections import Connection
from runner.language.people import People
from runner.language.source import ReadFile, no_file


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectFacts:
    """The project as the check, and the making of a bundle, see it.

    `actions` maps `connection.action` to what the connector says of it. `unreadable` are connections whose line or
    connector cannot be used: nothing is said about their actions. `templates` maps file name to text. `flows` maps
    the id of each flow to its file. `read_file` gives the file of a flow or schema.
    """

    actions: Mapping[str, Action] = field(default_factory=dict)
    people: People = field(default_factory=People)
    connections: Mapping[str, Connection] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    templates: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    has_zone: bool = False
    language: str = "en"
    project: str = ""
    read_file: ReadFile = no_file
    keeps_drills: bool = False
    """Whether there is a place for records of drills, so that one can be missing."""

    def known_connections(self) -> frozenset[str]:
        """The names that may stand before the dot."""
        return frozenset({*self.connections, *(name.partition(".")[0] for name in self.actions)})
