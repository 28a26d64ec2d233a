"""The pages of all problems as flows/README.md has them; `python -m tests.flows.problem_pages` writes them there."""

from __future__ import annotations

from pathlib import Path

from runner.language.explain import all_text, pages

README = Path(__file__).resolve().parents[2] / "flows" / "README.md"
BEGIN, END = "<!-- problems -->\n", "<!-- /problems -->\n"


def with_pages(readme: str) -> str:
    """The README's text with the pages as they are now."""
    before, _, rest = readme.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + written() + END + after


def written() -> str:
    """The table of all codes, and the pages."""
    rows = [f"| {page.code} | {page.level} | {_in_a_row(page.what)} |\n" for page in pages().values()]
    note = "\n*live*: an error in a live flow, a warning in a draft.\n\n"
    return "| code | level | when |\n|---|---|---|\n" + "".join(rows) + note + all_text()


def _in_a_row(sentence: str) -> str:
    first = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    return first + sentence[1:].removesuffix(".")


if __name__ == "__main__":
    README.write_text(with_pages(README.read_text(encoding="utf-8")), encoding="utf-8")
