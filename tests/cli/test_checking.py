"""`amends check` and `amends explain`, as they are used."""

from __future__ import annotations

import json

import pytest

from runner import cli


def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["explain", "fl203"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "FL203, an error in a live flow, a warning in a draft: A step or a compensation that cannot be\n"
    )
    assert "\nWrong:\n\n    - id: paid\n" in told
    assert "\nRight:\n\n    - id: go\n" in told


def test_all_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["explain"]) == 0
    assert "FL001  error    A key is written twice\n" in capsys.readouterr().out
    assert cli.run_command(["explain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["code"] == "FL001"


def test_an_unknown_code_has_a_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["explain", "FL2O3"]) == 2
    assert capsys.readouterr().err == 'amends: no problem has the code "FL2O3"; did you mean "FL203"?\n'
