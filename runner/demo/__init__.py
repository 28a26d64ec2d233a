"""The demo: a whole project with real servers on loopback, and four stories that are run against them.

    make_project   a project folder whose connections point at the servers
    start_servers  the back office and the mail server, each in a process of its own
    STORIES        what is run, what is broken before it, and how it must end
    prove          the true effects at the servers, counted

The servers are `backoffice` (contacts, tasks, billing over HTTP) and `mailserver` (SMTP). Nothing here imports the
engine: whoever tells the stories starts the runs.
"""

from __future__ import annotations

from runner.demo.folder import make_project
from runner.demo.servers import Servers, start_servers
from runner.demo.stories import STORIES, Counts, Story, count, prove

__all__ = ["STORIES", "Counts", "Servers", "Story", "count", "make_project", "prove", "start_servers"]
