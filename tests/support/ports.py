"""A port for a server that is told its number.

The system lends the numbers of its own range to whatever connects out, so a number of that range that was free a moment ago
may be in use when the server begins. These lie below it, and each process asks at another place.
"""

from __future__ import annotations

import os
import socket
from itertools import count

FIRST, MANY = 15_000, 17_000
"""Up to 32,000; Linux lends from 32,768."""
_NEXT = count(os.getpid() * 61)


def free_port() -> int:
    """A port of this computer's loopback that nobody listens on and that the system lends to nobody."""
    for _ in range(MANY):
        port = FIRST + next(_NEXT) % MANY
        with socket.socket() as door:
            try:
                door.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {FIRST} to {FIRST + MANY - 1} is free")
