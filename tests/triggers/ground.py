"""A project whose flows start by themselves, with the triggers taken by hand or running."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runner.contract import Json, digest
from runner.store.arrivals import Arrival, Arrived, listed
from runner.triggers.intake import Coming
from runner.triggers.running import running
from tests.cases.ground import Engine, Ground, opened

LOGS = (
    "  - id: log\n    do: shop.log\n    with: { note: \"${{ inputs.name }}\" }\n"
    "    compensate: { none: It only counts. }\n"
)  # fmt: skip

SECRET = "whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI="
"""The secret of every sender, as Standard Webhooks writes it."""
SENDERS = "sender: { connector: webhook, scheme: hmac, header: X-Sum, secret: { secret: SENDER } }\n" + "".join(
    f"{scheme}: {{ connector: webhook, scheme: {scheme}, secret: {{ secret: SENDER }} }}\n"
    for scheme in ("standard", "github", "stripe", "slack")
)


def starts(name: str, trigger: str, *, inputs: str = "{ name: text }", steps: str = LOGS, more: str = "") -> str:
    """A live flow that starts by itself; deliveries to its hooks come from the sender of this ground."""
    trigger = re.sub(r"( *)- (webhook: \w+\n)(?! *signed_by)", r"\1- \2\1  signed_by: sender\n", trigger)
    return (
        f"flow: {name}\ntitle: A flow that starts by itself\nowner: person:me\nmode: live\n"
        f"run_key: ${{{{ trigger.id }}}}\n{more}trigger:\n{trigger}inputs: {inputs}\nsteps:\n{steps}"
    )


@asynccontextmanager
async def serving(ground: Ground) -> AsyncIterator[Engine]:
    """The engine with what starts runs by itself, as `amends serve` has them."""
    prove(ground)
    async with ground.engine() as engine:
        triggers = engine.driver.triggers
        async with triggers.active.watching(), running(triggers):
            yield engine


@asynccontextmanager
async def served(folder: Path, *flows: str) -> AsyncIterator[tuple[Ground, Engine]]:
    """A project with these flows, being served."""
    async with opened(folder, *flows) as ground, serving(ground) as engine:
        yield ground, engine


def prove(ground: Ground) -> None:
    """Gives the project its senders: each scheme one, `sender` in the plainest way."""
    lines = ground.folder / "connections.yaml"
    lines.write_text(lines.read_text(encoding="utf-8").replace(SENDERS, "") + SENDERS, encoding="utf-8")
    secrets = ground.folder / ".env"
    kept = secrets.read_text(encoding="utf-8") if secrets.exists() else ""
    if "SENDER=" not in kept:
        secrets.write_text(f"{kept}SENDER={SECRET}\n", encoding="utf-8")


async def take(engine: Engine, kind: str, name: str, arrival: str, **names: Json) -> Sequence[Arrived]:
    """One event at every flow that has this trigger."""
    triggers = engine.driver.triggers
    coming = Coming(id=arrival, digest=digest(names), names=names)
    return await triggers.intake.take(triggers.active.on(kind, name), coming)


def arrivals(engine: Engine, **wanted: Any) -> list[Arrival]:
    """What came, newest first."""
    return list(engine.store.ask(listed(**wanted)))
