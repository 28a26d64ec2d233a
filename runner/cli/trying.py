"""`amends connectors try`: one action, called for real, with all that is said to and fro and what it would mean."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Annotated, cast

import typer

from runner.app import Amends
from runner.cli import FAILED, OK, page, place, watching
from runner.clock import MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request
from runner.core.retry import next_move, policy
from runner.core.state import Call
from runner.errors import EvaluationError, NotFound, NotPossible, RequestError
from runner.language.connections import Connection
from runner.language.expressions import evaluate
from runner.language.fields import field_type, typed_value
from runner.language.flow import RetryWords
from runner.language.nearest import did_you_mean
from runner.language.types import read_money
from runner.outside import ProjectOutside
from runner.telling import times
from runner.telling.words import PROGRAM, bare, plain, sentence

LONGEST = 4_000
"""Signs of a body that are shown."""
SAYS: Mapping[str, str] = {
    "keyed": "the service knows our key: the same again is harmless",
    "lookup": "the service can be asked whether it happened",
    "once": "it is tried once: a lost answer goes to a person",
}

With = Annotated[list[str] | None, typer.Option("--with", "-w", metavar="NAME=VALUE", help="One field of its input.")]


class Watched(ProjectOutside):
    """The project's connections; `heard` is what was said to and fro, without secrets."""

    def __init__(self, amends: Amends) -> None:
        super().__init__(amends.project, amends.store if amends.has_log else None)
        self.heard: list[tuple[Mapping[str, Json], Mapping[str, Json]]] = []

    def exchanged(self, sent: Mapping[str, Json], answer: Mapping[str, Json]) -> None:
        """A connector says what it sent (credentials apart) and what came back."""
        self.heard.append((sent, answer))


@contextmanager
def opened(name: str) -> Iterator[tuple[Watched, Connection]]:
    """A connection of the project that may be called. Raises NotFound, NotPossible."""
    with watching.opened() as amends:
        lines = amends.project.connections
        line = lines.by_name.get(name)
        if line is None:
            why = "its line has problems: see `amends check`" if name in lines.unreadable else ""
            raise NotFound(f'there is no connection "{name}"; {why or did_you_mean(name, lines.by_name, "there are")}')
        held = amends.store.site_holds().get(f"connection:{name}") if amends.has_log else None
        if held:
            raise NotPossible(f"{name} is held by {held}; release it with `{PROGRAM} connections release {name}`")
        yield Watched(amends), line


def try_(
    called: Annotated[
        str, typer.Argument(metavar="CONNECTION.ACTION", help="A connection of this project, and what it does.")
    ],
    given: With = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send a write without asking.")] = False,
    as_json: place.AsJson = False,
) -> None:
    name, _, word = called.partition(".")
    with opened(name) as (outside, line):
        action = action_of(line, word)
        values = read_with(given or [], action.input)
        connector, key = outside.present(name), f"try-{secrets.token_hex(12)}"
        purpose: Purpose = "read" if action.effect == "read" else "do"
        request = connector.prepare(word, values, key=key, purpose=purpose)
        if not as_json:
            _show_request(outside, request, key if action.effect in ("keyed", "lookup") else "")
        if purpose == "do":
            _ask(line, action, connector.origin(), yes=yes)
        outcome = asyncio.run(_send(connector, word, request, key, purpose, action.timeout))
        meant = meaning(action, outcome)
        back = _way_back(line, action, values, outcome)
        if as_json:
            answers = [answer for _, answer in outside.heard]
            told = {"request": outside_value(outside, request.body), "answers": answers, "outcome": asdict(outcome)}
            page.say_json({**told, "means": meant, **({"back": back} if back else {})})
        else:
            _show_answers(outside, outcome)
            page.say("", f"A flow would make of it: {meant}", *([f"Take it back with  {back}"] if back else []))
    raise typer.Exit(OK if outcome.result == "applied" else FAILED)


def action_of(line: Connection, word: str) -> Action:
    """An action of a connection that can be called outside a run. Raises NotFound, NotPossible."""
    action = line.actions.get(word)
    if action is None:
        what = f'{line.name} has no action "{word}"' if word else f"say which action of {line.name} is meant"
        raise NotFound(f"{what}; {did_you_mean(word, line.actions, 'it has') or 'it has none'}")
    if action.own:
        raise NotPossible(f"{line.name}.{word} changes our own tables, which a run alone does; put it into a flow")
    return action


def read_with(given: Sequence[str], fields: Mapping[str, Json]) -> dict[str, Json]:
    """What `--with` says, by the types of the fields. Raises RequestError."""
    values: dict[str, Json] = {}
    for pair in given:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise RequestError(f'"{pair}" is not NAME=VALUE (--with)')
        if name.strip() in values:
            raise RequestError(f'"{name.strip()}" is given twice (--with); give it once')
        kind = fields.get(name.strip(), "text")
        try:
            values[name.strip()] = read_money(field_type(kind), typed_value(text, kind))
        except ValueError as error:
            raise RequestError(f"{name.strip()}: {error} (--with)") from error
    return values


async def _send(connector: Connector, word: str, request: Request, key: str, purpose: Purpose, limit: int) -> Outcome:
    try:
        return await send(connector, word, request, key=key, purpose=purpose, limit=limit)
    finally:
        await connector.close()


