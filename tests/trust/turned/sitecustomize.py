"""Python loads this first in every process that a test starts: what is ours there runs on Temporal, too."""

from __future__ import annotations

import sys

if any("runner" in word or "tests.c" in word or word.endswith("/amends") for word in sys.orig_argv):
    from tests.trust.turning import turn

    turn()
