"""`amends check` and `amends explain`, as they are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from runner import cli
from runner.cli import formats
from runner.contract import Json
from runner.errors import Problem
from tests.flows.stage import copy_flows


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


# --- formats -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a repository, with two flows that are wrong."""
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    flows = tmp_path / "my ops" / "flows"
    flows.mkdir(parents=True)
    (flows / "注文.yaml").write_text(TWO_WRONG.replace("FLOW", "other"), encoding="utf-8")
    (flows / "a,b.yaml").write_text(TWO_WRONG.replace("FLOW", "other"), encoding="utf-8")
    return tmp_path / "my ops"


TWO_WRONG = """flow: FLOW
title: "100% wrong"
owner: person:me
steps:
  - id: pause
    wait: soon
  - id: again
    wait: 1 day
    when: ${{ inputs.x }}
"""


def test_github_reads_each_problem_where_it_is(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["check", str(bad), "--format", "github"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "::error file=my ops/flows/a%2Cb.yaml,line=1,col=7,endColumn=12,title=FL006::the flow is"
    )
    assert "%0Agive both the same name" in lines[0]
    assert "::error file=my ops/flows/注文.yaml,line=6,col=11,endColumn=15,title=FL006::" in "\n".join(lines)
    assert [line for line in lines if not line.startswith("::error ")] == ["2 flows (2 in draft mode): 6 errors."]


def test_github_commands_cannot_be_forged() -> None:
    hostile = Problem(
        code="FL006", level="warning", file="a:b,c%.yaml", line=0, column=0, what="50%\r\n::error::x", hint="y"
    )
    [line] = formats.github([hostile], str)
    assert line == "::warning file=a%3Ab%2Cc%25.yaml,title=FL006::50%25%0D%0A::error::x%0Ay"


LOG: Json = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/run"}},
    },
    "additionalProperties": {"type": "string", "format": "uri"},
    "$defs": {
        "run": {
            "required": ["tool", "results", "columnKind"],
            "properties": {
                "tool": {
                    "required": ["driver"],
                    "properties": {
                        "driver": {
                            "required": ["name", "rules"],
                            "properties": {"rules": {"uniqueItems": True, "items": {"$ref": "#/$defs/rule"}}},
                        }
                    },
                },
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
            "additionalProperties": False,
        },
        "rule": {
            "required": ["id"],
            "properties": {
                "id": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/message"},
                "fullDescription": {"$ref": "#/$defs/message"},
                "help": {"$ref": "#/$defs/message"},
                "defaultConfiguration": {"properties": {"level": {"$ref": "#/$defs/level"}}},
            },
            "additionalProperties": False,
        },
        "message": {
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
            "additionalProperties": False,
        },
        "level": {"enum": ["none", "note", "warning", "error"]},
        "result": {
            "required": ["message", "ruleId", "level", "locations"],
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"$ref": "#/$defs/level"},
                "message": {"$ref": "#/$defs/message"},
                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
            },
            "additionalProperties": False,
        },
        "location": {
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "required": ["artifactLocation"],
                    "properties": {
                        "artifactLocation": {"properties": {"uri": {"type": "string", "pattern": "^[!-~]+$"}}},
                        "region": {
                            "required": ["startLine"],
                            "additionalProperties": {"type": "integer", "minimum": 1},
                        },
                    },
                    "additionalProperties": False,
                }
            },
        },
    },
}
"""What SARIF 2.1.0 demands of the parts that are written here."""


