"""`python -m tests.bench NAME [options]` runs one bench; without a name it lists them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def bench_names() -> list[str]:
    """The modules of this folder that can be run, by name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(each.name for each in found if not each.name.startswith(("_", "test_")))


def main(arguments: list[str]) -> int:
    """Runs the bench that the first argument names. Returns its exit code, 2 for an unknown name."""
    names = bench_names()
    if not arguments or arguments[0] not in names:
        if arguments:
            print(f'There is no bench "{arguments[0]}".', file=sys.stderr)
        print(f"python -m tests.bench NAME, one of: {', '.join(names)}", file=sys.stderr)
        return 2
    bench = importlib.import_module(f"tests.bench.{arguments[0]}")
    code: int = bench.main(arguments[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
