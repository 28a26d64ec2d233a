"""What a real browser makes of the pages: text that can be read in light and dark, and a run that is told as it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from runner.people.access import new_access
from runner.web.guard import SESSION
from tests.browser.ground import CHROMIUM, chromium, office_on_a_port, opened
from tests.browser.test_review import link_in, open_with_code
from tests.web.approving import Office

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this computer (apt-get install chromium)"),
    pytest.mark.timeout(120),
]
FAINT = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(one => one / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = one => {
    for (; one; one = one.parentElement) {
      const found = parts(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const told = [];
  for (const one of document.querySelectorAll("body *")) {
    const texts = [...one.childNodes].filter(part => part.nodeType === 3 && part.data.trim());
    const style = getComputedStyle(one);
    if (!(texts.length || one.value) || !one.getClientRects().length || style.visibility === "hidden") continue;
    if (one.closest("svg")) continue;
    const [more, less] = [light(parts(style.color)), light(ground(one))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), is_large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < (is_large ? 3 : 4.5)) told.push(`${one.outerHTML.slice(0, 90)} ${ratio.toFixed(2)}`);
  }
  return told;
}"""
"""Every element whose text has less contrast to what is behind it than WCAG AA asks for."""


async def faint(page: Page) -> list[str]:
    await page.wait_for_load_state()
    for details in await page.locator("summary").all():
        await details.click()
    found: list[str] = await page.evaluate(FAINT)
    return found


async def signed_in(office: Office, page: Page, person: str) -> None:
    secret, row = new_access("session", person, now=office.console.now)
    await office.console.driver.admit(row)
    await page.context.add_cookies([{"name": SESSION, "value": secret, "url": office.console.public_url}])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_has_enough_contrast(scheme: Any, tmp_path: Path) -> None:
    async with office_on_a_port(tmp_path / "acme", more="may_edit: [letter.text]") as office, chromium() as browser:
        run, wrong = await office.ask(), dict[str, list[str]]()
        async with opened(browser, color_scheme=scheme) as page:
            await page.goto(link_in(office, "tom@acme.test"))
            wrong["door"] = await faint(page)
            await open_with_code(office, page, "tom@acme.test")
            await page.get_by_role("button", name="Ask for changes.").click()
            wrong["sheet"] = await faint(page)
            await page.get_by_label("A comment").fill("Less")
            await page.get_by_role("button", name="Ask for changes.").click()
            wrong["over"] = await faint(page)
            assert await office.rested(run) == "compensated"
            await page.goto(f"{office.console.public_url}/sign-in")
            wrong["sign-in"] = await faint(page)
            await office.ask(key="k2")
            await signed_in(office, page, "person:adam")
            for path in ("/", "/runs", f"/runs/{run}", "/approvals", "/handoffs", "/flows/pay", "/people", "/log"):
                await page.goto(f"{office.console.public_url}{path}")
                wrong[path] = await faint(page)
            assert {path: found for path, found in wrong.items() if found} == {}
            hide = "document.querySelector('h1').style.color = getComputedStyle(document.body).backgroundColor"
            await page.evaluate(hide)
            [seen] = await faint(page)
            assert seen.startswith("<h1"), "what is faint is found"


async def test_a_run_is_told_as_it_goes_on(tmp_path: Path) -> None:
    """Without loading the page again."""
    async with office_on_a_port(tmp_path / "acme") as office, chromium() as browser:
        run = await office.ask()
        async with opened(browser) as watcher, opened(browser, script=False) as decider:
            await signed_in(office, watcher, "person:adam")
            await watcher.goto(f"{office.console.public_url}/runs/{run}")
            await watcher.evaluate("window.isTheSame = true")
            assert "says yes" not in await watcher.inner_text("main")
            await open_with_code(office, decider, "tom@acme.test")
            await decider.get_by_role("button", name="Send this mail and add a record to payments").click()
            await watcher.get_by_text("Tom Ito says yes.").wait_for()
            await watcher.get_by_text("Succeeded.").wait_for()
            assert await watcher.evaluate("window.isTheSame")
        assert office.letters() == ["ben@client.test"]
