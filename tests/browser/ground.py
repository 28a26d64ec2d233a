"""An office on a real port, and a headless Chromium in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from playwright.async_api import Browser, Page, async_playwright

from runner.web.application import served
from tests.web.approving import Office, office_at

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
LIMIT = 15_000
"""ms that a page may take."""


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def opened(browser: Browser, *, width: int = 375, script: bool = True, **more: Any) -> AsyncIterator[Page]:
    """A page of a browser that has no cookies yet."""
    size: Any = {"width": width, "height": 800}
    context = await browser.new_context(viewport=size, java_script_enabled=script, **more)
    context.set_default_timeout(LIMIT)
    try:
        yield await context.new_page()
    finally:
        await context.close()


@contextlib.asynccontextmanager
async def office_on_a_port(folder: Path, **words: str) -> AsyncIterator[Office]:
    """An office that answers at a real address, which its mails name."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(128)
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with office_at(folder, address, **words) as office:
            office.console.driver.notifier.address = address
            config = uvicorn.Config(
                served(office.console), log_config=None, lifespan="off", timeout_graceful_shutdown=2
            )
            server = uvicorn.Server(config)
            server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
            running = asyncio.create_task(server.serve(sockets=[taken]))
            try:
                yield office
            finally:
                office.console.feed.close()
                server.should_exit = True
                await running


async def has_no_scrolling_sideways(page: Page) -> bool:
    """Whether the page fits its window."""
    await page.wait_for_load_state()
    return bool(await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