def test_sarif_has_what_the_standard_demands(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["check", str(bad), "--format", "sarif"]) == 2
    log = json.loads(capsys.readouterr().out)
    Draft202012Validator(LOG).validate(log)
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) == 6
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
    where = run["results"][-1]["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "my%20ops/flows/%E6%B3%A8%E6%96%87.yaml"
    assert where["region"] == {"startLine": 9, "startColumn": 22, "endColumn": 23}


def test_json_is_as_it_was(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for words in (["--json"], ["--format", "json"]):
        assert cli.run_command(["check", str(bad), *words]) == 2
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert set(told[0]) == {"fit", "flows", "problems"}
    assert (told[0]["fit"], told[0]["flows"]) == (False, ["flows/a,b.yaml", "flows/注文.yaml"])
    assert {"code", "level", "file", "line", "column", "what", "hint", "length"} == set(told[0]["problems"][0])


def test_an_unknown_format_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["check", "--format", "xml"]) == 2
    assert capsys.readouterr().err == 'amends: there is no format "xml"; there are: github, json, sarif, text\n'


# --- what is put right -----------------------------------------------------------------------------------------------

WRONG_FLOW = """flow: nap
title: A nap  # with a comment
owner: person:me
mode: Draft
steps:
  - id: short-nap
    wiat: 1 day
    when: ${{ trigger.id == 'x' }}
"""


@pytest.fixture
def nap(tmp_path: Path) -> Path:
    file = tmp_path / "nap.yaml"
    file.write_bytes(("\ufeff" + WRONG_FLOW.replace("\n", "\r\n")).encode())
    file.chmod(0o640)
    return file


def test_a_diff_changes_nothing(nap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = nap.read_bytes()
    assert cli.run_command(["check", str(nap), "--diff"]) == 2
    told = capsys.readouterr().out
    assert "-mode: Draft\n+mode: draft\n" in told
    assert "+  - id: short_nap\n+    wait: 1 day\n" in told
    assert "3 problems in 1 file can be put right; `amends check --fix` does it.\n" in told
    assert nap.read_bytes() == before
    assert [path.name for path in nap.parent.iterdir() if path.name != ".amends"] == ["nap.yaml"]


def test_a_fix_keeps_all_the_rest_byte_for_byte(nap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = nap.read_bytes()
    assert cli.run_command(["check", str(nap), "--fix"]) == 0
    told = capsys.readouterr().out
    assert told.endswith("Put right: 3 problems in 1 file.\n\n1 flow (1 in draft mode): nothing is wrong.\n")
    wanted = before.replace(b"Draft", b"draft").replace(b"wiat", b"wait").replace(b"short-nap", b"short_nap")
    assert nap.read_bytes() == wanted
    assert nap.stat().st_mode & 0o777 == 0o640
    assert cli.run_command(["check", str(nap), "--fix"]) == 0
    assert "Nothing can be put right by itself.\n" in capsys.readouterr().out
    assert nap.read_bytes() == wanted


def test_a_fix_goes_with_text_alone(nap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["check", str(nap), "--fix", "--json"]) == 2
    assert "goes with --format text alone" in capsys.readouterr().err


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return copy_flows(tmp_path / "shop", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)


def test_the_table_says_what_a_person_must_know(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    assert cli.run_command(["--project", str(shop), "check", "order_intake", "--table"]) == 0
    wide = capsys.readouterr().out
    heads = next(line for line in wide.splitlines() if line.startswith("step"))
    assert heads.split("  ")[0] == "step"
    assert all(head in heads for head in ("does", "effect", "tried", "made good by", "who is asked"))
    assert max(map(len, wide.splitlines())) <= 110


def test_a_narrow_terminal_has_lines_for_each_step(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.run_command(["--project", str(shop), "check", "signup_to_paid", "--table"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "signup_to_paid: New signup becomes a paying customer (live; person:me)\n\nplan: read billing.get_plan\n"
    )
    assert (
        """
task: do tasks.create
    effect: once, by its key
    tried: 4 times, 200 ms doubling to 5 min
    made good by: cancel tasks.close
go: approve
    who is asked: team:sales_leads, within 2 business days
welcome: do mail.send
    effect: never sent twice, cannot be undone
    tried: 6 times, 5 min doubling to 4 h
    made good by: correct mail.send
    who is asked: team:sales_leads at "go"; before it is made good: team:sales_leads
"""
        in told
    )
    assert told.endswith("If a step fails: what was done is made good; told: team:sales_leads.\n")


def test_the_table_as_json(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["--project", str(shop), "check", "stock_order", "--table", "--json"]) == 0
    [flow] = json.loads(capsys.readouterr().out)
    assert flow["flow"] == "stock_order"
    assert {"step", "depth", "does", "effect", "tried", "made_good", "asked"} == set(flow["steps"][0])
    assert any(step["made_good"].startswith("quarantine") for step in flow["steps"])


# --- flow tests ----------------------------------------------------------------------------------------------------


def test_a_flow_test_is_looked_into_and_not_played(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = shop / "stock_order.test.yaml"
    text = test.read_text(encoding="utf-8")
    for old, new, told in (
        ("calls: []", "call: []", 'FL003  "call" is not a key of expect'),
        ("- shipment:", "- shipmet:", 'did you mean "shipment"?'),
        ("end: succeeded", "end: failed", ""),
    ):
        assert old in text
        test.write_text(text.replace(old, new), encoding="utf-8")
        assert cli.run_command(["check", str(shop / "stock_order.yaml")]) == (2 if told else 0)
        out = capsys.readouterr().out
        assert ("stock_order.test.yaml:" in out) == bool(told)
        assert told in out
