"""Mail and exports: the suite is short enough to be run whole."""

from __future__ import annotations

import pytest

from tests.trust import mail
from tests.trust.figures import Figures


async def test_nothing_is_injected_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()
    await mail.play(figures)
    assert not figures.wrong, capsys.readouterr().out
    assert (len(set(mail.STRINGS)), len(mail.FIELDS)) == (60, 6)
