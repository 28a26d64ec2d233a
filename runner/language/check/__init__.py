"""The rules: everything about a flow that can be known before it runs.

Each file holds one family of rules, and each rule registers itself (`context.rule`). A rule is a generator: it takes
the context and yields problems. To begin, read `context` (what a rule sees) and any one family.
"""

from __future__ import annotations

import importlib
import pkgutil

from runner.errors import Problem
from runner.language.check.context import Context
from runner.language.facts import ProjectFacts
from runner.language.flow import Flow
from runner.language.source import Source

for _family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_family.name}")


def check_flow(flow: Flow, source: Source, facts: ProjectFacts) -> tuple[Problem, ...]:
    """Every problem the rules find, in the order of the file.

    `flow` and `source` are from `load_flow`, whose own problems are not repeated here. What is wrong only when a flow
    is live comes as an error for a live flow and as a warning for a draft.
    """
    found = Context(flow, source, facts).problems
    return tuple(sorted(found, key=lambda one: (one.line, one.column, one.code)))
