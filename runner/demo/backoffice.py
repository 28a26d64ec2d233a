"""The demo's back office: contacts, tasks and billing over HTTP, in a process and a SQLite file of its own.

    python -m runner.demo.backoffice --port 0 --file back.db

The first line it prints is its port. It wants `Authorization: Bearer <token>`; the token is read from the environment
variable BACKOFFICE_TOKEN. It honours `Idempotency-Key`, keeps a `reference`, and can be told to fail
(`POST /_control`, see `faults`). `GET /_ledger` lists every change that was truly made.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from runner.demo.books import Answer, Books, Record, Refused
from runner.demo.faults import Fault, FaultList
from runner.demo.processes import announce, wait_for_end

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGE = "<!doctype html><title>Back office</title><h1>Please sign in again</h1>"


class BackOffice:
    """The HTTP side of the books. Every request runs through `serve`: count, sign-in, fault, answer."""

    def __init__(self, books: Books, token: str) -> None:
        self._books = books
        self._token = token
        self._faults = FaultList()
        self._seen: Counter[str] = Counter()
        self._seen_by_key: Counter[str] = Counter()

    def application(self) -> web.Application:
        """The aiohttp application with its routes."""

        @web.middleware
        async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self.serve(request, handler)

        application = web.Application(middlewares=[door], client_max_size=1_000_000)
        add = application.router.add_route
        add("POST", "/contacts", self._change(self._books.add_contact))
        add("GET", "/contacts", self._list("contacts"))
        add("GET", "/contacts/{id}", self._one("contacts"))
        add("PATCH", "/contacts/{id}", self._change_one(self._books.patch_contact))
        add("POST", "/tasks", self._change(self._books.add_task))
        add("GET", "/tasks", self._list("tasks"))
        add("GET", "/tasks/{id}", self._one("tasks"))
        add("POST", "/tasks/{id}/close", self._change_one(self._books.close_task))
        add("GET", "/plans/{code}", self._plan)
        add("POST", "/payments", self._change(self._books.add_payment))
        add("GET", "/payments", self._list("payments"))
        add("GET", "/payments/{id}", self._one("payments"))
        add("POST", "/payments/{id}/refund", self._change_one(self._books.refund_payment))
        add("POST", "/_control", self._control)
        add("GET", "/_ledger", self._ledger)
        return application

    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """One request from the door to the answer, faults included."""
        wanted = f"Bearer {self._token}".encode()
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), wanted):
            return _say(401, "The bearer token is missing or wrong.")
        if request.path.startswith("/_"):
            return await self._answered(request, handler)
        self._seen[f"{request.method} {request.path}"] += 1
        if key := request.headers.get("Idempotency-Key", ""):
            self._seen_by_key[key] += 1
        fault = self._faults.take(request.method, request.path)
        if fault is not None:
            return await self._fail(fault, request, handler)
        return await self._answered(request, handler)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as error:
            return web.json_response(error.answer.body, status=error.answer.status)
        except web.HTTPException as error:
            return _say(error.status, f"{request.method} {request.path}: {error.reason}.")

    async def _fail(self, fault: Fault, request: web.Request, handler: Handler) -> web.StreamResponse:
        if fault.fault in ("refuse", "error", "rate_limit", "drop_before"):
            await request.read()
            return _not_done(fault, request)
        answer = await self._answered(request, handler)
        if fault.fault == "late":
            await asyncio.sleep(fault.after_ms / 1000)
        elif fault.fault == "html":
            answer = web.Response(text=PAGE, content_type="text/html")
        else:
            _cut(request)
        return answer

    # --- handlers ------------------------------------------------------------------------------------------------

    def _change(self, do: Callable[[Record, str], Answer]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return self._carry_out(request, await _body(request), do)

        return handle

    def _change_one(self, do: Callable[[str, Record, str], Answer]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return self._carry_out(request, await _body(request), partial(do, request.match_info["id"]))

        return handle

    def _carry_out(self, request: web.Request, body: Record, do: Callable[[Record, str], Answer]) -> web.Response:
        answer = self._books.change(request.path, request.headers.get("Idempotency-Key", ""), body, do)
        return web.json_response(answer.body, status=answer.status)

    def _list(self, table: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return web.json_response({"items": self._books.find_many(table, dict(request.query))})

        return handle

    def _one(self, table: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return web.json_response(self._books.find_one(table, request.match_info["id"]))

        return handle

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._books.plan(request.match_info["code"]))

    async def _control(self, request: web.Request) -> web.StreamResponse:
        try:
            self._faults.add(Fault.read(await _body(request)))
        except (ValueError, TypeError) as error:
            raise Refused(422, f"{error}.") from None
        return web.json_response({"armed": self._faults.count})

    async def _ledger(self, request: web.Request) -> web.StreamResponse:
        effects = self._books.effects()
        by_key = Counter(effect["key"] or effect["reference"] for effect in effects)
        return web.json_response(
            {
                "effects": effects,
                "by_key": {key: count for key, count in by_key.items() if key},
                "requests": self._seen.total(),
                "requests_by_path": dict(self._seen),
                "requests_by_key": dict(self._seen_by_key),
                "faults_left": self._faults.count,
            }
        )


def _not_done(fault: Fault, request: web.Request) -> web.Response:
    if fault.fault == "drop_before":
        _cut(request)
        return web.Response(status=500)
    if fault.fault == "refuse":
        return _say(422, fault.say or "The back office says no.")
    if fault.fault == "error":
        return _say(500, fault.say or "The back office is in trouble.")
    seconds = max(1, -(-fault.after_ms // 1000))
    return _say(429, fault.say or "Too many requests.", {"Retry-After": str(seconds)})


def _say(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"message": message}, status=status, headers=headers)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _body(request: web.Request) -> Record:
    raw = await request.read()
    try:
        body: Any = json.loads(raw) if raw else {}
    except ValueError:
        raise Refused(400, "The body is no JSON.") from None
    if not isinstance(body, dict):
        raise Refused(422, "The body is no JSON object.")
    return body


async def run(port: int, file: Path, token: str, until_stdin_closes: bool) -> None:
    """Serves on 127.0.0.1 until told to stop; prints the port first."""
    books = Books(file)
    runner = web.AppRunner(BackOffice(books, token).application(), access_log=None, shutdown_timeout=0.2)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        announce(str(runner.addresses[0][1]))
        await wait_for_end(until_stdin_closes)
    finally:
        await runner.cleanup()
        books.close()


def main() -> None:
    """The command line of this process."""
    parser = argparse.ArgumentParser(prog="python -m runner.demo.backoffice", description="The demo's back office.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--file", type=Path, required=True, help="the SQLite file; made when it is missing")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when the parent process is gone")
    chosen = parser.parse_args()
    token = os.environ.get("BACKOFFICE_TOKEN", "")
    if not token:
        parser.error("set the environment variable BACKOFFICE_TOKEN to the bearer token")
    asyncio.run(run(chosen.port, chosen.file, token, chosen.until_stdin_closes))


if __name__ == "__main__":
    main()
