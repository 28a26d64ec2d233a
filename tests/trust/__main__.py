"""`python -m tests.trust NAME [WORDS]`: one suite in its long form."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from tests.support.ending import leaves_none
from tests.trust.suites import SUITES


def main(argv: Sequence[str]) -> int:
    """Runs the suite that is named; 0 when all holds, 1 when something is wrong, 2 for a name that is none."""
    if not argv or argv[0] not in SUITES:
        print("python -m tests.trust NAME, one of: " + ", ".join(sorted(SUITES)))
        return 2
    code: int = importlib.import_module(SUITES[argv[0]]).run([*argv[1:]])
    return code


if __name__ == "__main__":
    sys.exit(leaves_none(lambda: main(sys.argv[1:])))
