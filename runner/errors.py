"""What can go wrong, as values and as exceptions.

A `Problem` is a value: it says what is wrong in a file and where. Code that finds problems returns all of them.
Exceptions are for what stops a command; each carries one sentence that a person can act on.

    AmendsError
    ├── InvalidFlow           a file has problems (all of them are in `.problems`)
    ├── SettingsError         amends.yaml, people.yaml, connections.yaml or .env cannot be used
    ├── SecretMissing         a secret is named and not set
    ├── EvaluationError       an expression has no answer at run time
    ├── RequestError          an action's request cannot be built from its input
    ├── InputsInvalid         a run's inputs do not fit the flow
    ├── NotPossible           an operator action does not fit the run's state
    │   └── AlreadySo         what is asked for is so already: nothing was written again
    ├── NotFound              no such run, flow, hand-off …
    ├── RunKeyConflict        the run key is taken by a run with other inputs
    └── StoreError
        ├── EngineBusy        another process holds the engine's lock and cannot be reached
        ├── SequenceConflict  the log moved on; read again and decide again
        ├── StoreUnwritable   disk full, read-only, or locked
        └── StoreCorrupt      the database is damaged or is not ours
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "live", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong in a file.

    `line` and `column` count from 1 (0 = the file as a whole); `length` is the number of characters to underline.
    Level `live` is an error for a flow in live mode and a warning for a draft.
    """

    code: str
    level: Level
    file: str
    line: int
    column: int
    what: str
    hint: str = ""
    length: int = 1


class AmendsError(Exception):
    """Root of every error that Amends raises. `str(error)` is one sentence for the person who must act."""


class InvalidFlow(AmendsError):
    """A file has problems; `problems` holds all of them, `sources` the text of each file named in them."""

    def __init__(self, problems: tuple[Problem, ...], sources: dict[str, str] | None = None) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first.file}:{first.line}:{first.column} {first.what}{more}")
        self.problems = problems
        self.sources = sources or {}


class SettingsError(AmendsError):
    """A settings file cannot be used."""


class SecretMissing(AmendsError):
    """A secret is named and not set."""


class EvaluationError(AmendsError):
    """An expression has no answer: a missing value, a wrong kind, a bound exceeded."""


class RequestError(AmendsError):
    """An action's request cannot be built from its input; nothing was sent."""


class InputsInvalid(AmendsError):
    """A run's inputs do not fit the flow. `problems` is one sentence per field, by field name."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {what}" for name, what in problems.items()))
        self.problems = problems


class NotPossible(AmendsError):
    """An operator action does not fit the state of the run; the sentence says what can be done instead."""


class AlreadySo(NotPossible):
    """What an operator asks for is so already; nothing was written a second time."""


class NotFound(AmendsError):
    """No such run, flow, hand-off, connection or record."""


class RunKeyConflict(AmendsError):
    """The run key belongs to a run that was started with other inputs."""


class StoreError(AmendsError):
    """The log cannot be read or written."""


class EngineBusy(StoreError):
    """Another process drives this project and could not be asked."""


class SequenceConflict(StoreError):
    """The log moved on since the state was read; read again and decide again."""


class StoreUnwritable(StoreError):
    """The database cannot be written: disk full, read-only, locked."""


class StoreCorrupt(StoreError):
    """The database is damaged or was not made by Amends."""
