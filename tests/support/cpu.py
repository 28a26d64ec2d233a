"""What a piece of work costs of CPU, without what the process did before it.

A full collection looks at everything that is alive in the process: in a worker that has run thousands of tests it takes
seconds, and falls to whoever happens to be at work. So all that is there already is put aside while one measures.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Spent:
    """Seconds of CPU, of all threads of this process; 0 until the work is done."""

    seconds: float = 0.0


@contextmanager
def spent() -> Iterator[Spent]:
    """Measures the work inside, collections of what it makes itself included."""
    told = Spent()
    gc.freeze()
    began = time.process_time()
    try:
        yield told
    finally:
        told.seconds = time.process_time() - began
        gc.unfreeze()
