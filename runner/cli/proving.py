"""`amends connectors test`: what a connector says of its actions, held against the service itself.

Each write is made once and, by its class, once more: a key gives one effect, a look-up finds what was made, an undo
takes it back, a wrong input is refused. What can be taken back is taken back at the end; what cannot is named.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from runner.cli import FAILED, OK, page, place
from runner.cli.trying import Watched, With, action_of, opened, read_with, send, undo_input
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, canonical, optional
from runner.errors import AmendsError, EvaluationError, NotPossible, RequestError
from runner.language.connections import Connection
from runner.language.fields import field_types
from runner.language.types import sample_entry
from runner.telling.times import counted
from runner.telling.words import bare, plain

LONGEST_WAIT = 30_000
"""ms that a look-up's delay is waited for."""
VERDICTS = ("holds", "fails", "not tested")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One line of the table. `verdict` is holds, fails or not tested."""

    action: str
    check: str
    verdict: str
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """One thing that was made there."""

    action: Action
    values: Mapping[str, Json]
    outcome: Outcome

    @property
    def spoken(self) -> str:
        known = self.outcome.external_id or "without an outside id"
        return f"{self.action.name} {known}"


def prove(
    connection: Annotated[str, typer.Argument(metavar="CONNECTION", help="A connection marked sandbox: true.")],
    only: Annotated[
        list[str] | None, typer.Option("--action", help="Only this action; may be given several times.")
    ] = None,
    given: With = None,
    really: Annotated[bool, typer.Option("--yes-really", help="Although it is not marked as a sandbox.")] = False,
    as_json: place.AsJson = False,
) -> None:
    with opened(connection) as (outside, line):
        if not line.is_sandbox and not really:
            raise NotPossible(
                f"{connection} is not marked as a sandbox, and these checks make and remove things there; "
                "write sandbox: true into its line of connections.yaml, or say --yes-really"
            )
        actions = [action_of(line, word) for word in only or line.actions]
        values = read_with(given or [], {name: kind for each in actions for name, kind in each.input.items()})
        proof = _Proof(line=line, outside=outside, connector=outside.present(connection), given=values)
        asyncio.run(proof.prove(actions))
    fails = any(one.verdict == "fails" for one in proof.found)
    if as_json:
        page.say_json({"connection": connection, "checks": [asdict(one) for one in proof.found], "left": proof.left})
    else:
        _tell(proof)
    raise typer.Exit(FAILED if fails else OK)


def _tell(proof: _Proof) -> None:
    rows = [(one.action, one.check, one.verdict, plain(bare(one.why))) for one in proof.found]
    page.show(page.listed(("action", "check", "verdict", "why"), rows, fixed=(0, 2)))
    holds, fails, untested = (sum(one.verdict == verdict for one in proof.found) for verdict in VERDICTS)
    page.say("", f"{counted(len(rows), 'check')}: {holds} hold, {fails} fail, {untested} not tested.")
    page.say(f"Left there: {', '.join(proof.left)}." if proof.left else "Nothing was left there.")


@dataclass(kw_only=True)
class _Proof:
    line: Connection
    outside: Watched
    connector: Connector
    given: Mapping[str, Json]
    found: list[Found] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    async def prove(self, actions: list[Action]) -> None:
        """All checks, the writes first; what was made is taken back in the end, whatever happens."""
        undoing = {action.undo.action for action in self.line.actions.values() if action.undo is not None}
        writes = [action for action in actions if action.effect != "read" and action.name not in undoing]
        try:
            for action in writes:
                await self._write(action)
            for action in actions:
                if action.effect == "read":
                    await self._read(action)
            for action in actions:
                if action.effect != "read":
                    await self._wrong(action)
        finally:
            for made in reversed(self.made):
                await self._take_back(made)
            await self.connector.close()

    def say(self, action: str, check: str, verdict: str | bool, why: str = "") -> None:
        verdict = verdict if isinstance(verdict, str) else "holds" if verdict else "fails"
        self.found.append(Found(action=action, check=check, verdict=verdict, why=why))

    def input_of(self, action: Action) -> dict[str, Json]:
        """A made-up input: what was given, what was seen, else something of its type that is new each time."""
        values: dict[str, Json] = {}
        known = self._known_for(action)
        for name, shape in field_types(action.input).items():
            if name in self.given:
                values[name] = self.given[name]
            elif not optional(action.input[name]):
                values[name] = known.get(name, _made_up(name, shape))
        return values

    def _known_for(self, action: Action) -> Mapping[str, Json]:
        """What was answered when the thing was made that this action is about, by their names: get_contact, contact."""
        words = set(action.name.split("_"))
        alike = max(self.made, key=lambda one: len(words & set(one.action.name.split("_"))), default=None)
        return (
            {} if alike is None else {name: value for name, value in alike.outcome.output.items() if value is not None}
        )

    async def _call(
        self, action: Action, values: Mapping[str, Json], key: str, purpose: Purpose, request: Request | None = None
    ) -> Outcome:
        """One call; an input that makes no request is `not_sent` and invalid."""
        try:
            request = request or self.connector.prepare(action.name, values, key=key, purpose=purpose)
        except (RequestError, EvaluationError) as error:
            return Outcome(result="not_sent", reason="invalid", summary=str(error))
        if purpose != "read" and self.outside.redact(text := canonical(request.body).decode()) != text:
            self.say(action.name, "keeps no secret", "fails", "a secret stands in the request that is kept")
        return await send(self.connector, action.name, request, key=key, purpose=purpose, limit=action.timeout)

    async def _write(self, action: Action) -> None:
        values, key = self.input_of(action), _new_key()
        if action.has_lookup:
            before = await self._call(action, values, key, "lookup")
            self.say(action.name, "not found before", before.count == 0, _of_count(before))
        outcome = await self._call(action, values, key, "do")
        if outcome.result in ("refused", "not_sent"):
            why = f"{bare(outcome.summary)}; give a fitting input: --with NAME=VALUE"
            self.say(action.name, "is done", "not tested", why)
            return
        self.say(action.name, "is done", outcome.result == "applied", outcome.summary)
        if outcome.result != "applied":
            self.left.append(f"maybe {action.name} ({', '.join(map(str, values.values()))})")
            return
        self.made.append(Made(action=action, values=values, outcome=outcome))
        if action.effect == "keyed":
            await self._again(action, values, key, outcome)
        if action.has_lookup:
            await asyncio.sleep(min(action.lookup_delay, LONGEST_WAIT) / 1000)
            after = await self._call(action, values, key, "lookup")
            same = after.count == 1 and after.external_id == outcome.external_id
            self.say(action.name, "found afterwards", same, _of_count(after, outcome))
        if action.find_by and all(name in values for name in action.find_by):
            by = {name: values[name] for name in action.find_by}
            seen = await self._call(action, by, _new_key(), "find")
            self.say(action.name, f"found by {', '.join(by)}", seen.count == 1, _of_count(seen, outcome))

    async def _again(self, action: Action, values: Mapping[str, Json], key: str, first: Outcome) -> None:
        """The same request under the same key: one effect."""
        again = await self._call(action, values, key, "do")
        if again.result != "applied":
            self.say(action.name, "the same key again", "fails", again.summary)
            return
        known = (first.external_id or canonical(first.output), again.external_id or canonical(again.output))
        if known[0] == known[1]:
            self.say(action.name, "the same key again", "holds")
            return
        self.made.append(Made(action=action, values=values, outcome=again))
        self.say(action.name, "the same key again", "fails", "it answered with another outside id: two effects")

    async def _read(self, action: Action) -> None:
        outcome = await self._call(action, self.input_of(action), _new_key(), "read")
        if outcome.result == "applied":
            nothing = "nothing of that kind is there" if outcome.output.get("found") is False else ""
            self.say(action.name, "is read", "holds", nothing)
        elif outcome.result == "refused" or outcome.reason == "invalid":
            self.say(
                action.name,
                "is read",
                "not tested",
                f"{bare(outcome.summary)}; give a fitting input: --with NAME=VALUE",
            )
        else:
            self.say(action.name, "is read", "fails", outcome.summary)

    async def _wrong(self, action: Action) -> None:
        values = self.input_of(action)
        wrong = {name: _nonsense(kind, values.get(name)) for name, kind in action.input.items() if not optional(kind)}
        if wrong == {name: values.get(name) for name in wrong}:
            self.say(action.name, "wrong input refused", "not tested", "no field of it can be made wrong")
            return
        outcome = await self._call(action, {**values, **wrong}, _new_key(), "do")
        if outcome.result == "not_sent" and outcome.reason == "invalid":
            path = {name: "no-such-thing" if value == "" else value for name, value in wrong.items()}
            outcome = await self._call(action, {**values, **path}, _new_key(), "do")
        if outcome.result == "applied":
            self.made.append(Made(action=action, values=values, outcome=outcome))
            self.say(action.name, "wrong input refused", "not tested", "the service took it")
        else:
            is_clear = outcome.result == "refused" or outcome.reason == "invalid"
            self.say(action.name, "wrong input refused", is_clear, outcome.summary)

    async def _take_back(self, made: Made) -> None:
        action = made.action
        if action.undo is None:
            self.left.append(made.spoken)
            return
        undo = self.line.actions[action.undo.action]
        try:
            values = undo_input(action, made.values, made.outcome.output)
            outcome = await self._call(undo, values, _new_key(), "undo")
        except AmendsError as error:
            outcome = Outcome(result="not_sent", summary=str(error))
        self.say(action.name, f"undone by {undo.name}", outcome.result == "applied", outcome.summary)
        if outcome.result != "applied":
            self.left.append(made.spoken)


def _new_key() -> str:
    return f"test-{secrets.token_hex(16)}"


def _made_up(name: str, shape: Any) -> Json:
    token = secrets.token_hex(4)
    if shape.kind == "email":
        return f"amends-{token}@example.test"
    if shape.kind == "text":
        text = f"amends test {token}"
        return text[: int(shape.most)] if shape.most is not None else text.ljust(int(shape.least or 0), ".")
    return sample_entry(name, shape)


def _nonsense(kind: Json, value: Json) -> Json:
    """A value that fits the type and makes no sense; the same value where there is none."""
    word = kind.removesuffix(" or empty") if isinstance(kind, str) else next(iter(kind), "")
    return {"text": "", "number": -1, "integer": -1}.get(str(word), value)


def _of_count(seen: Outcome, made: Outcome | None = None) -> str:
    if seen.result != "applied":
        return seen.summary
    if made is not None and seen.count == 1 and seen.external_id != made.external_id:
        return f"{seen.external_id or 'no outside id'} was found, and {made.external_id or 'none'} was made"
    return f"{counted(seen.count or 0, 'record')} found"
