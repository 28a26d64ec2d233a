"""The ways that things go in the crash cases, and the place where they are played: receivers, and a zygote that forks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.demo.servers import end
from tests.crash.ledger import Receivers, lost_at_once, mails_of, violations
from tests.crash.project import write_project
from tests.support.processes import ROOT, HttpProcess, SmtpProcess
from tests.support.replay import CHAT, completion, wanting
from tests.support.says import DROP_AFTER, late, refused

LATE = 150
SLOWLY = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way for things to go. `wanted`: each run by its flow, in the order they are started (those that follow come
    last), and how it ends: where there is a hand-off, a person closes it.

    `refused` is never done, `refused_once` the first time not; of `lost` the first answer is lost; `slow` takes its
    time, so that several calls are out together. `new` are words of the points that it adds to those before it; none =
    all of them.
    """

    wanted: tuple[tuple[str, str], ...]
    started: int = 1
    refused: tuple[str, ...] = ()
    refused_once: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


SLOW = ("keyed", "asked", "undo_keyed", "undo_asked")
LAST = ("last",)
VARIANTS = {
    "forward": Variant(wanted=(("every", "succeeded"),)),
    "compensating": Variant(
        wanted=(("every", "closed"),), refused=LAST,
        new=("undo", "last", "Closed", "Compensation", "Hand", "Record", "quarantine", "delete", "Finished"),
    ),
    "lost": Variant(
        wanted=(("every", "succeeded"),), lost=("keyed", "asked", "found", "once"),
        new=("lookup", "Unknown", "Settled", "retry", "Hand", "Record", "find", "Timer"),
    ),
    "undo_lost": Variant(
        wanted=(("every", "closed"),), refused=LAST, lost=("undo_keyed", "undo_asked", "undo_once"),
        new=("undo_lookup", "Unknown", "Settled", "retry", "Timer"),
    ),
    "beside": Variant(
        wanted=(("beside", "succeeded"),), slow=SLOW, new=("keyed", "asked", "Scope", "Branch", "own")
    ),
    "undone_beside": Variant(
        wanted=(("beside", "compensated"),), refused=LAST, slow=SLOW, new=("undo", "Closed", "Compensation", "delete")
    ),
    "listed": Variant(
        wanted=(("listed", "succeeded"),),
        new=("rows/2/inner", "rows/2/sub", "rows/2/own", "ScopeEnded", "ItemStarted", "handed"),
    ),
    "undone_list": Variant(
        wanted=(("listed", "compensated"),), refused=LAST,
        new=("Closed", "Compensation", "rows/2/inner/1/keyed undo", "rows/1/sub", "delete", "ScopeEnded"),
    ),
    "aside": Variant(
        wanted=(("aside", "succeeded"),), refused_once=("handed",),
        new=("rows/2/inner/1/keyed undo", "rows/2/sub/asked undo", "Closed", "Compensation", "Aside", "Hand", "handed"),
    ),
    "pair": Variant(
        wanted=(("waits", "succeeded"), ("sends", "succeeded")), started=2,
        new=("Awaited", "Emitted", "Received", "feed", "start", "told", "paid", "last"),
    ),
    "undone_pair": Variant(
        wanted=(("waits", "compensated"), ("sends", "succeeded")), started=2, refused=LAST,
        new=("feed", "Closed", "undo", "Finished"),
    ),
    "locks": Variant(wanted=(("locks", "succeeded"), ("locks", "succeeded")), started=2, slow=("keyed",), new=("keyed", "Locked", "Held", "Finished")),
    "undone_locks": Variant(
        wanted=(("locks", "compensated"), ("locks", "compensated")), started=2, refused=LAST,
        new=("undo", "Closed", "Compensation", "Finished"),
    ),
    "agent": Variant(wanted=(("agent", "succeeded"),), new=("model", "asked do", "handle/7")),
    "undone_agent": Variant(
        wanted=(("agent", "compensated"),), refused=LAST, new=("asked undo", "undo_asked", "handle/2", "handle/7"),
    ),
    "lost_agent": Variant(
        wanted=(("agent", "succeeded"),), lost=("keyed", "asked"),
        new=("lookup", "Unknown", "Settled", "retry", "Timer"),
    ),
    "followed": Variant(
        wanted=(("followed", "compensated"), ("letter", "succeeded")), refused=LAST,
        new=("Closed", "undo", "Finished", "asked", "columns"),
    ),
}  # fmt: skip


