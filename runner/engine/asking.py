"""What people approve: the exact requests, where they go and by which secrets, under one hash. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from runner.contract import Connector, Json, Purpose, digest
from runner.core import events as e
from runner.core.calls import next_handoff
from runner.core.commands import Ask, Send
from runner.core.consents import UNDO
from runner.core.state import State
from runner.core.undoing import FAILED_CHOICES
from runner.engine.driven import Desk
from runner.errors import EvaluationError, RequestError, SettingsError
from runner.language.bundle import Bundle

Connect = Callable[[str], Connector]
NO_KEY = "-"
"""Our key is no part of what is approved: a later attempt has another one."""


def ask(bundle: Bundle, state: State, wanted: Ask, connect: Connect, desk: Desk) -> e.Event:
    """The fact that people are asked, with everything they are shown; or that it cannot be asked."""
    request, steps = wanted.request, {}
    try:
        for path, cover in wanted.covers.items():
            prepared = requests_of(bundle, path, cover.action, cover.parts, cover.purpose, connect, desk)
            steps[path] = {
                "action": cover.action, "input": cover.input, "requests": [body for body, _ in prepared],
                "hashes": [hash_ for _, hash_ in prepared], "to": connect(cover.action.partition(".")[0]).origin(),
                "item": cover.item,
            }  # fmt: skip
    except (RequestError, EvaluationError, SettingsError) as error:
        return _cannot_ask(state, request, str(error))
    asked = desk.entitled(bundle, state, request.by, request.at)
    if len(asked) < request.needs:
        found = f"{len(asked)} of the {request.needs} who" if request.needs > 1 else "Nobody who"
        why = f"{found} must approve this can be asked ({' or '.join(request.by)})."
        others = (wanted.escalate_to,) if wanted.escalate_to and state.mode != "draft" else ()
        request = replace(request, by=(*request.by, *others), half=0)  # without them it could only wait
        asked = desk.entitled(bundle, state, request.by, request.at)
        if len(asked) < request.needs:
            return _cannot_ask(state, request, why)
    shown = {**request.shown, "steps": steps}
    return replace(request, asked=asked, shown=shown, hash=digest([bundle.digest, request.round, request.at, shown]))


def _cannot_ask(state: State, request: e.ApprovalRequested, why: str) -> e.Event:
    if not request.approval.endswith(UNDO):
        return e.StepFailed(at=request.at, step=request.step, kind="no", summary=why)
    return e.HandedOff(
        at=request.at, step=request.step, handoff=next_handoff(state), kind="request", owner=state.owner,
        choices=FAILED_CHOICES, summary=why, purpose="undo",
    )  # fmt: skip


def _prepared(
    bundle: Bundle, path: str, action: str, part: Mapping[str, Json], purpose: Purpose, connect: Connect, desk: Desk
) -> tuple[Mapping[str, Json], str]:
    """One request as it will be sent, and the hash that an approval binds."""
    connection, _, name = action.partition(".")
    connector = connect(connection)
    request = connector.prepare(name, part, key=NO_KEY, purpose=purpose)
    leads_to = desk.leads_to(bundle, connection)
    return request.body, digest([bundle.digest, path, action, connector.origin(), leads_to, request.hash])


def requests_of(
    bundle: Bundle, path: str, action: str, parts: tuple[Mapping[str, Json], ...], purpose: Purpose, connect: Connect,
    desk: Desk,
) -> list[tuple[Mapping[str, Json], str]]:  # fmt: skip
    """(as it will be sent, the hash that an approval binds) of each part of a covered step.

    Raises RequestError, EvaluationError, SettingsError.
    """
    return [_prepared(bundle, path, action, part, purpose, connect, desk) for part in parts]


def why_lapsed(
    bundle: Bundle, state: State, send: Send, now: int, connect: Connect, desk: Desk
) -> e.ApprovalLapsed | None:
    """Everything is looked at again at the moment of sending: the content, where it goes, and who said yes."""
    _, hash_ = _prepared(bundle, send.step, send.action, send.input, send.purpose, connect, desk)
    for name, approved in send.gates:
        gate, why = state.gates[name], ""
        entitled = desk.entitled(bundle, state, gate.by, now)
        gone = next((yes.by for yes in gate.yes if yes.by not in entitled), "")
        if hash_ != approved:
            why = "what would be sent, or where it goes, has changed since"
        elif gone:
            why = f"{gone} may not approve this any more"
        if why:
            step = name.removesuffix(UNDO)
            return e.ApprovalLapsed(at=now, step=step, approval=name, round=gate.round, why=why)
    return None
