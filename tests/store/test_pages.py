"""Where links lead: to public_url, or to where the pages are served while they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runner.language.settings import Settings
from runner.store.pages import pages_of, served_at
from tests.cli.terminal import environment

HERE, USUAL = "http://127.0.0.1:51135", "http://127.0.0.1:8484"
UNNAMED = Settings(project="shop")
SERVES = """
import sys, time
from pathlib import Path
from runner.store.pages import served_at
with served_at(Path(sys.argv[1]), sys.argv[2]):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_links_lead_to_where_the_pages_are_served_while_they_are(tmp_path: Path) -> None:
    assert pages_of(tmp_path, UNNAMED) == USUAL
    (tmp_path / ".amends").mkdir()
    with served_at(tmp_path, HERE):
        assert pages_of(tmp_path, UNNAMED) == HERE
        assert pages_of(tmp_path, Settings(project="shop", public_url="https://a.example/x/")) == "https://a.example/x"
        with served_at(tmp_path, "http://127.0.0.1:1"):
            assert pages_of(tmp_path, UNNAMED) == "http://127.0.0.1:1", "the last one that came"
        assert pages_of(tmp_path, UNNAMED) == USUAL, "its own is not known any more"
    assert pages_of(tmp_path, UNNAMED) == USUAL


def test_who_was_killed_serves_no_pages(tmp_path: Path) -> None:
    (tmp_path / ".amends").mkdir()
    command = [sys.executable, "-c", SERVES, str(tmp_path), HERE]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == b"ready\n"
        assert pages_of(tmp_path, UNNAMED) == HERE
        serving.kill()
        serving.wait()
    assert (tmp_path / ".amends" / "pages.lock").read_text() == HERE
    assert pages_of(tmp_path, UNNAMED) == USUAL
