"""What an engine says of its cluster: that it cannot be reached or answers again, that it carries strange runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from runner.clock import MINUTE
from runner.language.settings import Cluster

log = logging.getLogger("amends.engine.cluster")
LOOKS_EVERY = 10.0
"""Seconds from one look whether the cluster answers to the next."""
AGAIN_AFTER = 1.0
"""The same while it does not."""
AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN)
"""What a call is told whom the cluster did not answer."""


class Contact:
    """Said when it changes, and once for all who ask the cluster: where it is away, all of them meet the same."""

    def __init__(self, cluster: Cluster) -> None:
        self._address = cluster.address
        self._queue = cluster.queue
        self._is_lost = False
        self._strange_at: int | None = None

    async def watch(self, client: Client) -> None:
        """Asks for ever whether the cluster answers: for hours nobody else may."""
        while True:
            try:
                await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
            except RPCError as error:
                self._hear(error)
            else:
                self._find()
            await asyncio.sleep(AGAIN_AFTER if self._is_lost else LOOKS_EVERY)

    def tells_of(self, error: RPCError) -> bool:
        """Whether what somebody met is worth a sentence of its own."""
        if error.status in AWAY:
            self._lose(error)
        return not self._is_lost

    def tell_strange(self, run: str, now: int) -> None:
        """The queue has a run that the database has not. Said once a minute at most: it is offered for ever, and there
        may be many. `now`: ms of a clock that only goes forward."""
        if self._strange_at is not None and now - self._strange_at < MINUTE:
            return
        self._strange_at = now
        log.error(
            'the queue "%s" (amends.yaml, engine) carries run %s, which this database does not have: another project '
            "has the same queue, or the database was put back from a copy; each project needs a queue of its own",
            self._queue, run,
        )  # fmt: skip

    def _hear(self, error: RPCError) -> None:
        """A no is an answer, too: our key may carry runs and not look at the namespace."""
        if error.status in AWAY:
            self._lose(error)
        else:
            self._find()

    def _lose(self, error: RPCError) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.error(
                "Temporal at %s cannot be reached (%s); it is asked again, and runs go on once it answers",
                self._address, error.message or error.status.name,
            )  # fmt: skip

    def _find(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.info("Temporal at %s answers again, and runs go on", self._address)


async def look_at_begun(begins: WithStartWorkflowOperation[Any, Any]) -> None:
    """What went wrong with an update is kept a second time, and told as a defect where nobody looks at it there."""
    with contextlib.suppress(asyncio.CancelledError, TemporalError):
        await begins.workflow_handle()
