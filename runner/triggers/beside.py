"""One thing that goes on for each name that is wanted, as long as it is wanted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine

from runner.triggers.active import Active


@contextlib.asynccontextmanager
async def one_for_each(
    active: Active, wanted: Callable[[], set[str]], go: Callable[[str], Coroutine[object, object, None]]
) -> AsyncIterator[None]:
    """Begins and ends what goes on whenever other triggers are on; ends all of it where it is left."""
    going: dict[str, asyncio.Task[None]] = {}

    def look() -> None:
        names = wanted()
        for name in going.keys() - names:
            going.pop(name).cancel()
        for name in names - going.keys():
            going[name] = asyncio.create_task(go(name))

    active.changed.append(look)
    look()
    try:
        yield
    finally:
        active.changed.remove(look)
        for one in going.values():
            one.cancel()
        await asyncio.gather(*going.values(), return_exceptions=True)
