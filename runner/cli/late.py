"""Modules that are loaded when something of them is first used, so that a command pays only for what it needs.

`LATE` names them. Such a module is imported as any other is, at the top of a file, but as a module and not name by name
(`from runner.rehearsal import suite`): the first look at an attribute loads it. Whoever imports a name out of it loads
it at once. `tests/cli/test_load.py` holds what commands load.

A thread that needs such a module waits for another one that loads it. They cannot wait for each other in a circle, as
no modules import each other in one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

LATE = frozenset((
    "connectors.transport",
    "email_validator",
    "httpx",
    "rich.console",
    "rich.table",
    "rich.text",
    "runner.cli.fixing",
    "runner.cli.knowing",
    "runner.language.bundle",
    "runner.language.called",
    "runner.language.check",
    "runner.language.load",
    "runner.language.templates",
    "runner.language.validity",
    "runner.outside",
    "runner.reading",
    "runner.rehearsal.suite",
))  # fmt: skip
"""Each costs a start much, and many commands come past it without a need for it."""

_ASKED_BY_IMPORTS = frozenset(("__spec__", "__class__"))


class _Late(ModuleType):
    """A module of which nothing has been used yet."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _ASKED_BY_IMPORTS:
            _load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _ASKED_BY_IMPORTS:
            _load(self)
        ModuleType.__setattr__(self, name, value)


def _load(module: ModuleType) -> None:
    spec = module.__spec__
    if spec is not None and isinstance(spec.loader_state, _Loader):
        spec.loader_state.load(module, spec)


class _Loader:
    """Leaves a module's file for later, and runs it once, whichever thread asks."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._turn = RLock()
        self._is_begun = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader, spec.loader_state, module.__loader__ = self._real, self, self._real
        module.__class__ = _Late

    def load(self, module: ModuleType, spec: ModuleSpec) -> None:
        with self._turn:  # others wait until all of it is there; its own file may look at it meanwhile
            if self._is_begun:
                return
            self._is_begun = True
            try:
                self._real.exec_module(module)
            except BaseException:
                self._is_begun = False
                raise
            module.__class__, spec.loader_state = ModuleType, None


class _There:
    """Gives a module that is there already, as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Finder:
    """Stands before Python's own finders."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if target is None and name.rpartition(".")[0] in LATE and name in sys.modules:
            # Who imports a module of a late package asks the package for its path, which loads the package and, with
            # it, this module: a second one of the same name must not come of it.
            return ModuleSpec(name, _There(sys.modules[name]))  # type: ignore[arg-type]
        spec = PathFinder.find_spec(name, path, target) if name in LATE else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


def install() -> None:
    """From now on the modules of `LATE` are loaded when something of them is used."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
