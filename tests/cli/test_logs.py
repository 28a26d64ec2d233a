"""The log as JSON lines, and traces: what stands in them, and what never does."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from runner.app import Amends
from runner.cli.logs import JsonLines
from runner.errors import StoreUnwritable
from runner.secrets import LogFilter, Secrets
from runner.tracing import Traces
from tests.cli.terminal import Running, amends
from tests.web.ground import console_at, make_project, started

SECRET = "topsecretvalue"
FAILING = """\
flow: failing
title: A note is made, and the next step is refused
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
inputs: { name: text }
steps:
  - id: note
    do: records.create
    with: { collection: notes, name: "${{ inputs.name }}" }
    compensate:
      mark: records.update
      with: { collection: notes, id: "${{ output.id }}", text: dropped }
      unattended: It is our own table.
  - id: change
    do: records.update
    with: { collection: notes, id: nobody_knows_it, name: "${{ inputs.name }}" }
    unattended: Nothing is changed.
    compensate: { none: Nothing is changed. }
"""


def test_a_line_is_one_object_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_project(tmp_path / "shop")
    (folder / ".env").write_text(f"TOKEN={SECRET}\n", encoding="utf-8")
    (folder / ".amends").mkdir()
    secrets = Secrets(folder)
    assert secrets.value("TOKEN") == SECRET
    handler = JsonLines(Amends.open(folder))
    handler.addFilter(LogFilter(secrets))
    log = logging.getLogger("amends.some_part")
    log.addHandler(handler)
    log.propagate = False
    try:
        log.warning("it says %s\nand more", SECRET, extra={"run": "r1", "flow": "f", "step": SECRET, "other": SECRET})
        try:
            raise ValueError(SECRET)
        except ValueError:
            log.exception("run %s cannot go on", "r2", extra={"run": "r2"})
        try:
            raise StoreUnwritable(f"{SECRET} could not be reached")
        except StoreUnwritable:
            log.exception("messages cannot be sent; it is tried again in %g s", 5.0)
    finally:
        log.removeHandler(handler)
    told = capsys.readouterr().err
    first, second, third = map(json.loads, told.splitlines())
    assert SECRET not in told
    assert third["event"] == ("messages cannot be sent; it is tried again in 5 s: [secret TOKEN] could not be reached")
    assert "defect" not in third
    assert first.pop("at").endswith("Z")
    assert first == {
        "event": "it says [secret TOKEN]\nand more", "level": "warning", "logger": "amends.some_part", "run": "r1",
        "flow": "f", "step": "[secret TOKEN]",
    }  # fmt: skip
    assert (second["level"], second["run"]) == ("error", "r2")
    assert "(ValueError)" in second["defect"]
    assert "Traceback" not in told
    kept = (folder / ".amends" / "defects.log").read_text(encoding="utf-8")
    assert "Traceback" in kept
    assert SECRET not in kept


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """A collector of traces, and the spans that have come."""
    came: list[Any] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
            came.extend(span for of in sent.resource_spans for each in of.scope_spans for span in each.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join()


def test_a_worker_logs_json_and_sends_traces(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    (folder / "flows" / "failing.yaml").write_text(FAILING, encoding="utf-8")
    with collector() as (address, spans):
        settings = folder / "amends.yaml"
        settings.write_text(f"{settings.read_text()}logs: json\ntraces: {address}\n", encoding="utf-8")
        with Running("worker", folder=folder) as working:
            assert amends("run", "failing", "-i", "name=Ida", folder=folder).code == 1
            said = working.end()
    lines = [json.loads(line) for line in said.err.splitlines()]
    [ended] = [line for line in lines if line["logger"] == "amends.runs"]
    assert (ended["flow"], ended["status"], ended["event"]) == ("failing", "compensated", "the run has ended")
    assert ended["run"] not in said.out
    assert all({"at", "level", "logger", "event"} <= {*line} and line["at"].endswith("Z") for line in lines)
    assert sorted(span.name for span in spans) == ["change", "failing", "note", "note undo"]
    assert "Ida" not in str(spans)


def test_without_the_extra_there_is_one_sentence(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    settings = folder / "amends.yaml"
    settings.write_text(f"{settings.read_text()}traces: http://127.0.0.1:1\n", encoding="utf-8")
    block = tmp_path / "block"
    block.mkdir()
    (block / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry'] = None\n", encoding="utf-8")
    said = amends("worker", folder=folder, PYTHONPATH=f"{block}:{Path(__file__).parents[2]}")
    assert said.code == 2
    assert "amends[otel]" in said.err


async def spans_of(folder: Path, flow: str, **inputs: str) -> tuple[str, list[ReadableSpan]]:
    exporter = InMemorySpanExporter()
    traces = Traces("shop", SimpleSpanProcessor(exporter))
    async with console_at(folder) as console:
        console.driver.engine.observers.append(traces.observe)
        run = await asyncio.wait_for(started(console, flow, **inputs), 30)
    traces.close()
    return run, list(exporter.get_finished_spans())


async def test_a_run_and_each_of_its_calls_has_a_span(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    (folder / "flows" / "failing.yaml").write_text(FAILING, encoding="utf-8")
    run, spans = await spans_of(folder, "failing", name="Ida Customer")
    by_name = {span.name: span for span in spans}
    assert sorted(by_name) == ["change", "failing", "note", "note undo"]
    whole = by_name.pop("failing")
    assert whole.context is not None
    assert whole.parent is None
    assert whole.attributes == {"amends.run": run, "amends.mode": "live", "amends.status": "compensated"}
    assert whole.status.status_code is StatusCode.ERROR
    for span in by_name.values():
        assert span.context is not None
        assert span.parent is not None
        assert span.parent.span_id == whole.context.span_id
        assert span.parent.trace_id == span.context.trace_id == whole.context.trace_id
        assert whole.start_time is not None and whole.end_time is not None  # noqa: PT018
        assert span.start_time is not None and span.end_time is not None  # noqa: PT018
        assert whole.start_time <= span.start_time <= span.end_time <= whole.end_time
    assert {name: (span.attributes or {})["amends.result"] for name, span in by_name.items()} == {
        "note": "applied", "change": "refused", "note undo": "applied",
    }  # fmt: skip
    assert len({span.context.span_id for span in spans if span.context is not None}) == 4
    told = " ".join(span.to_json() for span in spans)
    assert "Ida" not in told
    assert "nobody_knows_it" not in told


def test_the_filter_takes_secrets_out_of_what_a_record_is_about(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"TOKEN={SECRET}\n", encoding="utf-8")
    secrets = Secrets(tmp_path)
    secrets.value("TOKEN")
    record = logging.makeLogRecord({"msg": "x", "flow": f"a {SECRET}", "run": 5})
    assert LogFilter(secrets).filter(record)
    assert (record.__dict__["flow"], record.__dict__["run"]) == ("a [secret TOKEN]", 5)
