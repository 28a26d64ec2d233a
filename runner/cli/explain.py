"""`amends explain FL203`: what a problem is, why it matters, and how it is put right."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated

import typer

from runner.cli import page, place
from runner.errors import NotFound
from runner.language.explain import Page, pages
from runner.language.nearest import did_you_mean

LEVELS = {
    "error": "an error",
    "warning": "a warning",
    "live": "an error in a live flow, a warning in a draft",
}
WIDTH = 100

COMMANDS = place.verb()


@COMMANDS.command(help="Explain a problem that `amends check` names; without a code, list all of them.")
def explain(
    code: Annotated[str, typer.Argument(metavar="[CODE]", help="What stands in front of the problem: FL203.")] = "",
    as_json: place.AsJson = False,
) -> None:
    known = pages()
    if code and code.upper() not in known:
        hint = did_you_mean(code.upper(), known, "codes")
        raise NotFound(f'no problem has the code "{code}"; {hint}')
    wanted = [known[code.upper()]] if code else list(known.values())
    if as_json:
        page.say_json(asdict(wanted[0]) if code else [asdict(one) for one in wanted])
    elif code:
        page.say(*_told(wanted[0]))
    else:
        page.say(*(f"{one.code}  {one.level:<7}  {one.what.rstrip('.')}" for one in wanted))


def _told(one: Page) -> list[str]:
    why = textwrap.wrap(" ".join(one.why.split()), WIDTH)
    wrong, right = (textwrap.indent(text.rstrip("\n"), "    ") for text in (one.wrong, one.right))
    head = textwrap.wrap(f"{one.code}, {LEVELS[one.level]}: {one.what}", WIDTH)
    return [*head, "", *why, "", "Wrong:", "", wrong, "", "Right:", "", right]
