"""Every page in every language: nothing is left in English, nothing is wider than a small phone."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from contextvars import Context
from html import escape, unescape
from pathlib import Path

import pytest
import pytest_asyncio

from runner.people.access import ROLES
from runner.store.facts import RunFilter
from runner.tongue import LANGUAGES
from runner.web.render import STATIC
from tests.web.tour import ALL, Tour, said, toured

NARROW = 320
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
Pages = Mapping[str, Mapping[str, str]]
OF_OTHERS = """\
shop amends people invite NAME httpx aya customer JPY tmp
do read wait choose parallel each approve hand off manual
collection notes payments number name nobody text content reason record amount size inputs bills
Tom Ito Anna Author Olga Ops Vera View Paul Plain ops cfo waiting undone tom anna olga vera paul mia
"""
"""Words that are the same in every language: commands, keys of the flow language, fields, names, run keys."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tour(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tour]:
    async with toured(tmp_path_factory.mktemp("tour") / "shop") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(tour: Tour) -> Pages:
    return {language: await tour.pages(language) for language in LANGUAGES}


@pytest.fixture(scope="module")
def known(tour: Tour) -> set[str]:
    """Words that the author wrote, or that name something: they are the same in every language."""
    runs = (f"{run.run} {run.run_key}" for run in tour.console.store.runs(RunFilter(limit=99)))
    ids = (
        word for text in ALL.values() for word in re.findall(r"\b(?:flow|id): (\w+)|^      (\w+):$", text, re.MULTILINE)
    )
    told = " ".join(
        [OF_OTHERS, *ROLES, *runs, *(word for found in ids for word in found), str(tour.console.amends.folder)]
    )
    return set(re.findall(r"[A-Za-z]+", told))


def leftovers(html: str, known: Iterable[str]) -> list[str]:
    """English words of a page that are nobody's name. What the check says is English, and is marked so."""
    html = re.sub(r'<ul class="plain" lang="en">.*?</ul>', " ", html, flags=re.DOTALL)
    text = re.sub(r"[0-9a-f]{8,}|[\w.:/-]+/[\w./-]+|\b\w+[.:_]\w+\b|-\w{8}\b", " ", said(html))
    return [word for word in re.findall(r"(?<![\w-])[A-Za-z]{3,}(?![\w-])", text) if word not in known]


@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "en"])
def test_no_page_is_left_in_english(pages: Pages, known: set[str], language: str) -> None:
    assert len(pages[language]) > 60
    told = {path: html for path, html in pages[language].items() if not path.startswith("/log/")}  # the log is English
    wrong = {path: found for path, html in told.items() if (found := leftovers(html, known))}
    assert wrong == {}


def test_english_that_is_left_is_found(pages: Pages, known: set[str]) -> None:
    planted = pages["ja"]["/runs"].replace("<h1>", '<h1 aria-label="Planted words">')
    assert leftovers(planted, known) == ["Planted", "words"]
    assert len(leftovers(pages["en"]["/runs"], known)) > 10


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_says_its_language(pages: Pages, language: str) -> None:
    assert {re.findall(r'<html lang="([^"]+)"', html)[0] for html in pages[language].values()} == {language}


@pytest.mark.asyncio(loop_scope="module")
async def test_the_person_s_language_comes_before_the_browser_s(tour: Tour) -> None:
    file = tour.console.amends.folder / "people.yaml"
    text = file.read_text(encoding="utf-8")
    try:
        file.write_text(text.replace("mail: tom@acme.test,", "mail: tom@acme.test, language: zh-TW,"), encoding="utf-8")
        for path, heading in (("/runs", "<h1>執行</h1>"), ("/nothing", "<h1>無法完成</h1>")):
            asking = tour.browser.get(path, **{"accept-language": "ja"})
            answer = await asyncio.create_task(asking, context=Context())  # as a server does: nothing was spoken before
            assert '<html lang="zh-TW">' in answer.text
            assert heading in answer.text
        answer = await asyncio.create_task(
            tour.browser.get("/api/v1/runs", **{"accept-language": "ja"}), context=Context()
        )
        assert "Send a token" in answer.text, "programs are spoken to in English"
    finally:
        file.write_text(text, encoding="utf-8")


MEASURE = """
const told = [];
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, wide = page.documentElement.scrollWidth;
  const out = [...page.body.querySelectorAll("*")].filter(one => one.getBoundingClientRect().right > WIDTH + 1
    && !one.closest(".scroll, pre, .skip")).map(one => one.outerHTML.slice(0, 80));
  if (wide > WIDTH) told.push([frame.title, wide, out.slice(0, 3)]);
}
document.body.innerHTML = ""; document.body.append("told " + JSON.stringify(told) + " told");
"""


def too_wide(pages: Mapping[str, str], folder: Path) -> list[list[object]]:
    """(page, its width, what sticks out) for each page that is wider than a small phone."""
    style = f"<style>{STATIC['style.css'].decode()}</style>"
    frames = [
        f'<iframe title="{escape(path)}" width="{NARROW}" height="900" style="border:0" '
        f'srcdoc="{escape(re.sub("<(link|script)[^>]*>(</script>)?", "", html).replace("<title>", f"{style}<title>"))}"></iframe>'
        for path, html in pages.items()
    ]
    file = folder / "all.html"
    script = f"<script>addEventListener('load', () => {{ {MEASURE.replace('WIDTH', str(NARROW))} }})</script>"
    file.write_text(f"<!doctype html><meta charset='utf-8'><body>{''.join(frames)}{script}", encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    dumped = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=50, check=True
    ).stdout
    found: list[list[object]] = json.loads(unescape(dumped.split("told ")[1].split(" told")[0]))
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_fits_a_small_phone(pages: Pages, language: str, tmp_path: Path) -> None:
    assert too_wide(pages[language], tmp_path) == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_page_that_is_too_wide_is_found(pages: Pages, tmp_path: Path) -> None:
    planted = pages["ja"]["/"].replace("<h1>", '<h1 style="width:400px">')
    [(path, width, _out)] = too_wide({"/": planted, "/runs": pages["ja"]["/runs"]}, tmp_path)
    assert path == "/"
    assert int(str(width)) > NARROW
