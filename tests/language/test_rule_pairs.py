"""Every code has a bad file that is told word for word, a good file beside it, and a page; no rule lacks its pair."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.language.check.context import RULES
from runner.language.explain import Page, all_text, pages
from tests.flows.problem_pages import README, with_pages
from tests.language.ground import check, codes, told

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAIRS = sorted((HERE / "rules").glob("*/*.bad.yaml"))
AROUND: dict[str, dict[str, bool]] = {"FL210": {"keeps_drills": True}}
"""What the project around a code's files has besides."""
PAGES = pages()


def _name(path: Path) -> str:
    return f"{path.parent.name.lower()}_{path.name.partition('.')[0]}.yaml"


@pytest.mark.parametrize("path", PAIRS, ids=_name)
def test_a_bad_file_is_told_word_for_word(path: Path) -> None:
    expected = path.with_name(path.name.replace(".bad.yaml", ".txt")).read_text(encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    around = AROUND.get(path.parent.name, {})
    assert told(text, _name(path), **around) + "\n" == expected
    assert path.parent.name in codes(text, _name(path), **around)


@pytest.mark.parametrize("path", PAIRS, ids=_name)
def test_the_good_file_beside_it_is_in_order(path: Path) -> None:
    good = path.with_name(path.name.replace(".bad.", ".good.")).read_text(encoding="utf-8")
    assert told(good, _name(path), **AROUND.get(path.parent.name, {})) == ""


def _known_codes() -> set[str]:
    """Every code that the language can give."""
    sources = [*(ROOT / "runner" / "language").rglob("*.py"), ROOT / "connectors" / "declarative.py"]
    return {code for file in sources for code in re.findall(r'"(FL\d{3})"', file.read_text(encoding="utf-8"))}


def test_no_rule_lacks_its_pair() -> None:
    codes_of_rules = {code for rule in RULES for code in rule.codes}
    assert codes_of_rules <= _known_codes()
    assert {path.parent.name for path in PAIRS} == _known_codes()
    assert len(list((HERE / "rules").glob("*/*"))) == 3 * len(PAIRS)


# --- the pages -----------------------------------------------------------------------------------------------------

KEYS = {
    "flow": "flow: sample",
    "title": "title: A sample",
    "owner": "owner: person:aya",
    "mode": "mode: live",
    "run_key": "run_key: ${{ inputs.email }}",
    "inputs": "inputs: { name: text, email: email, count: integer, note: text or empty, lines: { list: { sku: text } } }",
    "steps": "steps:\n  - { id: plan, read: billing.get_plan, with: { code: pro } }",
}


def _whole(example: str) -> str:
    """An example as a whole flow: what it does not write itself is as usual."""
    if example.startswith("flow:"):
        return example
    if example.startswith("- "):
        example = "steps:\n" + example
    there = set(re.findall(r"^(\w+):", example, re.MULTILINE))
    return "\n".join([*(text for key, text in KEYS.items() if key not in there), example])


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.code)
def test_the_wrong_example_has_this_problem_and_the_right_one_none(page: Page) -> None:
    around = AROUND.get(page.code, {})
    found = check(_whole(page.wrong), "sample.yaml", **around)[1]
    beside = {"FL203"} if page.code == "FL207" else set()  # what cannot be undone and nobody reads is both
    assert {one.code for one in found} - beside == {page.code}
    assert page.level == "live" or {one.level for one in found if one.code == page.code} == {page.level}
    assert check(_whole(page.right), "sample.yaml", **around)[1] == ()


def test_the_level_is_what_a_draft_makes_of_it() -> None:
    for page in PAGES.values():
        if page.level == "live":
            found = check(_whole(page.wrong).replace("mode: live", "mode: draft"), "sample.yaml")[1]
            assert [one.level for one in found] == ["warning"]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert set(PAGES) == _known_codes()
    assert list(PAGES) == sorted(PAGES)
    assert all_text().count("\n### ") + 1 == len(PAGES)


def test_the_readme_has_the_pages() -> None:
    """`python -m tests.flows.problem_pages` writes them."""
    text = README.read_text(encoding="utf-8")
    assert with_pages(text) == text
    assert "### FL203" in text
