"""The versions of a flow, found by the beginning of their digest, and the order to move a run to one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from runner.core import events as e
from runner.core.state import State
from runner.engine.past import read_state
from runner.engine.starting import keep
from runner.errors import AlreadySo, InvalidFlow, NotFound, NotPossible, SequenceConflict
from runner.language.bundle import Bundle, assemble, restore
from runner.language.project import Project
from runner.language.versions import short
from runner.people.moving import gained_inputs, reasons_against, what_is_kept
from runner.people.operations import Order
from runner.store.facts import Store

LATEST = "latest"


def present(project: Project, flow: str) -> Bundle:
    """A flow's file as it stands, fit to run or not. Raises NotFound; InvalidFlow where it cannot be read at all."""
    checked = project.check(flow)[0]
    if checked.flow is None:
        raise InvalidFlow(checked.problems, {checked.file: checked.text})
    return assemble(checked.text, checked.file, project.facts())


def present_or_none(project: Project, flow: str) -> Bundle | None:
    """A flow's file as it stands; None where there is none that could be read."""
    try:
        return present(project, flow)
    except (NotFound, InvalidFlow):
        return None


def find_version(project: Project, store: Store | None, flow: str, wanted: str) -> Bundle:
    """The version that is meant: `latest` is the file as it stands, else the beginning of a digest.

    Raises NotFound, naming those there are, InvalidFlow, StoreCorrupt. `store` is None where nothing ever ran.
    """
    if wanted == LATEST:
        return present(project, flow)
    file = present_or_none(project, flow)
    ran = [version.bundle for version in store.versions(flow)] if store is not None else []
    known = list(dict.fromkeys([file.digest, *ran] if file is not None else ran))
    meant = [digest for digest in known if digest.startswith(wanted)]
    if len(meant) > 1:
        raise NotFound(f"{wanted} is the beginning of several versions of {flow}: {', '.join(d[:16] for d in meant)}")
    if not meant:
        there = f"there are {', '.join(map(short, known))}" if known else "it has none"
        raise NotFound(f'there is no version "{wanted}" of {flow}; {there}')
    if file is not None and file.digest == meant[0]:
        return file
    assert store is not None
    return restore(meant[0], store.bundle(meant[0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A run, the version it is on, the one it is to be moved to, and why not. `seq` is where its log ends.

    `kept` says what goes on as it began although its text changed.
    """

    old: Bundle
    new: Bundle
    state: State
    seq: int
    reasons: tuple[str, ...]
    kept: tuple[str, ...]


def plan_move(project: Project, store: Store, run: str, wanted: str) -> Plan:
    """What moving a run would mean. Raises NotFound, and InvalidFlow with every error of the file that is meant."""
    state, end = read_state(store, run)
    old = restore(state.bundle, store.bundle(state.bundle))
    new = find_version(project, store, state.flow, wanted)
    file = present_or_none(project, state.flow)
    if file is not None and file.digest == new.digest:
        project.checked(state.flow)
    asked = _open_approvals(row.event for row in store.log(run))
    reasons = () if new.digest == old.digest else reasons_against(old, new, state, asked)
    connections = (name.partition(":")[2] for name in new.texts if name.startswith("actions:"))
    lost = [name for name in connections if name not in project.connections.by_name]
    lacking = (f'The new version uses the connection "{name}", and connections.yaml has none.' for name in lost)
    kept = tuple(what_is_kept(old, new, state))
    return Plan(old=old, new=new, state=state, seq=end.seq, reasons=(*reasons, *lacking), kept=kept)


def _open_approvals(events: Iterable[e.Event | None]) -> list[e.ApprovalRequested]:
    """Approvals that were asked for and neither answered nor lapsed."""
    found: dict[tuple[str, int], e.ApprovalRequested] = {}
    for event in events:
        if isinstance(event, e.ApprovalRequested):
            found[event.approval, event.round] = event
        elif isinstance(event, e.ApprovalDecided | e.ApprovalLapsed):
            found.pop((event.approval, event.round), None)
    return list(found.values())


async def move(store: Store, project: Project, run: str, order: Order, clock: Callable[[], int]) -> None:
    """Moves a run to the version `order.reference`, if it still stands as it was looked at; else looks again.

    Raises NotPossible with every reason, AlreadySo, NotFound, InvalidFlow.
    """
    while True:
        plan = plan_move(project, store, run, order.reference)
        old, new, state = plan.old, plan.new, plan.state
        if old.digest == new.digest:
            raise AlreadySo(f"run {run} is on version {short(new.digest)} already")
        if plan.reasons:
            raise NotPossible(f"run {run} cannot be moved to version {short(new.digest)}: {' '.join(plan.reasons)}")
        await keep(store, new)
        moved = e.RunMoved(
            at=max(clock(), state.at), bundle=new.digest, by=order.by, before=old.digest,
            inputs=gained_inputs(new, state)[0],
        )  # fmt: skip
        try:
            await store.report(run, moved, plan.seq)
        except SequenceConflict:
            continue
        return
