"""Forms in a real browser on a phone: filled in, put right, sent; without a script; inside another page."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
from playwright.async_api import Browser, FilePayload, Page

from runner.web.application import served
from runner.web.console import Console
from tests.browser.ground import CHROMIUM, chromium, has_no_scrolling_sideways, opened
from tests.web.filling import ASK, FLOWS, PDF, began, office, runs_of

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this computer (apt-get install chromium)"),
    pytest.mark.timeout(120),
]
FILE = FilePayload(name=PDF[0], mimeType=PDF[2], buffer=PDF[1])


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as made:
        yield made


@contextlib.asynccontextmanager
async def site(folder: Path, flows: dict[str, str] = FLOWS) -> AsyncIterator[Console]:
    """The office at a real address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(128)
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with office(folder, flows, public_url=address) as console:
            config = uvicorn.Config(served(console), log_config=None, lifespan="off", timeout_graceful_shutdown=2)
            server = uvicorn.Server(config)
            server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
            running = asyncio.create_task(server.serve(sockets=[taken]))
            try:
                yield console
            finally:
                console.feed.close()
                server.should_exit = True
                await running


@pytest.mark.parametrize(("width", "script"), [(375, True), (320, False)])
async def test_a_form_is_filled_in_on_a_phone_in_japanese(
    width: int, script: bool, browser: Browser, tmp_path: Path
) -> None:
    async with site(tmp_path / "acme") as console, opened(browser, width=width, script=script, locale="ja-JP") as page:
        await page.goto(f"{console.origin}/forms/expense")
        await is_sound(page)
        await page.get_by_label("お名前").fill("佐藤 綾")
        await page.get_by_label("メール").fill("aya@")
        await page.get_by_label("金額").fill("１２，０００円")
        await page.get_by_label("日付").fill("2026-09-01")
        await page.get_by_label("はい").check()
        await page.get_by_label("プラン").select_option("上級")
        await page.get_by_label("備考").fill("一行目\n二行目")
        await page.get_by_label("Sku").fill("りんご")
        await page.get_by_label("Qty").fill("２")
        await page.get_by_label("領収書").set_input_files(FILE)
        await page.get_by_role("button", name="行を追加").click()
        await is_sound(page)
        assert page.url.endswith("#in-lines-1"), "where the new row is"
        await page.get_by_label("Sku").nth(1).fill("みかん")
        await page.get_by_role("button", name="送信").click()
        said = await page.get_by_role("alert").inner_text()
        assert "2 か所を直してください" in said
        assert "明細 2 Qty: 入力してください。" in said
        await is_sound(page)
        await page.get_by_role("link", name="メール").click()
        assert await page.locator(":target").get_attribute("id") == "in-mail"
        assert await page.get_by_label("お名前").input_value() == "佐藤 綾"
        assert await page.get_by_label("日付").input_value() == "2026-09-01"
        assert "選択済み：領収書.pdf" in await page.inner_text("main")
        await page.get_by_label("メール").fill("ａｙａ＠ａｃｍｅ．ｔｅｓｔ")
        await page.get_by_role("button", name="2 行目を取り除く").click()
        await page.get_by_role("button", name="送信").click()
        assert await page.get_by_role("heading", level=1).inner_text() == "ありがとうございました"
        await is_sound(page)
        event = began(console)
        assert event.run in await page.inner_text("main")
        assert event.inputs["mail"] == "aya@acme.test"
        assert event.inputs["lines"] == [{"sku": "りんご", "qty": 2}]
        assert event.inputs["note"] == "一行目\n二行目"
        assert console.store.artifacts.get(str(event.inputs["receipt"]["sha256"])) == PDF[1]
        await page.reload()
        assert event.run in await page.inner_text("main")
        assert len(runs_of(console)) == 1


@pytest.mark.parametrize("script", [True, False])
async def test_sent_twice_or_from_the_page_before_it_is_one_run(script: bool, browser: Browser, tmp_path: Path) -> None:
    async with site(tmp_path / "acme") as console, opened(browser, script=script) as page:
        await page.goto(f"{console.origin}/forms/ask")
        await page.get_by_label("Name").fill("Ben")
        await page.get_by_role("button", name="Send").dblclick()
        await page.get_by_role("heading", name="Thank you").wait_for()
        await page.go_back()
        await page.get_by_label("Name").fill("Ben")
        await page.get_by_label("Name").press("Enter")
        await page.get_by_role("heading", name="Thank you").wait_for()
        assert began(console).run in await page.inner_text("main")
        await page.get_by_role("link", name="Fill in another one").click()
        await page.get_by_label("Name").fill("Ben")
        await page.get_by_role("button", name="Send").click()
        await page.get_by_role("heading", name="Thank you").wait_for()
        assert len(runs_of(console)) == 2


async def test_a_form_stands_inside_the_pages_of_its_own_site_only(browser: Browser, tmp_path: Path) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<!doctype html><iframe src='%s' width=320 height=600></iframe>" % wanted[0].encode()
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    wanted = [""]
    server = await asyncio.start_server(say, "127.0.0.1", 0)
    there = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    shown = ASK.replace("{ form: ask }", f"{{ form: ask, embed: ['{there}'] }}")
    async with server, site(tmp_path / "acme", {**FLOWS, "ask": shown}) as console, opened(browser) as page:
        wanted[0] = f"{console.origin}/forms/expense"
        await page.goto(there)
        assert await page.frame_locator("iframe").get_by_label("お名前").count() == 0
        wanted[0] = f"{console.origin}/forms/ask"
        await page.goto(there)
        frame = page.frame_locator("iframe")
        await frame.get_by_label("Name").fill("Ben")
        await frame.get_by_role("button", name="Send").click()
        await frame.get_by_text("Thank you").first.wait_for()
        assert began(console).inputs["name"] == "Ben"


async def is_sound(page: Page) -> None:
    """Nothing is wider than the phone, one h1, every control has a name, every button can be hit, the trap is away."""
    assert await has_no_scrolling_sideways(page)
    assert await page.locator("h1").count() == 1
    nameless = "all => all.filter(one => !(one.labels && one.labels.length) && !one.innerText.trim()).length"
    fields = "input:not([type=hidden]), textarea, select, button:not([hidden])"
    assert await page.eval_on_selector_all(fields, nameless) == 0
    small = "all => all.filter(one => one.getBoundingClientRect().height < 44).length"
    assert await page.eval_on_selector_all("main button:not([hidden]), .check", small) == 0
    boxes = "all => all.every(one => one.getBoundingClientRect().right <= 0)"
    assert await page.eval_on_selector_all(".trap", boxes)