TURNS = (
    wanting("openai", ("keyed", {}), ("plan", {"code": "basic"}), ("erase", {})),
    wanting("openai", ("asked", {}), ("keyed", {})),
)
"""What an agent's model wants, replayed, not a model. Where an answer is lost with its engine, the next one is given."""


class Bench:
    """Receivers and a zygote; cases run one after the other. `environment` is the zygote's."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
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
            env=environment,
        )  # fmt: skip
        self.begin(VARIANTS["forward"])
        self.child("warm", VARIANTS["forward"], is_warming=True)

    def close(self) -> None:
        end([self.zygote])  # type: ignore[list-item]
        self.http.close()
        self.smtp.close()

    def begin(self, variant: Variant, target: str = "") -> None:
        """A fresh database and fresh receivers."""
        shutil.rmtree(self.project / ".amends", ignore_errors=True)
        self.http.reset()
        self.http.ask("POST", "/plans", {"id": "basic", "label": "Basic"})
        self.http.reset()
        for name in variant.slow:
            self.http.script(f"POST /{name}", always=late(SLOWLY))
        for name in variant.refused:
            self.http.script(f"POST /{name}", always=refused())
        for name in variant.refused_once:
            self.http.script(f"POST /{name}", refused())
        for name in variant.lost:
            self.http.script(f"POST /{name}", DROP_AFTER)
        for turn in TURNS:
            self.http.script(f"POST {CHAT}", turn)
        self.http.script(f"POST {CHAT}", always=completion("Done."))
        is_during = target.startswith("during call")
        if is_during:
            self.http.script(f"POST /{target.split()[2]}", late(LATE))
        self.smtp.script(after_dot=[f"delay {LATE}"] * 3 if is_during and target.split()[2] == "send" else [])

    def child(self, case: str, variant: Variant, **words: object) -> int:
        """Runs one child to its end; answers its exit code (-9: killed)."""
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        flows = [flow for flow, _ in variant.wanted[: variant.started]]
        self.zygote.stdin.write(json.dumps({"case": case, "flows": flows, **words}) + "\n")
        self.zygote.stdin.flush()
        status: int = json.loads(self.zygote.stdout.readline())["status"]
        return status

    def points(self, name: str) -> list[tuple[int, str]]:
        """Every point an undisturbed run passes, with its number; the run itself must hold."""
        case, variant = f"trace{name}", VARIANTS[name]
        self.begin(variant)
        trace = self.folder / case
        assert self.child(case, variant, trace=str(trace)) == 0, said_last(self.project)
        assert self.verdict(case, variant) == []
        lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
        return [(int(number), point) for number, point in lines]

    def verdict(self, case: str, variant: Variant) -> list[str]:
        receivers = Receivers.read(self.http.ledger(), mails_of(self.smtp.ledger_file), case)
        return violations(self.project, receivers, wanted=variant.wanted)

    def kill(self, number: int, name: str, point: tuple[int, str], **words: object) -> Verdict:
        """One case: die at the point, start again, go on to the end, compare."""
        (nth, target), variant = point, VARIANTS[name]
        case = f"{name}{number}"
        self.begin(variant, target)
        killed = self.child(case, variant, target=target, nth=nth)
        again = self.child(case, variant, **words)
        wrong = [] if killed in (-9, 0) else [f"the first process ended {killed}, it was not killed"]
        if again != 0:
            wrong.append(f"the second process ended {again}: {said_last(self.project)}")
        else:
            wrong += self.verdict(case, variant)
        effects = sum(self.http.ledger()["by_key"].values())
        return Verdict(
            variant=name, nth=nth, point=target, wrong=tuple(wrong), effects=effects, was_killed=killed == -9,
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


def said_last(folder: Path) -> str:
    said = folder / "child.err"
    return said.read_text()[-1500:] if said.exists() else "it said nothing"
