"""Makes the demo's project folder out of the files that come with the package."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from runner.errors import SettingsError

ORIGIN = "http://127.0.0.1:8601"
SMTP_PORT = "port: 8602"
MARK = "project: amends_demo"


def make_project(folder: Path, *, backoffice_url: str, smtp_port: int, token: str = "demo") -> None:
    """Copies the example project into `folder` and points its connections at the servers.

    `token` goes to `.env` as BACKOFFICE_TOKEN. In a folder that holds the demo already, only connections.yaml and
    `.env` are written again. Raises `SettingsError` where the folder holds another project.
    """
    settings = folder / "amends.yaml"
    is_ours = settings.exists() and MARK in settings.read_text(encoding="utf-8")
    if settings.exists() and not is_ours:
        raise SettingsError(f"{folder} holds another project already; choose an empty folder for the demo.")
    folder.mkdir(parents=True, exist_ok=True)
    _copy(files("runner.demo") / "project", folder)
    connections = folder / "connections.yaml"
    text = connections.read_text(encoding="utf-8")
    if ORIGIN not in text or SMTP_PORT not in text:
        raise SettingsError(f"{connections} was changed by hand; remove it and start the demo again.")
    text = text.replace(ORIGIN, backoffice_url).replace(SMTP_PORT, f"port: {smtp_port}")
    connections.write_text(text, encoding="utf-8")
    secrets = folder / ".env"
    secrets.touch(mode=0o600)
    secrets.write_text(f"BACKOFFICE_TOKEN={token}\n", encoding="utf-8")


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        there = target / entry.name
        if entry.is_dir():
            _copy(entry, there)
        elif not there.exists() or entry.name == "connections.yaml":
            there.write_bytes(entry.read_bytes())
