"""The shim of `shim.c`: built where there is a compiler, loaded before a process begins, armed inside it."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
BEFORE, AMIDST, AFTER = 0, 1, 2
WRITES, SYNCS, NAMING, SENDS = 1, 2, 4, 8
ALL = WRITES | SYNCS | NAMING | SENDS


@lru_cache(maxsize=1)
def built() -> str:
    """The path of the shim, compiled once for its text; empty where it cannot be built here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return ""
    text = SOURCE.read_bytes()
    place = Path(tempfile.gettempdir()) / f"amends-shim-{os.getuid()}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not place.exists():
        fresh = place.with_suffix(f".{os.getpid()}")
        words = [compiler, "-O2", "-fPIC", "-shared", "-o", str(fresh), str(SOURCE), "-lpthread"]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            return ""
        fresh.replace(place)
    return str(place)


def why_not() -> str:
    """Why nothing can be hurt here; empty where it can."""
    return "" if built() else "there is no C compiler (cc) that builds tests/trust/shim.c"


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that has the shim."""
    return os.environ | {"LD_PRELOAD": built()} | more


# -- in the process that has it --


def _loaded() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.shim_passed.restype = ctypes.c_long
    library.shim_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    return library


def arm(folder: Path, *, at: int = 0, how: int = BEFORE, which: int = ALL) -> None:
    """Watches this folder; the process dies at the call `at` of these kinds, counted from now (0: it lives)."""
    _loaded().shim_arm(os.fsencode(folder), at, how, which)


def passed() -> int:
    """How many calls were passed since it was armed."""
    return int(_loaded().shim_passed())


def keep_journal(path: Path) -> None:
    """Writes every watched call into this file from now on; see `disk`."""
    _loaded().shim_journal(os.fsencode(path))


def note(text: str) -> None:
    """A word of our own between the calls of the journal."""
    _loaded().shim_note(text.encode())


class _Fields(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("refuse", "which", "slow_ms", "refused", "after", "most")]


def refuse_here(error: int, which: int, *, after: int = 0, most: int = 0) -> None:
    """As `Control.refuse`, in this process."""
    library = _loaded()
    library.shim_control.restype = ctypes.POINTER(_Fields)
    fields = library.shim_control().contents
    fields.refuse = 0
    fields.which, fields.refused, fields.after, fields.most = which, 0, after, most
    fields.refuse = error


# -- from outside --


class Control:
    """A file through which a running process is hurt from outside; give `environment` to that process."""

    _SHAPE = struct.Struct("6i")

    def __init__(self, folder: Path, watched: Path) -> None:
        path = folder / "shim-control"
        path.write_bytes(bytes(mmap.PAGESIZE))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self.environment = environment(AMENDS_SHIM_CONTROL=str(path), AMENDS_SHIM_FOLDER=str(watched))

    def refuse(self, error: int, which: int, *, after: int = 0, most: int = 0) -> None:
        """From now on these calls fail with `error`: past the first `after`, and `most` of them (0: all)."""
        self._map[: self._SHAPE.size] = self._SHAPE.pack(error, which, 0, 0, after, most)

    def slow(self, ms: int) -> None:
        """From now on every sync takes this long."""
        self._map[: self._SHAPE.size] = self._SHAPE.pack(0, 0, ms, 0, 0, 0)

    def mend(self) -> int:
        """All is well again; how many calls were refused."""
        refused: int = self._SHAPE.unpack(self._map[: self._SHAPE.size])[3]
        self._map[: self._SHAPE.size] = bytes(self._SHAPE.size)
        return refused

    def close(self) -> None:
        """Lets go of the file."""
        self._map.close()
        self._file.close()
