"""`amends run --simulate`: nothing leaves, everything that would is printed, and services may be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import cli
from runner.demo import Servers, make_project, start_servers
from tests.drill.ground import EXAMPLES

INPUTS = ["-i", "name=Aya", "-i", "email=aya@x.example", "-i", "plan=pro", "-i", "amount=12000"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Servers, str]]:
    """The demo's servers, and the project in front of them."""
    folder = tmp_path_factory.mktemp("simulate")
    with start_servers(folder / "servers") as servers:
        make_project(
            folder / "demo", backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token
        )
        yield servers, str(folder / "demo")


def run(project: str, *words: str) -> int:
    return cli.run_command(["--project", project, "run", "signup_to_paid", "--simulate", *INPUTS, *words])


PRINTED = """\
· plan: reads billing.get_plan (code: pro): code: pro, found: yes, label: draft label, price: 1
· contact: looks for crm.create_contact (email: aya@x.example): 0 found
✓ contact: would send crm.create_contact to POST {office}/contacts
      name: Aya
      email: aya@x.example
      note: none
✓ task: would send tasks.create to POST {office}/tasks
      title: Onboard Aya on draft label
"""


def test_what_would_leave_is_printed_and_nothing_leaves(
    shop: tuple[Servers, str], capsys: pytest.CaptureFixture[str]
) -> None:
    servers, project = shop
    before = servers.ledger()
    assert run(project) == 0
    out = capsys.readouterr().out
    assert out.startswith(PRINTED.format(office=servers.backoffice_url))
    assert out.endswith("SIMULATED: nothing was sent. 4 calls would have left, and it would have ended succeeded.\n")
    assert servers.ledger() == before, "a request came"


def test_services_may_be_read_for_real(shop: tuple[Servers, str], capsys: pytest.CaptureFixture[str]) -> None:
    servers, project = shop
    effects = servers.ledger()["effects"]
    assert run(project, "--reads", "real") == 0
    assert "label: Pro, price: 12000" in capsys.readouterr().out
    assert servers.ledger()["effects"] == effects
    assert not servers.mails()


def test_it_may_be_answered_as_an_earlier_run_was(
    shop: tuple[Servers, str], capsys: pytest.CaptureFixture[str]
) -> None:
    servers, project = shop
    assert run(project, "--reads", "recorded") == 2
    assert "nothing is recorded" in capsys.readouterr().err
    assert cli.run_command(["--project", project, "run", "signup_to_paid", *INPUTS]) == 0
    capsys.readouterr()
    effects = servers.ledger()["effects"]
    assert run(project, "--reads", "recorded", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outputs"] == {"contact_id": "C-1"}
    assert [call["answer"]["id"] for call in told["calls"] if call["purpose"] == "do" and "id" in call["answer"]] == [
        "C-1", "T-1", "P-1",
    ]  # fmt: skip
    assert servers.ledger()["effects"] == effects


def test_approvals_waits_and_questions_are_passed_over_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "shop")
    assert run(str(tmp_path / "shop")) == 0
    assert "! go: would ask team:sales_leads: Welcome Aya and mark 12,000 JPY as paid?" in capsys.readouterr().out
    words = ["-i", "order=7", "-i", "payment=P1", "-i", "amount=900", "-i", "email=a@x.example"]
    assert cli.run_command(["--project", str(tmp_path / "shop"), "run", "goods_return", "--simulate", *words]) == 0
    out = capsys.readouterr().out
    assert "would wait for the event parcel.arrived (order: 7); taken as come." in out
    assert "would send the event return.expected (order: 7)" in out
    assert "would hand over to team:finance: No parcel within two weeks" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reads", "sometimes"], '--reads is one of none, real, recorded, not "sometimes"'),
        (["-i", "plann=x"], "plann"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    shop: tuple[Servers, str], capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(shop[1], *words) == 2
    assert said in capsys.readouterr().err
