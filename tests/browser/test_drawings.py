"""Pictures of flows in a real browser: no text leaves its box, wide and narrow, in three languages; and as pixels."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from runner.cli import run_command
from runner.drawing.states import STATES
from runner.drawing.svg import STYLE, drawing, inline
from runner.tongue import LANGUAGES, speaking
from tests.browser.ground import CHROMIUM, chromium, has_no_scrolling_sideways, office_on_a_port, opened
from tests.browser.test_looks import faint, signed_in
from tests.drawing.flows import TITLES, plan, project

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this computer (apt-get install chromium)"),
    pytest.mark.timeout(120),
]
OUTSIDE = """() => {
  const told = [];
  for (const picture of document.querySelectorAll(".drawing")) {
    if (!picture.getClientRects().length) continue;
    const whole = picture.viewBox.baseVal;
    for (const text of picture.querySelectorAll("text")) {
      const part = text.closest("g"), frame = part ? part.querySelector("rect").getBBox() : whole, box = text.getBBox();
      const right = frame.x + frame.width - (part ? 3 : 0), low = frame.y + frame.height;
      if (box.x < frame.x || box.x + box.width > right || box.y + box.height > low + 1) told.push(text.textContent);
    }
    const boxes = [...picture.querySelectorAll("g > rect:first-child")].map(one => one.getBBox());
    boxes.forEach((one, at) => boxes.slice(at + 1).forEach(other => {
      if (one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height - 1 &&
          other.y < one.y + one.height - 1) told.push(`overlap at ${one.y} and ${other.y}`);
    }));
  }
  return told;
}"""
"""Texts that stand out of their box or of the picture, and boxes that lie over each other."""


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as made:
        yield made


async def test_no_text_leaves_its_box(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, width=1000) as page:
        for language in LANGUAGES:
            with speaking(language):
                shown = [plan(tmp_path, name) for name in TITLES]
                far = {row.step: state for each in shown for row, state in zip(each.rows, cycle(STATES), strict=False)}
                pictures = [drawing(each) + inline(each, is_narrow=True, states=far) for each in shown]
            await page.set_content(f"<html lang={language}><style>{STYLE}</style>{''.join(pictures)}")
            assert await page.evaluate(OUTSIDE) == []
        spoilt = drawing(plan(tmp_path, "small")).replace("Waits", "Waits" * 30)
        await page.set_content(f"<style>{STYLE}</style>{spoilt}")
        assert await page.evaluate(OUTSIDE)


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1000, "light")])
async def test_a_flow_s_page(width: int, scheme: Any, browser: Browser, tmp_path: Path) -> None:
    async with office_on_a_port(tmp_path / "acme") as office:
        project(office.console.amends.folder)
        async with opened(browser, width=width, color_scheme=scheme) as page:
            await signed_in(office, page, "person:adam")
            for name in ("small", "large"):
                await page.goto(f"{office.console.public_url}/flows/{name}")
                assert await has_no_scrolling_sideways(page)
                shown = page.locator("svg.drawing:visible")
                assert await shown.count() == 1
                assert (
                    await shown.evaluate("one => one.getBoundingClientRect().width / one.viewBox.baseVal.width") > 0.9
                )
                assert await page.evaluate(OUTSIDE) == []
            await page.locator("svg.drawing:visible a").nth(2).click()
            assert re.search(r"#L\d+$", page.url)
            assert await page.locator("li:target").is_visible(), "the file is opened at the line of the step"
            assert "approve" in await page.locator("li:target + li").inner_text()
            assert await faint(page) == []


def test_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_command(["show", "small", "--png", "small.png"]) == 0
    made = (tmp_path / "small.png").read_bytes()
    size = re.search(r'width="(\d+)" height="(\d+)"', drawing(plan(tmp_path, "small")))
    assert size is not None
    assert [int.from_bytes(made[at : at + 4], "big") for at in (16, 20)] == [2 * int(size[1]), 2 * int(size[2])]
