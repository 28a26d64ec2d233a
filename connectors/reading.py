"""From an answer to an outcome, by the words of a connector file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connectors.answers import (
    Unreadable,
    by_status,
    by_word,
    evidence,
    found_nothing,
    media_type,
    response_scope,
    retry_after,
    say_status,
)
from connectors.client import Answer
from connectors.model import ActionModel, FailureModel, FindModel, LookupModel
from connectors.rendering import NOW, ZONE, answered
from runner.contract import Json, Outcome, optional
from runner.errors import EvaluationError
from runner.language.expressions import condition


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """An answer with everything that is needed to say what it means. `scope` is what expressions see."""

    answer: Answer
    scope: Mapping[str, Json]
    host: str
    url: str
    now: int
    redact: Callable[[str], str]
    is_json: bool

    @classmethod
    def of(
        cls,
        answer: Answer,
        scope: Mapping[str, Json],
        *,
        host: str,
        url: str,
        now: int,
        redact: Callable[[str], str],
    ) -> Seen:
        """`scope` without `response`, which is added here."""
        response, is_json = response_scope(answer)
        full = {**scope, "response": response}
        return cls(answer=answer, scope=full, host=host, url=url, now=now, redact=redact, is_json=is_json)

    def outcome(self, result: str, reason: str, summary: str) -> Outcome:
        """An outcome that is no success, with its evidence."""
        return Outcome(
            result=result,  # type: ignore[arg-type]
            reason=reason,  # type: ignore[arg-type]
            summary=self.redact(summary)[:500],
            retry_after=retry_after(self.answer, self.now) if result != "applied" else None,
            evidence=evidence(self.answer, self.redact),
        )

    def unreadable(self, why: str) -> Outcome:
        """A success by its status that cannot be taken for one."""
        return self.outcome("unknown", "unreadable", f"{self.host} answered {self.answer.status}, and {why}")


def outcome_of(model: ActionModel, seen: Seen, *, undo: bool) -> Outcome:
    """What became of a read or a write."""
    reads = bool(model.reads)
    said = _first_failure(model.failures or [], seen)
    if said is not None:
        result, reason = by_word(said.is_, undo=undo)
        if reads and said.is_ == "not_found":
            return found_nothing()
        return seen.outcome(result, reason, _say(said, seen))
    if reads and seen.answer.status == 404:
        return found_nothing()
    result, reason = by_status(seen.answer)
    if result != "applied":
        return seen.outcome(result, reason, say_status(seen.answer, seen.host, seen.url))
    return _success(model, seen, reads)


def counted(model: LookupModel | FindModel, action: ActionModel, seen: Seen) -> Outcome:
    """What a find or look-up found. A 404 says how many only if `count` asks for the status."""
    ok = 200 <= seen.answer.status < 300
    if not ok and not (seen.answer.status == 404 and "response.status" in model.count):
        result, reason = by_status(seen.answer)
        return seen.outcome(result, reason, say_status(seen.answer, seen.host, seen.url))
    try:
        count = answered(model.count, seen.scope)
    except EvaluationError as error:
        return seen.unreadable(f"how many it found cannot be told: {error}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return seen.unreadable("how many it found is not a whole number")
    if count != 1:
        return Outcome(result="applied", count=count)
    try:
        output = _output(action.output or {}, model.output or {}, seen)
        return Outcome(result="applied", count=1, output=output, external_id=_outside_id(model.external_id, seen))
    except (Unreadable, EvaluationError) as error:
        return seen.unreadable(str(error))


def _first_failure(lines: list[FailureModel], seen: Seen) -> FailureModel | None:
    for line in lines:
        try:
            if condition(line.when, seen.scope, now=NOW, zone=ZONE):
                return line
        except EvaluationError:
            # the answer is not of the shape this line speaks of; the default rules still guard it
            continue
    return None


def _say(line: FailureModel, seen: Seen) -> str:
    if line.say is not None:
        try:
            said = answered(line.say, seen.scope)
            if isinstance(said, str) and said.strip():
                return " ".join(said.split())
        except EvaluationError:
            pass
    return f"{seen.host} answered {seen.answer.status} ({line.is_.replace('_', ' ')})"


def _success(model: ActionModel, seen: Seen, reads: bool) -> Outcome:
    if model.success is not None:
        try:
            if not condition(model.success, seen.scope, now=NOW, zone=ZONE):
                why = "its answer does not pass the connector's success test"
                return seen.outcome("unknown", "unknown", f"{seen.host} answered {seen.answer.status}, and {why}")
        except EvaluationError as error:
            return seen.unreadable(f"the success test cannot be answered: {error}")
    try:
        _check_readable(model, seen)
        output = _output(model.output or {}, model.result or {}, seen)
        external_id = _outside_id(model.external_id, seen)
    except (Unreadable, EvaluationError) as error:
        return seen.unreadable(str(error))
    if reads:
        output["found"] = True
    return Outcome(result="applied", output=output, external_id=external_id)


def _check_readable(model: ActionModel, seen: Seen) -> None:
    """A body must be what it says, and JSON where the connector states no success test of its own."""
    kind = media_type(seen.answer)
    if not seen.is_json and (model.success is None or "json" in kind):
        raise Unreadable(f"its body ({kind or 'without a content type'}) is not JSON")


def _output(fields: Mapping[str, Json], sources: Mapping[str, Json], seen: Seen) -> dict[str, Json]:
    """The output by its declared fields. Raises Unreadable, EvaluationError."""
    content = seen.scope["response"]["json"]
    found: dict[str, Json] = {}
    for name, kind in fields.items():
        if name in sources:
            try:
                value = answered(sources[name], seen.scope)
            except EvaluationError:
                if not optional(kind):
                    raise
                value = None
        else:
            value = content.get(name) if isinstance(content, Mapping) else None
        if value is None and not optional(kind):
            raise Unreadable(f'its answer has no "{name}"')
        found[name] = None if value is None else _fitted(name, kind, value)
    return found


_PLAIN: Mapping[str, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "yes_no": (bool,),
    "list": (list,),
    "record": (dict,),
}


def _fitted(name: str, kind: Json, value: Json) -> Json:
    """The value as the declared type has it: an id that comes as a number becomes the text it is declared to be."""
    word = kind.removesuffix(" or empty") if isinstance(kind, str) else ""
    if word == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    wanted = _PLAIN.get(word, (str,) if word else (object,))
    if word == "money":
        wanted = (int, float, dict)
    if not isinstance(value, wanted) or (isinstance(value, bool) and word in ("number", "integer", "money")):
        raise Unreadable(f'"{name}" in its answer is not {"a " + word.replace("_", "/")}')
    return value


def _outside_id(template: str | None, seen: Seen) -> str:
    if template is None:
        return ""
    value = answered(template, seen.scope)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise Unreadable("its answer has no outside id")
    return str(value)
