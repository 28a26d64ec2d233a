"""The guard in its short form: every way out, every address somewhere, and a name that turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import house
from tests.trust import guard
from tests.trust.addresses import HOSTILE
from tests.trust.figures import Figures
from tests.trust.openers import EXEMPT, GUARDED, openers, unguarded


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apprise leaves a refused socket open
async def test_nothing_reaches_where_it_must_not_go(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()
    await guard.play(figures, every=6, rounds=60)
    assert not figures.wrong, capsys.readouterr().out
    assert len(set(HOSTILE)) >= 120


def test_every_module_that_can_connect_says_how_it_passes_the_guard() -> None:
    product = house.product()
    assert unguarded(product) == []
    found = openers(product)
    assert set(GUARDED) <= set(found)
    assert {name for name in EXEMPT if name in {module.name for module in product}} - set(found) <= {"connectors.chat"}


@pytest.mark.parametrize(
    "text", ["import smtplib", "from urllib import request", "import asyncio\nasyncio.open_connection('a', 1)"]
)
def test_a_new_way_out_is_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner/outlook.py").write_text(f'"""A way out."""\n\n{text}\n')
    wrong = unguarded([*house.product(), *house.read_modules(tmp_path, "runner")])
    assert len([one for one in wrong if "outlook" in one]) == 1
