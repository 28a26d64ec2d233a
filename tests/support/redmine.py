"""A real Redmine (Debian's package) on a free port of 127.0.0.1. Its database, settings and logs are the test's own: the
package's own place, and what stands in it, is only copied from while it is empty."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.support.processes import until_it_listens

PACKAGE = Path("/usr/share/redmine")
EMPTY = Path("/var/lib/dbconfig-common/sqlite3/redmine/instances/default/redmine_default")
PROJECT = "onboarding"

GEMFILE = f"eval_gemfile '{PACKAGE}/Gemfile'\ngem 'webrick'\n"
SERVE = f"""
require '{PACKAGE}/config/environment'
require 'rack/handler/webrick'
Setting.rest_api_enabled = '1'
admin = User.find_by_login('admin')
admin.update!(must_change_passwd: false)
project = Project.create!(name: 'Onboarding', identifier: '{PROJECT}', enabled_module_names: ['issue_tracking'])
project.trackers = Tracker.all
field = IssueCustomField.create!(name: 'Our reference', field_format: 'string', is_for_all: true, is_filter: true)
field.trackers = Tracker.all
File.write(ARGV[1], [admin.api_key, field.id].join(' '))
quiet = WEBrick::Log.new(File::NULL)
Rack::Handler::WEBrick.run(Rails.application, Host: '127.0.0.1', Port: ARGV[0].to_i, Logger: quiet, AccessLog: [])
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Redmine:
    """A running server with an empty project `onboarding`, asked by a client of the test's own. `reference_field` is the
    custom field for our reference."""

    port: int
    key: str
    reference_field: int

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """(status, content) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            head = {"content-type": "application/json", "x-redmine-api-key": self.key}
            connection.request(method, path, None if body is None else json.dumps(body), head)
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said.strip() else None
        finally:
            connection.close()

    def issues(self, subject: str) -> list[Any]:
        """Every issue with this subject, the closed ones too."""
        found = self.call("GET", "/issues.json?status_id=*&limit=100")[1]["issues"]
        return [one for one in found if one["subject"] == subject]


@contextlib.contextmanager
def running_redmine(place: Path) -> Iterator[Redmine]:
    """Starts one that keeps its files in the folder."""
    if not PACKAGE.is_dir() or shutil.which("ruby") is None:
        pytest.skip("there is no Redmine on this computer (apt-get install redmine redmine-sqlite ruby-webrick)")
    if not os.access(EMPTY, os.R_OK):
        pytest.skip("Redmine's empty database can be copied by root only")
    port, told = free_port(), place / "told"
    instance = place / "instance"
    for folder in ("config", "log", "tmp/cache", "files", "public"):
        (instance / folder).mkdir(parents=True)
    shutil.copyfile(EMPTY, instance / "redmine.db")
    with contextlib.closing(sqlite3.connect(instance / "redmine.db")) as copied:
        if copied.execute("select count(*) from projects").fetchone()[0]:
            pytest.skip("the Redmine of this computer is in use")
    (instance / "config" / "secret_key.txt").write_text("0123456789abcdef" * 4)
    (instance / "config" / "database.yml").write_text(
        f"production:\n  adapter: sqlite3\n  database: {instance}/redmine.db\n  encoding: utf8\n"
    )
    (place / "Gemfile").write_text(GEMFILE)
    shutil.copyfile(PACKAGE / "Gemfile.lock", place / "Gemfile.lock")
    (place / "serve.rb").write_text(SERVE)
    up = "../" * 8  # an instance is named below the package's folder, and may lie anywhere
    env = os.environ | {
        "REDMINE_INSTANCE": f"{up}{str(instance).lstrip('/')}",
        "BUNDLE_GEMFILE": str(place / "Gemfile"),
        "RAILS_ENV": "production",
    }
    command = ["ruby", "-W0", str(place / "serve.rb"), str(port), str(told)]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        try:
            until_it_listens(port, server, place / "log")
            key, field = told.read_text().split()
            yield Redmine(port=port, key=key, reference_field=int(field))
        finally:
            server.kill()
            server.wait(10)
