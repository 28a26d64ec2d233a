"""`amends go-live`: what is said before the word is changed (also by `amends show`), and what keeps it from being changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import cli
from tests.drill.ground import UNDO, driller

PEOPLE = "people: { tom: { name: Tom, mail: tom@x.example }, a: { name: A, mail: a@x.example } }\n"
SOMETIMES = """
trigger: { form: ask }
inputs: { amount: number }
steps:
  - id: yes
    approve: Really?
    when: ${{ inputs.amount > 20000 }}
    covers: [gone]
    by: [person:tom, person:a]
  - { id: gone, do: svc.once, unattended: Up to 20000 nobody is asked., compensate: { none: It is the last step. } }
"""
FAILS = f"""
steps:
  - {{ id: got, read: svc.get }}
  - {{ id: small, do: svc.make, when: "${{{{ steps.got.size == 7 }}}}", {UNDO} }}
  - {{ id: last, do: svc.make, with: {{ note: "n ${{{{ 10 / (steps.got.size - 7) }}}}" }}, {UNDO} }}
"""
TEST = """test: tried
cases:
  - { case: A small one, inputs: { amount: 1 }, expect: { end: succeeded } }
  - { case: Wrong, inputs: { amount: 1 }, expect: { end: failed } }
"""


@pytest.fixture
def go_live(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> GoLive:
    monkeypatch.setenv("COLUMNS", "120")
    return GoLive(tmp_path, capsys)


class GoLive:
    """`amends go-live` of a flow that is a draft."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.file = folder / "flows" / "tried.yaml"
        self._capsys = capsys

    def write(self, text: str) -> None:
        driller(self.folder, text, people=PEOPLE)
        self.file.write_text(
            self.file.read_text().replace("mode: live", "mode: draft").replace("person:me", "person:a")
        )

    def __call__(self) -> tuple[int, str, str]:
        code = cli.run_command(["--project", str(self.folder), "go-live", "tried", "--yes"])
        said = self._capsys.readouterr()
        return code, said.out, said.err


def test_a_flow_that_fails_by_itself_does_not_go_live_unasked(go_live: GoLive) -> None:
    go_live.write(FAILS)
    code, out, err = go_live()
    assert (code, "mode: draft" in go_live.file.read_text()) == (2, True)
    assert "the flow fails by itself (B): last: " in " ".join(out.split())
    assert "  B: got.size = 7" in out
    assert "with nothing going wrong the flow fails by itself" in err


def test_what_is_asked_only_sometimes_is_said_to_be(go_live: GoLive) -> None:
    go_live.write(SOMETIMES)
    (go_live.folder / "flows" / "tried.test.yaml").write_text(TEST)
    code, out, err = go_live()
    assert (code, "mode: live" in go_live.file.read_text()) == (0, True), err
    for line in (
        "    Not before a yes to yes (person:tom or person:a, asked only if inputs.amount > 20000).",
        "    Else nobody is asked: Up to 20000 nobody is asked.",
        "  sends to          svc (https://svc.example.test)",
        "  open to anybody   the form ask",
        "  flow tests        1 green, 1 red: amends test tried",
    ):
        assert line in out


def test_what_the_drill_did_not_reach_is_said(go_live: GoLive) -> None:
    go_live.write(
        f"""
inputs: {{ name: text }}
steps:
  - {{ id: never, do: svc.make, when: "${{{{ inputs.name | length == 77 }}}}", {UNDO} }}
  - {{ id: always, do: svc.make, {UNDO} }}
"""
    )
    code, out, _ = go_live()
    assert code == 0
    assert "    Only if inputs.name | length == 77." in out
    assert "  Not reached: never: no made-up value makes its condition so" in out


def test_so_does_the_outline(go_live: GoLive, capsys: pytest.CaptureFixture[str]) -> None:
    go_live.write(SOMETIMES)
    assert cli.run_command(["--project", str(go_live.folder), "show", "tried"]) == 0
    assert "needs the yes of yes\n    else nobody is asked: Up to 20000 nobody is asked.\n" in capsys.readouterr().out
