"""A command whose engine goes away while it is asked: one sentence, and the code that fits."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.terminal import PROGRAM, Running, amends, environment
from tests.web.ground import make_project

SLOW = """\
flow: slow
title: A note is made after a while
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
steps:
  - { id: pause, wait: 4 minutes }
  - id: note
    do: records.create
    with: { collection: notes, name: Ada }
    compensate: cancel
"""


@pytest.mark.timeout(200)
def test_who_watches_a_run_whose_engine_is_killed_is_told_that_it_goes_on(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    (folder / "flows" / "slow.yaml").write_text(SLOW, encoding="utf-8")
    with Running("serve", "--port", "0", folder=folder) as served:
        watching = subprocess.Popen(
            [*PROGRAM, "run", "slow"], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and "waiting" not in amends("runs", "list", folder=folder).out:
                time.sleep(0.2)
            time.sleep(1)
            os.kill(served.process.pid, signal.SIGKILL)
            out, err = watching.communicate(timeout=30)
        finally:
            if watching.poll() is None:
                watching.kill()
                watching.communicate()
    assert (watching.returncode, "is not stopped" in err) == (130, True), out + err
    assert "defect" not in err
    run = out.split()[1]
    assert f"amends runs watch {run}" in err
