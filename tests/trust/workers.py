"""Workers of a real cluster in processes of their own, at length: `tests/engine/test_workers.py` with more of everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.house import ROOT


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust workers`; further words go to pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/engine/test_workers.py", *argv]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"TESTS_LONG": "1"}, check=False).returncode
