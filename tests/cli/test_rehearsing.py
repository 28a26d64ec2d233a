"""`amends test`: what it prints, what it exits with, and the XML that build servers read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from runner import cli
from tests.flows.stage import copy_flows

CASES = {"testsuites": {"testsuite"}, "testsuite": {"testcase"}, "testcase": {"failure", "error", "skipped"}}
KNOWN = {
    "testsuites": {"name", "tests", "failures", "errors", "time", "disabled"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}
"""What build servers know (Jenkins' junit-10.xsd): the elements in each, and the attributes of each."""

BROKEN = """\
test: parcel_scanned
cases:
  - case: Whoever waits is told
    inputs: { order: order-7, condition: damaged }
    expect: { end: succeeded }
  - case: It comes to nothing & <more>
    inputs: { order: order-7, condition: good }
    expect:
      end: failed
      emits: [{ parcel.arrived: { order: order-8 } }]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    for test in found.glob("*.test.yaml"):
        if test.name not in ("parcel_scanned.test.yaml", "return_failed.test.yaml"):
            test.unlink()
    return found


def said(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.run_command(["--project", str(folder), "test", *words])
    out, err = capsys.readouterr()
    return code, re.sub(r"\(\d+\.\d s\)", "(0.1 s)", out + err)


def test_all_that_is_green(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(folder, capsys) == (0, """\
parcel_scanned.test.yaml: 1 case
  ✓ Whoever waits for the order is told in which condition it came
return_failed.test.yaml: 2 cases
  ✓ The customer is told that it takes longer
  ✓ Where the letter cannot be sent the note goes too
3 cases, all green (0.1 s).
""")  # fmt: skip


def test_what_is_red_is_shown_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "parcel_scanned.test.yaml").write_text(BROKEN, encoding="utf-8")
    junit = folder / "out" / "junit.xml"
    assert said(folder, capsys, "parcel_scanned", "--junit", str(junit)) == (1, """\
parcel_scanned.test.yaml: 2 cases
  ✓ Whoever waits is told
  ✗ It comes to nothing & <more>
      parcel_scanned.test.yaml:9  end: not as expected
          - failed
          + succeeded
      parcel_scanned.test.yaml:10  parcel.arrived: order: not as expected
          - "order-8"
          + "order-7"
2 cases, 1 red (0.1 s). - is what was expected, + what happened.
""")  # fmt: skip
    root = ET.fromstring(junit.read_text(encoding="utf-8"))
    assert fits(root) == []
    [suite] = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failure = suite[1][0]
    assert failure.get("message") == "end: not as expected"
    assert "parcel_scanned.test.yaml:10 parcel.arrived: order: not as expected" in str(failure.text)
    told = json.loads(said(folder, capsys, "--json", "--only", "comes to nothing")[1])
    assert [(case["case"], case["green"], case["line"]) for one in told for case in one["cases"]] == [
        ("It comes to nothing & <more>", False, 6)
    ]


def fits(element: ET.Element) -> list[str]:
    """What of the XML build servers do not know."""
    wrong = [f"{element.tag} has {name}" for name in element.attrib if name not in KNOWN[element.tag]]
    wrong += [f"{element.tag} holds {one.tag}" for one in element if one.tag not in CASES.get(element.tag, ())]
    return wrong + [found for one in element for found in fits(one)]


def test_an_element_that_nobody_knows_would_be_seen() -> None:
    assert fits(ET.fromstring("<testsuites><testsuite line='3'><case/></testsuite></testsuites>"))[:2] == [
        "testsuite has line", "testsuite holds case",
    ] or pytest.fail("it is not seen")  # fmt: skip


def test_a_file_that_cannot_be_played(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "parcel_scanned.test.yaml").write_text(BROKEN.replace("end: failed", "ends: failed"), encoding="utf-8")
    code, told = said(folder, capsys, "parcel_scanned", "--junit", str(folder / "junit.xml"))
    assert code == 2
    assert (
        told
        == """\
parcel_scanned.test.yaml: 0 cases
parcel_scanned.test.yaml:9:7 error FL003  "ends" is not a key of expect
      8 |     expect:
      9 |       ends: failed
                ^^^^
     did you mean "end"?
     write the line so:  end: failed
1 file could not be played (0.1 s).
"""
    )
    root = ET.fromstring((folder / "junit.xml").read_text(encoding="utf-8"))
    assert fits(root) == []
    assert root[0].get("errors") == "1"


def test_a_flow_that_is_wrong_is_told_as_check_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = folder / "return_failed.yaml"
    flow.write_text(flow.read_text(encoding="utf-8").replace("    compensate: cancel\n", ""), encoding="utf-8")
    code, told = said(folder, capsys, "return_failed.test.yaml")
    assert code == 2
    assert "return_failed.yaml:15:9 error FL202" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stock_order"], "stock_order.yaml has no test; it would be stock_order.test.yaml"),
        (["--only", "nothing"], 'no case has "nothing" in its name'),
        (["no.test.yaml"], "there is no file no.test.yaml"),
        (["parcel_scaned"], 'there is no flow "parcel_scaned"; did you mean "parcel_scanned"?'),
        (
            ["--record", "nothing"],
            "there is no database at FOLDER/.amends/amends.db; it is made when the first flow is run",
        ),
    ],
)
def test_what_is_not_there(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(folder)
    assert said(folder, capsys, *words) == (2, f"amends: {sentence.replace('FOLDER', str(folder))}\n")


def test_check_leaves_flow_tests_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["--project", str(folder), "check", "parcel_scanned"]) == 0
    capsys.readouterr()
    assert cli.run_command(["--project", str(folder), "check", str(folder / "parcel_scanned.test.yaml")]) == 2
    assert "is a flow test and no flow; `amends test` plays it" in capsys.readouterr().err