async def send(connector: Connector, word: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
    """One call, as the engine would make it: whatever a connector raises is `unknown`."""
    try:
        return await connector.send(word, request, key=key, purpose=purpose, limit=limit)
    except Exception as error:  # noqa: BLE001 - a byte may have left
        summary = f"The connector broke off: {type(error).__name__}."
        return Outcome(result="unknown", reason="unknown", summary=summary)


def meaning(action: Action, outcome: Outcome) -> str:
    """What a run would do about this outcome of a first try, in a sentence."""
    if outcome.result == "applied":
        if action.effect == "read":
            return (
                "there is nothing of that kind (found: no)." if outcome.output.get("found") is False else "it is read."
            )
        known = f", known outside as {outcome.external_id}" if outcome.external_id else ", without an outside id"
        return f"the step is done{known}."
    now = MachineClock().now()
    call = Call(
        action=action.name, key="try", attempt=1, tries=1, first_at=now, intended_at=now, last_at=now,
        limit=action.timeout, last=outcome.result, reason=outcome.reason, summary=outcome.summary,
        retry_after=outcome.retry_after, may_have_happened=outcome.result == "unknown",
    )  # fmt: skip
    retry = policy(action, RetryWords(), "read" if action.effect == "read" else "do")
    move = next_move(call, action, retry, now=now, can_look_up=action.has_lookup, is_closed=False)
    if move.word == "wait" and move.timer == "retry":
        same = "" if action.effect == "read" else ", with the same key"
        return f"it is tried again in about {times.span(move.due - now)}{same}, {retry.tries} times in all."
    if move.word in ("wait", "look_up"):
        return "the service is asked whether it happened; found counts as done, not found is sent again."
    if move.word == "ask":
        return "nobody knows whether it happened, so a person is asked; it is not sent again by itself."
    return "nothing was done; the step fails, and what the run has done before is made good."


# --- what is shown -------------------------------------------------------------------------------------------------


def outside_value(outside: Watched, value: Json) -> Json:
    """A value without secrets."""
    return json.loads(outside.redact(json.dumps(value, ensure_ascii=False)))


def _show_request(outside: Watched, request: Request, key: str) -> None:
    body = outside_value(outside, request.body)
    page.say("Request")
    if "method" in body and "url" in body:
        page.say(f"  {body['method']} {plain(body['url'])}")
        page.say(*(f"  {plain(name)}: {plain(value)}" for name, value in body.get("headers", {}).items()))
        _show_body(str(body.get("body", "")))
    else:
        _show_body(json.dumps(body, ensure_ascii=False))
    page.say(
        *([f"  (our key: {key})"] if key else []), "  (what proves who we are is added at the send, and not shown)"
    )


def _show_answers(outside: Watched, outcome: Outcome) -> None:
    for _, answer in outside.heard:
        page.say("", "Answer", f"  {answer['status']} {plain(answer['headers'].get('content-type', ''))}".rstrip())
        _show_body(str(answer["text"]))
    reason = f" ({outcome.reason.replace('_', ' ')})" if outcome.reason else ""
    page.say("", f"Outcome: {outcome.result.replace('_', ' ')}{reason}")
    if outcome.summary:
        page.say(f"  {sentence(outcome.summary)}")
    for name, value in outcome.output.items():
        page.say(
            f"  {name}: {_short(plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))}"
        )


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]} … ({len(text):,} signs)"


def _show_body(text: str) -> None:
    if not text.strip():
        return
    with suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    for line in text[:LONGEST].split("\n"):
        told = line.lstrip(" ")
        page.say(f"  {' ' * (len(line) - len(told))}{plain(told)}".rstrip())
    if len(text) > LONGEST:
        page.say(f"  … ({len(text):,} signs in all)")


def _ask(line: Connection, action: Action, origin: str, *, yes: bool) -> None:
    """Says what a write will do, and asks. Raises NotPossible where nobody says yes."""
    undo = f"; taken back by {action.undo.action}" if action.undo is not None else ""
    undo = f". Cannot be undone: {bare(action.cannot_undo)}" if action.cannot_undo else undo
    where = f" at {plain(origin)}" if origin else ""
    marked = " (a sandbox)" if line.is_sandbox else ""
    told = f"{line.name}.{action.name} changes something{where}{marked}: {SAYS[action.effect]}{undo}."
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotPossible(f"{bare(told)}; nothing was sent, say --yes if that is meant")
    page.say("", told)
    if not typer.confirm("Send it?"):
        raise NotPossible("nothing was sent")


def undo_input(action: Action, values: Mapping[str, Json], output: Mapping[str, Json]) -> dict[str, Json]:
    """The input of the action that takes this one back. Raises EvaluationError."""
    assert action.undo is not None
    scope = {"input": {**dict.fromkeys(action.input), **values}, "output": output}
    found = evaluate(dict(action.undo.with_), scope, now=0, zone="UTC")
    return cast("dict[str, Json]", found)


def _way_back(line: Connection, action: Action, values: Mapping[str, Json], outcome: Outcome) -> str:
    if action.undo is None or outcome.result != "applied":
        return ""
    try:
        given = undo_input(action, values, outcome.output)
    except EvaluationError:
        return ""
    told = " ".join(f"--with '{name}={value}'" for name, value in given.items())
    return f"{PROGRAM} connectors try {line.name}.{action.undo.action} {told}".rstrip()
