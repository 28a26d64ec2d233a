"""What comes upon a project that is soaked: starts, deliveries, forms, answers, orders, readers of its pages, and faults of
the receivers. People are honest: before they say what became of a call they look into the receivers' true ledgers.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from runner.clock import MachineClock
from runner.core import events as e
from runner.core.state import State
from runner.engine.past import read_state
from runner.store.sql import SqlStore
from tests.bench._ground import PEOPLE
from tests.crash.project import CONNECTOR, KEYED_STEP, LAST, write_project
from tests.support import says
from tests.support.processes import HttpProcess, SmtpProcess

SENDER = "the-secret-of-the-sender"
HEAD = "flow: {name}\ntitle: Soaked\nowner: person:root\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
NAMED = "inputs: { name: text }\n"
KEYED = f"  - id: keyed\n    {KEYED_STEP}"
FLOWS = {
    "timed": f"{NAMED}steps:\n{KEYED}  - {{ id: nap, wait: 2 s }}\n{LAST}",
    "parked": f"{NAMED}steps:\n{KEYED}  - {{ id: nap, wait: 3 hours }}\n{LAST}",
    "filled": f"trigger:\n  - form: filled\n{NAMED}steps:\n{KEYED}{LAST}",
    "hooked": "trigger:\n  - webhook: hooked\n    signed_by: sender\n    id: ${{ body.no }}\n"
    "inputs: { no: text, rows: { list: { n: text } } }\nsteps:\n"
    "  - id: rows\n    each: ${{ inputs.rows }}\n    named: ${{ item.n }}\n    at_once: 3\n    if_one_fails: continue\n"
    "    steps:\n      - id: keyed\n        do: service.keyed\n"
    '        with: { note: "${{ item.n }}" }\n        compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }\n'
    + LAST,
    "asked": f"{NAMED}steps:\n{KEYED}"
    "  - id: go\n    approve: Make it for ${{ inputs.name }}?\n    covers: [made]\n    by: [person:ann, person:root]\n    within: 20 s\n"
    "  - id: made\n    do: service.asked\n    compensate: { mark: service.undo_asked, with: { of: \"${{ output.id }}\" } }\n",
}  # fmt: skip
"""Beside those of the crash cases."""
PATHS = ("keyed", "asked", "found", "once", "handed", "last", "undo_keyed", "undo_asked", "undo_once")
TROUBLES = (
    says.DROP_BEFORE, says.DROP_AFTER, says.RESET, says.HALF_ANSWER, says.failing(), says.failing(502, done=True), says.refused(),
    says.late(300), says.late(2_500), says.rate_limit(), says.html(), says.refused(),
)  # fmt: skip
MAILED = ("drop", "reset", "delay 500", "554 5.0.0 no")
LOOKS_AFTER = 3_000
"""ms that a question is open before somebody looks into the ledgers: what was sent has arrived by then."""
AT_ONCE = 40
"""Runs that are open at most; then nothing new is begun."""
LANES = 4
"""Beginnings at once: one of them fills in a form for a while."""
SLOWLY = 1.7
"""Seconds in which a form is filled in."""


def make_project(folder: Path, http: HttpProcess, smtp: SmtpProcess) -> None:
    """The flows of the crash cases and those above; people get mails of what they are asked."""
    write_project(folder, origin=http.origin, smtp_port=smtp.port)
    patient = CONNECTOR.replace("timeout: 300 ms", "timeout: 2 s").replace("delay: 20 ms", "delay: 1 s")
    (folder / "connectors" / "service.yaml").write_text(patient)
    (folder / "amends.yaml").write_text("project: soaked\nadmin: person:root\ntell_by: mail\n")
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / ".env").write_text(f"SENDER={SENDER}\n")
    with (folder / "connections.yaml").open("a") as file:
        file.write("sender: { connector: webhook, scheme: hmac, header: X-Sum, secret: { secret: SENDER } }\n")
    for file_ in (folder / "flows").glob("*.yaml"):
        file_.write_text(file_.read_text().replace("person:me", "person:root"))
    for name, text in FLOWS.items():
        (folder / "flows" / f"{name}.yaml").write_text(HEAD.format(name=name) + text)
    http.ask("POST", "/plans", {"id": "basic", "label": "Basic"})


@dataclass(kw_only=True)
class Traffic:
    """All of it. `is_on`: new runs begin and receivers fail; people answer until it is `over`."""

    address: str
    doors: Mapping[str, str]
    store: SqlStore
    http: HttpProcess
    smtp: SmtpProcess
    rate: float
    rng: random.Random
    is_on: bool = True
    over: bool = False
    begun: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    troubles: int = 0
    wrong: list[str] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)
    latest: str = ""
    client: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=30))
    _number: int = 0
    _mails: dict[str, str] = field(default_factory=dict)
    _read: int = 0

    async def run(self) -> None:
        """Until it is over."""
        await self._come_in()
        async with asyncio.TaskGroup() as all_:
            for each in (
                *[self._begin_runs] * LANES,
                self._decide,
                self._resolve,
                self._operate,
                self._look,
                self._trouble,
            ):
                all_.create_task(self._again(each))
        await self.client.aclose()

    async def _again(self, each: Any) -> None:
        while not self.over:
            try:
                await each()
            except (httpx.TransportError, OSError):
                self.answers["no answer"] += 1
                await asyncio.sleep(0.3)

    async def ask(self, method: str, path: str, *, by: str = "root", **words: Any) -> httpx.Response:
        """One request with this person's token (empty: none)."""
        headers = {**({"authorization": f"Bearer {self.doors[by]}"} if by else {}), **words.pop("headers", {})}
        said = await self.client.request(method, f"{self.address}{path}", headers=headers, **words)
        place = re.sub(r"/[^/]*\d[^/]*", "/…", path)
        self.answers[f"{method} {place} {said.status_code}"] += 1
        if said.status_code in (400, 401, 403, 404, 422) or said.status_code >= 500:
            self.wrong.append(f"{method} {path} was answered {said.status_code}: {said.text[:200]}")
        return said

    async def _come_in(self) -> None:
        entrance = f"/enter/{self.doors['link']}"
        page = await self.ask("GET", entrance, by="")
        token = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert token is not None, page.text
        said = await self.ask("POST", entrance, by="", data={"csrf": token[1]}, headers={"origin": self.address})
        assert said.status_code == 303, said.text

    # --- what begins -----------------------------------------------------------------------------------------------

    async def _begin_runs(self) -> None:
        await asyncio.sleep(LANES / self.rate)
        if self.is_on and len(self.store.open_runs()) < AT_ONCE:
            kind = self.rng.choices([*BEGINS], [weight for weight, _ in BEGINS.values()])[0]
            self._number += 1
            await BEGINS[kind][1](self, kind, f"n{self._number}")
            self.begun[kind] += 1

    async def start(self, flow: str, name: str, more: str = "") -> None:
        """By the API; the same again where nobody answers, so that a kill leaves no half of a pair."""
        wanted = {"flow": flow, "key": name + more, "inputs": {"name": name}}
        while not self.over:
            try:
                said = await self.ask("POST", "/api/v1/runs", json=wanted)
            except httpx.TransportError:
                await asyncio.sleep(0.3)
                continue
            if said.status_code == 201:
                self.latest = said.json()["run"]
                self.parked += [self.latest] if flow == "parked" else []
            return

    async def pair(self, flow: str, name: str) -> None:
        """Two runs that wait for each other."""
        await self.start("waits", name)
        await self.start("sends", name)

    async def locked(self, flow: str, name: str) -> None:
        """Two runs that want the same record."""
        await self.start(flow, name)
        await self.start(flow, name, "b")

    async def deliver(self, flow: str, name: str) -> None:
        """By a webhook, with rows; some come twice."""
        rows = [{"n": f"{name}-{number}"} for number in range(self.rng.choice((1, 3, 8)))]
        body = json.dumps({"no": name, "rows": rows}).encode()
        headers = {
            "X-Sum": hmac.new(SENDER.encode(), body, hashlib.sha256).hexdigest(),
            "content-type": "application/json",
        }
        for _ in range(self.rng.choice((1, 1, 2))):
            await self.ask("POST", f"/hooks/{flow}", by="", content=body, headers=headers)

    async def fill(self, flow: str, name: str) -> None:
        """By a form, from some address of many."""
        headers = {"x-forwarded-for": f"198.51.100.{self.rng.randrange(1, 250)}"}
        page = await self.ask("GET", f"/forms/{flow}", by="", headers=headers)
        stamp = re.search(r'name="stamp" value="([^"]*)"', page.text)
        if stamp is not None:
            await asyncio.sleep(SLOWLY)
            fields = {"stamp": (None, unescape(stamp[1])), "in.name": (None, name), "do": (None, "")}
            await self.ask("POST", f"/forms/{flow}/send", by="", files=fields, headers=headers)

    # --- people ----------------------------------------------------------------------------------------------------

    async def _decide(self) -> None:
        await asyncio.sleep(1)
        for one in (await self.ask("GET", "/api/v1/approvals", by="ann")).json():
            word = self.rng.choice(("yes", "yes", "yes", "no", "", "", ""))
            if word or not self.is_on:
                given = {name: one[name] for name in ("approval", "round", "hash")} | {"answer": word or "yes"}
                await self.ask("POST", f"/api/v1/approvals/{one['run']}", by="ann", json=given)

    async def _resolve(self) -> None:
        await asyncio.sleep(1)
        now = MachineClock().now()
        for row in (await self.ask("GET", "/api/v1/handoffs")).json():
            state, _ = read_state(self.store, row["run"])
            asked = state.handoffs.get(row["handoff"])
            if asked is not None and not asked.choice and asked.opened_at + LOOKS_AFTER < now:
                await self.ask("POST", f"/api/v1/runs/{row['run']}/orders", json=self._answer(state, row))

    def _answer(self, state: State, row: Mapping[str, Any]) -> dict[str, Any]:
        """What an honest person says."""
        told = {"handoff": row["handoff"], "reason": "Seen to."}
        asked = state.handoffs[row["handoff"]]
        if asked.asks_what_became:
            call = state.calls[asked.step, asked.purpose, asked.part]
            if found := self._happened(state.run, call.key):
                output = {} if found.startswith("<") else {"id": found}
                return {**told, "action": "happened", "output": output, "external_id": found}
            return {**told, "action": "did_not"}
        known = ("again", "retry", "done", "go_on", "stands", "close")
        return {**told, "action": next(word for word in known if word in asked.choices)}

    def _happened(self, run: str, key: str) -> str:
        """The outside id of this call's effect by the true ledgers; empty where there is none."""
        for row in self.store.log(run):
            intent = row.event
            if isinstance(intent, e.CallIntended) and intent.key == key and intent.request:
                if intent.action.startswith("mail."):
                    return self._mailed().get(str(intent.request.get("message_id")), "")
                path = f"/{intent.action.partition('.')[2]}?reference={key}"
                items = (self.http.ask("GET", path) or {}).get("items", [])
                return str(items[0]["id"]) if items else ""
        return ""

    def _mailed(self) -> Mapping[str, str]:
        self.smtp.ledger_file.touch()
        with self.smtp.ledger_file.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    sent = json.loads(line)["message_id"]
                    self._mails[sent] = sent
        return self._mails

    async def _operate(self) -> None:
        """Stops what would wait for hours; some of it is paused before that."""
        await asyncio.sleep(1)
        for run in [*self.parked]:
            words = self.rng.choice((["stop"], ["stop_compensate"], ["pause", "resume", "stop_compensate"]))
            for word in words:
                await self.ask("POST", f"/api/v1/runs/{run}/orders", json={"action": word, "reason": "Enough."})
            self.parked.remove(run)

    async def _look(self) -> None:
        await asyncio.sleep(0.7)
        paths = ["/", "/runs", "/handoffs", "/live", *([f"/runs/{self.latest}"] if self.latest else [])]
        path = self.rng.choice(paths)
        if path == "/live":
            async with self.client.stream("GET", f"{self.address}/live") as lines:
                await anext(aiter(lines.aiter_lines()))
            return
        await self.ask("GET", path, by="")
        await self.ask("GET", f"/api/v1/runs/{self.latest}" if self.latest else "/metrics")
        await self.ask("GET", "/metrics")

    # --- receivers ---------------------------------------------------------------------------------------------------

    async def _trouble(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.5, 1.5) * 4 / self.rate)
        if not self.is_on:
            return
        self.troubles += 1
        if self.rng.random() < 0.15:
            await asyncio.to_thread(self.smtp.script, after_dot=[self.rng.choice(MAILED)])
        else:
            path, said = self.rng.choice((*PATHS, "last", "last")), self.rng.choice(TROUBLES)
            await asyncio.to_thread(self.http.script, f"POST /{path}", said)


BEGINS: Mapping[str, tuple[int, Any]] = {
    "every": (3, Traffic.start), "beside": (2, Traffic.start), "listed": (1, Traffic.start), "aside": (1, Traffic.start),
    "followed": (2, Traffic.start), "timed": (3, Traffic.start), "parked": (2, Traffic.start), "asked": (3, Traffic.start),
    "pair": (2, Traffic.pair), "locks": (1, Traffic.locked), "hooked": (3, Traffic.deliver), "filled": (2, Traffic.fill),
}  # fmt: skip
"""How often each way of beginning is taken."""
