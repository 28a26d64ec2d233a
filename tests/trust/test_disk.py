"""A disk that fails, in short; the long form is `python -m tests.trust disk`."""

from __future__ import annotations

import pytest

from tests.trust import disk, shim
from tests.trust.disk_server import hurt_server
from tests.trust.figures import Figures


@pytest.mark.crash
@pytest.mark.timeout(240)
def test_what_cannot_be_stored_is_not_accepted_and_nothing_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    if why := shim.why_not():
        pytest.skip(why)
    figures = Figures()
    effects = disk.play(["the disk is full"], figures, runs=2)
    assert not figures.wrong, capsys.readouterr().out
    assert effects >= 15


@pytest.mark.crash
@pytest.mark.timeout(240)
def test_without_its_server_it_accepts_nothing_and_goes_on_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    if why := shim.why_not():
        pytest.skip(why)
    figures = Figures()
    with hurt_server() as server:
        effects = disk.play(["the server is gone"], figures, runs=2, server=server)
    assert not figures.wrong, capsys.readouterr().out
    assert effects >= 15
