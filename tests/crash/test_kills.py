"""kill -9 at every named point of every kind of step, forward and compensating; then the ledgers are compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.demo.servers import end
from tests.crash.ledger import Receivers, lost_at_once, mails_of, violations
from tests.crash.project import write_project
from tests.support.processes import ROOT, HttpProcess, SmtpProcess
from tests.support.says import DROP_AFTER, late, refused

LATE = 150
SLOWLY = 100
VARIANTS = {
    "forward": "succeeded", "compensating": "closed", "lost": "succeeded", "undo_lost": "closed",
    "beside": "succeeded", "undone_beside": "compensated",
}  # fmt: skip
"""How each variant ends: the compensating ones have a hand-off, so a person closes them; in those named lost, answers
are lost on the way forward or while compensating; the last two are of the flow with branches, whose receivers take
their time, so that calls of both branches are out together."""
FLOWS = {"beside": "beside", "undone_beside": "beside"}
SLOW = ("keyed", "asked", "undo_keyed", "undo_asked")

LOST = {"lost": ("keyed", "asked", "found", "once"), "undo_lost": ("undo_keyed", "undo_asked", "undo_once")}

NEW = {
    "forward": (),
    "compensating": ("undo", "last", "Closed", "Compensation", "Hand", "Record", "quarantine", "delete", "Finished"),
    "lost": ("lookup", "Unknown", "Settled", "retry", "Hand", "Record", "find", "Timer"),
    "undo_lost": ("undo_lookup", "Unknown", "Settled", "retry", "Timer"),
    "beside": ("keyed", "asked", "Scope", "Branch", "own"),
    "undone_beside": ("undo", "Closed", "Compensation", "delete"),
}
"""Words of the points that a variant adds to those before it; none = all of them."""


class Bench:
    """Receivers and a zygote; cases run one after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.http = HttpProcess()
        self.smtp = SmtpProcess(folder)
        self.project = folder / "project"
        write_project(self.project, origin=self.http.origin, smtp_port=self.smtp.port)
        (self.project / "receivers.json").write_text(
            json.dumps({"port": self.http.port, "mails": str(self.smtp.ledger_file)})
        )
        self.zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote", str(self.project)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        end([self.zygote])  # type: ignore[list-item]
        self.http.close()
        self.smtp.close()

    def begin(self, variant: str, target: str = "") -> None:
        """A fresh database and fresh receivers."""
        shutil.rmtree(self.project / ".amends", ignore_errors=True)
        self.http.reset()
        self.http.ask("POST", "/plans", {"id": "basic", "label": "Basic"})
        self.http.reset()
        for name in SLOW if variant in FLOWS else ():
            self.http.script(f"POST /{name}", always=late(SLOWLY))
        if variant in ("compensating", "undo_lost", "undone_beside"):
            self.http.script("POST /last", always=refused())
        for name in LOST.get(variant, ()):
            self.http.script(f"POST /{name}", DROP_AFTER)
        is_during = target.startswith("during call")
        if is_during:
            self.http.script(f"POST /{target.split()[2]}", late(LATE))
        self.smtp.script(after_dot=[f"delay {LATE}"] * 3 if is_during and target.split()[2] == "send" else [])

    def child(self, case: str, variant: str, **words: object) -> int:
        """Runs one child to its end; answers its exit code (-9: killed)."""
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        self.zygote.stdin.write(json.dumps({"case": case, "flow": FLOWS.get(variant, "every"), **words}) + "\n")
        self.zygote.stdin.flush()
        status: int = json.loads(self.zygote.stdout.readline())["status"]
        return status

    def points(self, variant: str) -> list[tuple[int, str]]:
        """Every point an undisturbed run passes, with its number; the run itself must hold."""
        case = f"trace{variant}"
        self.begin(variant)
        trace = self.folder / case
        assert self.child(case, variant, trace=str(trace)) == 0, _error(self.project)
        assert self.verdict(case, VARIANTS[variant]) == []
        lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
        return [(int(number), point) for number, point in lines]

    def verdict(self, case: str, wanted: str) -> list[str]:
        receivers = Receivers.read(self.http.ledger(), mails_of(self.smtp.ledger_file), case)
        return violations(self.project, receivers, wanted=wanted)

    def kill(self, number: int, variant: str, point: tuple[int, str]) -> Verdict:
        """One case: die at the point, start again, go on to the end, compare."""
        nth, target = point
        case = f"{variant[0]}{number}"
        self.begin(variant, target)
        killed = self.child(case, variant, target=target, nth=nth)
        again = self.child(case, variant)
        wrong = [] if killed in (-9, 0) else [f"the first process ended {killed}, it was not killed"]
        if again != 0:
            wrong.append(f"the second process ended {again}: {_error(self.project)}")
        else:
            wrong += self.verdict(case, VARIANTS[variant])
        effects = sum(self.http.ledger()["by_key"].values())
        return Verdict(
            variant=variant, nth=nth, point=target, wrong=tuple(wrong), effects=effects, was_killed=killed == -9,
            lost=lost_at_once(self.project),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What became of one case; `effects` is how many effects the HTTP receiver saw in it, `lost` how many calls were
    out when the process was killed.

    Two mails that are answered in the same instant are recorded together, so a point may be passed over: such a case
    counts for nothing.
    """

    variant: str
    nth: int
    point: str
    wrong: tuple[str, ...]
    effects: int
    was_killed: bool
    lost: int


def _error(folder: Path) -> str:
    said = folder / "child.err"
    return said.read_text()[-1500:] if said.exists() else "it said nothing"


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Bench]]:
    place = tmp_path_factory.mktemp("crash")
    made = [Bench(place / f"bench{number}") for number in range(2)]
    yield made
    for bench in made:
        bench.close()


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_kill_loses_or_repeats_anything(benches: list[Bench], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (number, variant, point)
        for variant in VARIANTS
        for number, point in enumerate(benches[0].points(variant))
        if not NEW[variant] or any(word in point[1] for word in NEW[variant])
    ]
    with ThreadPoolExecutor(len(benches)) as lanes:
        shares = [cases[lane :: len(benches)] for lane in range(len(benches))]
        told = list(lanes.map(lambda bench, share: [bench.kill(*each) for each in share], benches, shares))
    verdicts = [verdict for lane in told for verdict in lane if verdict.was_killed]
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    with capsys.disabled():
        effects = sum(verdict.effects for verdict in verdicts)
        both = sum(verdict.lost >= 2 for verdict in verdicts)
        print(
            f"\nkilled at {len(verdicts)} points, {both} with two calls out or more, {effects} effects at the receiver, "
            f"{len(wrong)} cases went wrong"
        )
    assert not wrong, "\n".join(f"{v.variant} {v.nth} {v.point}: {'; '.join(v.wrong)}" for v in wrong)
    assert len(verdicts) >= 150
    assert sum(verdict.lost >= 2 for verdict in verdicts if verdict.variant == "beside") >= 4
    assert sum(verdict.lost >= 2 for verdict in verdicts if verdict.variant == "undone_beside") >= 4
    assert sum(verdict.effects for verdict in verdicts) >= 5 * len(verdicts)
