"""An approver's whole way in a real browser: the mail, the link, the code, the decision; and robots that try it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.ground import CHROMIUM, chromium, has_no_scrolling_sideways, office_on_a_port, opened
from tests.web.approving import BILLS, Office

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this computer (apt-get install chromium)"),
    pytest.mark.timeout(120),
]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as made:
        yield made


def link_in(office: Office, address: str) -> str:
    """The link of the newest mail that asks somebody to decide."""
    texts = [mail.body() for mail in office.mail.mails if address in mail.to]
    return [found[0] for text in texts if (found := re.search(r"http://\S+/review/[\w-]+", text))][-1]


async def open_with_code(office: Office, page: Page, address: str) -> None:
    """From the mail to the page that decides."""
    await page.goto(link_in(office, address))
    await page.get_by_role("button", name="Mail me a code").click()
    await page.get_by_label("The code").fill(office.codes(address)[-1].lower())
    await page.get_by_role("button", name="Show me what is asked").click()


@pytest.mark.parametrize(("width", "script"), [(375, True), (320, False)])
async def test_an_approver_decides_on_a_phone(width: int, script: bool, browser: Browser, tmp_path: Path) -> None:
    async with office_on_a_port(tmp_path / "acme") as office:
        run = await office.ask()
        async with opened(browser, width=width, script=script) as page:
            await page.goto(link_in(office, "tom@acme.test"))
            assert "Ben" not in await page.inner_text("main")
            assert await has_no_scrolling_sideways(page)
            await open_with_code(office, page, "tom@acme.test")
            assert await page.get_by_role("heading", level=1).inner_text() == "Pay Ben and tell them?"
            assert await has_no_scrolling_sideways(page)
            await page.get_by_text("As it looks where mails").click()
            mail = page.frame_locator("iframe").first.locator("b")
            assert await mail.inner_text() == "paid"
            assert (
                await page.frame_locator("iframe").locator("p").evaluate("p => getComputedStyle(p).color")
                == "rgb(0, 128, 0)"
            )
            await page.get_by_label("A comment").fill("fine")
            await page.get_by_role("button", name="Send this mail and add a record to payments").click()
            assert "This was decided: yes." in await page.inner_text("main")
            assert await has_no_scrolling_sideways(page)
        assert (await office.rested(run), office.letters()) == ("succeeded", ["ben@client.test"])


async def test_changes_are_asked_for_on_a_phone_without_script(browser: Browser, tmp_path: Path) -> None:
    """The field is pointed at where nothing was said, and what was typed elsewhere is kept."""
    async with office_on_a_port(tmp_path / "acme", more="may_edit: [letter.text]") as office:
        run = await office.ask()
        async with opened(browser, width=320, script=False) as page:
            await open_with_code(office, page, "tom@acme.test")
            await page.get_by_label("text of letter").fill("Dear Ben,\nsoon.")
            await page.get_by_role("button", name="Ask for changes.").click()
            assert office.gate(run).status == "open"
            assert await page.locator("[aria-invalid=true]").get_attribute("id") == "comment"
            assert await page.locator("#wrong-comment").inner_text() == "Say what should be changed."
            assert await page.get_by_label("text of letter").input_value() == "Dear Ben,\nsoon."
            assert await has_no_scrolling_sideways(page)
            await page.get_by_label("A comment").fill("Another day, please")
            await page.get_by_role("button", name="Ask for changes.").click()
            assert "Tom Ito asked for changes: Another day, please" in await page.inner_text("main")
        assert (await office.rested(run), office.letters()) == ("compensated", [])


async def test_an_edit_is_looked_at_and_a_list_unticked(browser: Browser, tmp_path: Path) -> None:
    async with office_on_a_port(tmp_path / "acme", more="may_edit: [letter.text]") as office:
        flow = office.console.amends.folder / "flows" / "remind.yaml"
        flow.write_text(flow.read_text().replace("may_edit: [letter.text]", "may_leave_out: inputs.bills"))
        run = await office.ask()
        async with opened(browser, width=320, script=False) as page:
            await open_with_code(office, page, "tom@acme.test")
            await page.get_by_label("text of letter").fill("Dear Ben,\nsoon.")
            await page.get_by_role("button", name="Send this mail").click()
            assert "This is how it will be sent with your changes" in await page.inner_text("main")
            assert await page.locator(".letter").inner_text() == "Dear Ben,\nsoon."
            assert office.gate(run).yes == ()
            await page.get_by_role("button", name="Send this mail").click()
            assert "This was decided: yes." in await page.inner_text("main")
            assert await office.rested(run) == "succeeded"
            listed = await office.ask("remind", key="k2", bills=BILLS)
            await open_with_code(office, page, "tom@acme.test")
            assert await has_no_scrolling_sideways(page)
            await page.get_by_label("2", exact=True).uncheck()
            await page.get_by_label("2", exact=True).press("Enter")
            assert office.gate(listed).status == "open", "Enter decides nothing"
            await page.get_by_role("button", name="Send a mail").click()
            assert await office.rested(listed) == "succeeded"
        assert sorted(office.letters()) == ["ben@client.test", "c1@client.test", "c3@client.test"]


async def test_a_mail_fetches_nothing_and_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    reached: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    evil = (
        f"<p id=a>Hi</p><img src='{there}/x.gif'><link rel=stylesheet href='{there}/x.css'>"
        f"<script>fetch('{there}/fetch'); top.document.title='evil'</script><iframe src='{there}/'></iframe>"
        f"<style>p {{background:url({there}/y.gif)}}</style><meta http-equiv=refresh content='0;url={there}/z'>"
        f"<form action='{there}/f'><button id=b>Go</button></form><a id=c target=_top href='{there}/a'>Go</a>"
    )
    async with server, office_on_a_port(tmp_path / "acme") as office:
        flow = office.console.amends.folder / "flows" / "pay.yaml"
        flow.write_text(flow.read_text().replace("<p style='color:green'>You are <b>paid</b>.</p>", evil))
        await office.ask()
        async with opened(browser) as page:
            await open_with_code(office, page, "tom@acme.test")
            await page.get_by_text("As it looks where mails").click()
            frame = page.frame_locator("iframe").first
            await frame.locator("#b").click()
            await frame.locator("#c").click()
            await asyncio.sleep(0.5)
            assert reached == []
            assert "evil" not in await page.title()
            assert "/review/" in page.url


async def test_a_robot_presses_every_button_and_decides_nothing(browser: Browser, tmp_path: Path) -> None:
    async with office_on_a_port(tmp_path / "acme") as office:
        run = await office.ask()
        before = office.gate(run)
        async with opened(browser) as page:
            seen, ahead = set[tuple[str, str]](), [link_in(office, "tom@acme.test")]
            while ahead:
                url = ahead.pop()
                await page.request.head(url)
                await page.goto(url)
                for name in await page.locator("button:visible").all_inner_texts():
                    if (page.url, name) in seen or (url, name) in seen:
                        continue
                    seen.add((url, name))
                    await page.goto(url)
                    for field in await page.locator("input:visible, textarea:visible").all():
                        await field.fill("CCCC-CCCC")
                    button = page.get_by_role("button", name=name, exact=True)
                    if await button.count():
                        await button.first.click()
                        ahead.append(page.url)
                links = await page.eval_on_selector_all("a[href]", "all => all.map(one => one.href.split('#')[0])")
                ahead += [
                    link for link in set(links) if (link, "") not in seen and link.startswith(office.console.origin)
                ]
                seen |= {(link, "") for link in links}
        assert len(seen) >= 5
        assert office.gate(run) == before
        assert office.letters() == []
        async with opened(browser) as page:
            await open_with_code(office, page, "tom@acme.test")
            await page.get_by_role("button", name="Do not do it; undo what was done", exact=True).click()
            assert "This was decided: no." in await page.inner_text("main")
        assert await office.rested(run) == "compensated"


async def test_the_pages_fit_and_can_be_read(browser: Browser, tmp_path: Path) -> None:
    """Every control has a name, headings begin with one h1, and nothing is wider than 320 px."""
    async with office_on_a_port(tmp_path / "acme", more="may_edit: [letter.text]") as office:
        await office.ask(name="Wolfeschlegelsteinhausenbergerdorff" * 4)
        async with opened(browser, width=320) as page:
            await page.goto(link_in(office, "tom@acme.test"))
            await _is_sound(page)
            await open_with_code(office, page, "tom@acme.test")
            await _is_sound(page)
            for details in await page.locator("summary").all():
                await details.click()
            await _is_sound(page)


async def _is_sound(page: Page) -> None:
    assert await has_no_scrolling_sideways(page)
    assert await page.locator("h1").count() == 1
    nameless = """all => all.filter(one => !(one.labels && one.labels.length) && !one.innerText.trim()).length"""
    assert await page.eval_on_selector_all("input:not([type=hidden]), textarea, button:not([hidden])", nameless) == 0
    small = """all => all.filter(one => one.getBoundingClientRect().height < 44).length"""
    assert await page.eval_on_selector_all("button:not([hidden])", small) == 0
