"""What came and led to no run, taken again by a person: the flow was mended, or it is an event of its own after all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runner.contract import Json
from runner.errors import NotFound, NotPossible
from runner.store.arrivals import LOST, Arrival, Arrived, found
from runner.triggers.bodies import Unreadable, read_body
from runner.triggers.intake import Coming
from runner.triggers.parts import Parts

RETAKEN = LOST


async def take_again(parts: Parts, name: str, flow: str, *, by: str, reason: str) -> Arrived:
    """Takes the arrival of this id (or its beginning) again with the flow as it is now. A conflict becomes an event of
    its own. Raises NotFound, NotPossible."""
    arrival = one_arrival(parts.store.ask(found(name, flow=flow)), name)
    if not reason.strip():
        raise NotPossible("say why it is taken again, in one sentence (--reason); it stands in the log")
    if arrival.status not in RETAKEN:
        led = f" and led to run {arrival.run}" if arrival.run else ""
        raise NotPossible(f"{arrival.id} is {arrival.status}{led}; what can be taken again is {', '.join(RETAKEN)}")
    kind, _, trigger = arrival.source.partition(":")
    armed = [one for one in parts.active.on(kind, trigger) if one.flow == arrival.flow]
    if not armed:
        raise NotPossible(f"flow {arrival.flow} has no {kind} {trigger} any more, so there is nothing to take it")
    coming = Coming(
        id=arrival.id, digest=arrival.digest, names=_names(arrival), starter=by, why=reason, is_again=True,
        is_apart=arrival.status == "conflict",
    )  # fmt: skip
    (took,) = await parts.intake.take(armed[:1], coming)
    return took


def one_arrival(rows: Any, name: str) -> Arrival:
    """The one that is meant. Raises NotFound, NotPossible where it may be several."""
    if not rows:
        raise NotFound(f'nothing came with the id "{name}"; `amends triggers arrivals` lists what came')
    if len(rows) > 1:
        ids, flows = sorted({row.id for row in rows}), sorted({row.flow for row in rows})
        way = (
            f"name one of its flows with --flow: {', '.join(flows)}" if len(ids) == 1 else f"it may be {', '.join(ids)}"
        )
        raise NotPossible(f'"{name}" is not one arrival alone; {way}')
    found_one: Arrival = rows[0]
    return found_one


def _names(arrival: Arrival) -> Mapping[str, Json]:
    try:
        names: dict[str, Json] = json.loads(arrival.content)
    except ValueError:
        raise NotPossible(f"only the beginning of {arrival.id} was kept; have it sent again") from None
    if arrival.status != "unreadable" or "raw" not in names:
        return names
    if "\ufffd" in names["raw"]:
        raise NotPossible(f"the bytes of {arrival.id} were no text and are not kept as they came; have it sent again")
    try:
        return {"body": read_body(names["headers"], names["raw"].encode()), "headers": names["headers"]}
    except Unreadable as error:
        raise NotPossible(f"{arrival.id} still cannot be read: {error}; have it sent again") from None
