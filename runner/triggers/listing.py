"""The triggers of a project as people see them: where each listens or when it fires, what came last, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.contract import Json
from runner.language.bundle import restore
from runner.language.flow import Flow
from runner.language.project import Project
from runner.store.active import ActiveFlow, active_flows
from runner.store.arrivals import Arrival, listed, troubles
from runner.store.views import Views
from runner.triggers.active import triggers_in

NOT_SERVED = "starts with the next `amends serve`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One trigger. `place` is its address or its time, `problem` what keeps it or the flow's new text out."""

    flow: str
    kind: str
    name: str
    place: str
    problem: str = ""
    last: Arrival | None = None


def triggers_of(project: Project, store: Views | None, address: str) -> Iterator[Listed]:
    """Every trigger of the active versions, and of flows that are not active yet. `address` is the public URL; `store`
    is None where there is no database."""
    known = store.ask(active_flows) if store is not None else {}
    why = store.ask(troubles) if store is not None else {}
    written = {each.flow.id: each.flow for each in project.check() if each.flow is not None}
    for name in sorted({*known, *written}):
        active = known.get(name)
        flow = _active(store, active) if active is not None and store is not None else None
        problem = active.problem if active is not None and active.problem else "" if flow else NOT_SERVED
        shown = flow or written.get(name)
        for kind, trigger, said in triggers_in(shown) if shown is not None else ():
            place = _place(kind, trigger, said, address.rstrip("/"))
            source = f"{kind}:{trigger}"
            came = store.ask(listed(flow=name, source=source, limit=1)) if store is not None else ()
            yield Listed(
                flow=name, kind=kind, name=trigger, place=place, problem=problem or _trouble(why, source, name),
                last=came[0] if came else None,
            )  # fmt: skip


def _trouble(why: Mapping[str, str], source: str, flow: str) -> str:
    """What keeps a mailbox, or a poll of this flow, from being looked at just now."""
    return next((told for at, told in why.items() if at == source or at.startswith(f"{source}:{flow}:")), "")


def _active(store: Views, active: ActiveFlow) -> Flow | None:
    return restore(active.bundle, store.bundle(active.bundle)).flow if active.bundle else None


def _place(kind: str, name: str, said: Mapping[str, Json], address: str) -> str:
    if kind in ("webhook", "form"):
        return f"{address}/{'hooks' if kind == 'webhook' else 'forms'}/{name}"
    words = {"schedule": said.get("zone"), "poll": said.get("every")}
    return " ".join(str(word) for word in (name, words.get(kind)) if word)
