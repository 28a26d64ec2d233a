"""What `serve` and `worker` tell of runs and log: lines for people, or one JSON object a line; and the traces of runs.

The home of structlog. A line of JSON has `at` (UTC), `level`, `logger`, `event` (the sentence) and, where it is about
one, `run`, `flow`, `step` and `status`. Secrets are taken out before by `secrets.LogFilter`; of a defect the line says
which and where it stands, without its traceback.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from runner.app import Amends
from runner.cli import outlet, page, place
from runner.cli.failures import defect
from runner.core import events as e
from runner.core.state import State
from runner.engine.neighbours import Observer
from runner.errors import SettingsError
from runner.secrets import LOGGED
from runner.telling import words
from runner.telling.words import plain

log = logging.getLogger("amends.runs")


@contextmanager
def observed(amends: Amends) -> Iterator[Observer]:
    """What is to be told of every turn of a run, as amends.yaml says; whoever reads it, or nobody, holds up no run.
    Raises SettingsError without amends[otel]."""
    root, before = logging.getLogger(), logging.getLogger().handlers
    told: list[Observer] = [partial(tell, place.zone_of(amends))]
    is_json = amends.settings.logs == "json"
    with outlet.never_waiting(notice=partial(_left_out, amends) if is_json else outlet.left_out):
        if is_json:
            root.handlers, told = [JsonLines(amends)], [log_turn]
            log.setLevel(logging.INFO)
        traces = _traces(amends)
        if traces is not None:
            told.append(traces.observe)
        try:
            yield partial(_each, told)
        finally:
            root.handlers = before
            if traces is not None:
                traces.close()


def _left_out(amends: Amends, count: int) -> str:
    said = {"name": log.name, "levelname": "WARNING", "msg": outlet.left_out(count).partition(": ")[2]}
    return JsonLines(amends).format(logging.makeLogRecord(said))


def _each(told: Sequence[Observer], run: str, events: Sequence[e.Event], state: State) -> None:
    for observer in told:
        observer(run, events, state)


def _traces(amends: Amends) -> Any:
    if not amends.settings.traces:
        return None
    try:
        tracing = importlib.import_module("runner.tracing")
    except ImportError:
        raise SettingsError('amends.yaml wants traces, which need the extra: pip install "amends[otel]"') from None
    return tracing.traces_to(amends.settings.traces, amends.settings.project)


def tell(zone: str, run: str, events: Sequence[e.Event], state: State) -> None:
    """One line for a run that has ended or needs somebody."""
    at = f"{datetime.now(ZoneInfo(zone)):%H:%M:%S} {run} ({state.flow})"
    for event in events:
        if isinstance(event, e.HandedOff):
            page.say(f"{at} needs {event.owner}: {words.PROGRAM} handoffs show {run} {event.handoff}")
        elif isinstance(event, e.RunFinished):
            page.say(f"{at} {words.STATUS.get(event.status, event.status)}")


def log_turn(run: str, events: Sequence[e.Event], state: State) -> None:
    """The same as records of the log."""
    about = {"run": run, "flow": state.flow}
    for event in events:
        if isinstance(event, e.HandedOff):
            log.info("the run needs %s", event.owner, extra={**about, "step": event.step, "status": "needs_person"})
        elif isinstance(event, e.RunFinished):
            log.info("the run has ended", extra={**about, "status": event.status})


class JsonLines(logging.StreamHandler[Any]):
    """One JSON object a record, on standard error; a traceback goes to the defects file."""

    def __init__(self, amends: Amends) -> None:
        super().__init__()
        self._folder = amends.folder
        self.setFormatter(structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(allow=LOGGED),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        ))  # fmt: skip

    def format(self, record: logging.LogRecord) -> str:
        """The record as its line."""
        if record.exc_info and record.exc_info[1] is not None:
            record.defect = plain(defect(record.exc_info[1], record.name, self._folder))
        record.exc_info = record.exc_text = record.stack_info = None
        return super().format(record)
