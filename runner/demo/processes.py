"""How a server process of the demo says where it listens, and when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys


def announce(line: str) -> None:
    """Prints the line that tells the parent where this process listens."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def wait_for_end(until_stdin_closes: bool) -> None:
    """Returns on SIGTERM or SIGINT, and where asked when standard input ends (the parent is gone)."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), lambda: ended.set() if not os.read(sys.stdin.fileno(), 1024) else None)
    await ended.wait()
