"""What a run pins: the flow, its templates and what its connectors say of their actions, by one digest.

Editing a file never changes a run under way: a run is decided by its bundle alone. A bundle is a set of named texts
(`flow:signup`, `template:welcome.md`, `connector:billing`, `actions:mail`, `project`), stored once per digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.contract import Action
from runner.language.flow import Flow, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One pinned version of a flow with everything it needs to be decided.

    `actions` maps `connection.action` to what the connector says of it; `templates` file name to text; `texts` is what
    is stored. `zone` and `language` are the project's at the time.
    """

    digest: str
    flow: Flow
    actions: Mapping[str, Action]
    templates: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    language: str = "en"
    project: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    """Every step by its id."""
