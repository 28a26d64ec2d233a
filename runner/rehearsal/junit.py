"""What became of flow tests as JUnit XML, for servers that show test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from runner.rehearsal.suite import Outcome, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(outcomes: Sequence[Outcome]) -> str:
    """One `testsuite` for each file, one `testcase` for each case. A file that cannot be played is an error."""
    root = ET.Element("testsuites", name="amends test")
    for outcome in outcomes:
        red = [one for one in outcome.verdicts if not one.is_green]
        count = len(outcome.verdicts) + bool(outcome.problems)
        suite = ET.SubElement(
            root, "testsuite", name=_clean(outcome.file), tests=str(count), failures=str(len(red)),
            errors=str(int(bool(outcome.problems))), skipped="0",
            time=f"{sum(one.seconds for one in outcome.verdicts):.3f}",
        )  # fmt: skip
        if outcome.problems:
            case = ET.SubElement(
                suite, "testcase", name="the file itself", classname=_clean(outcome.flow), time="0.000"
            )
            said = [f"{one.file}:{one.line}:{one.column} {one.code} {one.what}" for one in outcome.problems]
            ET.SubElement(case, "error", message=_clean(said[0]), type="problem").text = _clean("\n".join(said))
        for verdict in outcome.verdicts:
            _add(suite, outcome, verdict)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, outcome: Outcome, verdict: Verdict) -> None:
    case = ET.SubElement(
        suite, "testcase", name=_clean(verdict.case), classname=_clean(outcome.flow), time=f"{verdict.seconds:.3f}"
    )
    if not verdict.is_green:
        lines = [
            line
            for number, one in verdict.differences
            for line in (f"{outcome.file}:{number} {one.what}", *(f"  {line}" for line in one.lines))
        ]
        message = verdict.differences[0][1].what
        ET.SubElement(case, "failure", message=_clean(message), type="difference").text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Without the signs that XML has no way to write."""
    return _NOT_XML.sub("�", text)
