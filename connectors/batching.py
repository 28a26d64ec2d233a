"""Calls that share one request: each is one row of it, with its own key, its own answer and its own outcome.

Nothing of this is known to the engine. It makes one call for each row; whichever leave within the same moment for the
same place go out together, and a row that failed is a call that is tried again by itself, under its own key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from connectors.answers import Seen, Unreadable
from connectors.model import RowsModel
from connectors.rendering import answered, json_body, set_field
from connectors.wire import Answer
from runner.contract import Json, Outcome, digest
from runner.errors import EvaluationError

WINDOW = 0.005
"""Seconds that a row waits for others."""
MOST = 100


class Ask(Protocol):
    """Sends one request within `limit` ms."""

    async def __call__(self, body: Mapping[str, Json], *, limit: int) -> Seen | Outcome: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    body: Mapping[str, Json]
    key: str
    limit: int
    scope: Mapping[str, Json]
    found: asyncio.Future[Seen | Outcome]

    def tell(self, found: Seen | Outcome | Exception) -> None:
        """Unless its caller has gone."""
        if not self.found.done():
            if isinstance(found, Exception):
                self.found.set_exception(found)
            else:
                self.found.set_result(found)


class Rows:
    """The rows of one action of one connection that wait for their request."""

    def __init__(self, model: RowsModel, ask: Ask) -> None:
        self._model = model
        self._ask = ask
        self._waiting: dict[str, list[_Row]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def answer(
        self, body: Mapping[str, Json], *, key: str, limit: int, scope: Mapping[str, Json]
    ) -> Seen | Outcome:
        """What the service says of this row, as if it had been asked for it alone."""
        loop = asyncio.get_running_loop()
        row = _Row(body=body, key=key, limit=limit, scope=scope, found=loop.create_future())
        place = digest([body["method"], body["url"], body["headers"]])
        group = self._waiting.setdefault(place, [])
        group.append(row)
        if len(group) >= (self._model.most or MOST):
            self._leave(place)
        elif len(group) == 1:
            loop.call_later(WINDOW, self._leave, place)
        return await row.found

    async def close(self) -> None:
        """Waits for what is on its way."""
        for place in list(self._waiting):
            self._leave(place)
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _leave(self, place: str) -> None:
        group = [row for row in self._waiting.pop(place, []) if not row.found.done()]  # whoever has gone sends nothing
        if group:
            sending = asyncio.create_task(self._send(group))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send(self, group: list[_Row]) -> None:
        first, rows = group[0].body, [row.body["row"] for row in group]
        try:
            content = json_body(set_field({}, self._model.into, rows) if self._model.into else rows)
            seen = await self._ask({**first, "body": content}, limit=min(row.limit for row in group))
            for row, found in zip(group, self._told(seen, group), strict=True):
                row.tell(found)
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller must hear of it
            for row in group:
                row.tell(error)

    def _told(self, seen: Seen | Outcome, group: list[_Row]) -> list[Seen | Outcome]:
        if isinstance(seen, Outcome):
            return [seen] * len(group)
        if not 200 <= seen.answer.status < 300:
            return [self._seen(seen, row, seen.answer) for row in group]
        try:
            answers = answered(self._model.answer, seen.scope)
            if not isinstance(answers, list):
                raise Unreadable("what it says of the rows is not a list")
            return [self._of_row(seen, row, answers, number, len(group)) for number, row in enumerate(group)]
        except (Unreadable, EvaluationError) as error:
            return [seen.doubtful("unreadable", str(error))] * len(group)

    def _of_row(self, seen: Seen, row: _Row, answers: list[Json], number: int, many: int) -> Seen | Outcome:
        """What the service says of one row. Raises Unreadable, EvaluationError."""
        if self._model.match is None:
            if len(answers) != many:
                raise Unreadable(f"it speaks of {len(answers)} rows, and {many} were sent")
            mine = [answers[number]]
        else:
            mine = [one for one in answers if answered(self._model.match, {**seen.scope, "row": one}) == row.key]
        if len(mine) != 1:
            return seen.doubtful("unreadable", f"it speaks of this row {len(mine)} times")
        status: Json = seen.answer.status
        if self._model.status is not None:
            status = answered(self._model.status, {**seen.scope, "row": mine[0]})
        if isinstance(status, bool) or not str(status).isdigit():
            return seen.doubtful("unreadable", "the status of this row is no number")
        body = json.dumps(mine[0]).encode()
        return self._seen(seen, row, Answer(status=int(status), headers=seen.answer.headers, body=body))

    def _seen(self, seen: Seen, row: _Row, answer: Answer) -> Seen:
        with_text = "text" in seen.scope["response"]
        return Seen.of(answer, scope=row.scope, with_text=with_text, url=seen.url, redact=seen.redact)
