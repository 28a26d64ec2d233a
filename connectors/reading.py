"""From an answer to an outcome, by the words of a connector file. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.answers import Seen, Unreadable, by_status, by_word, media_type
from connectors.model import ActionModel, FailureModel, FindModel, LookupModel
from connectors.rendering import answered, holds
from runner.contract import Json, Outcome, optional
from runner.errors import EvaluationError
from runner.language.types import field_type, read_money


def outcome_of(model: ActionModel, seen: Seen, *, undo: bool) -> Outcome:
    """What became of a read or a write."""
    if _was_replayed(model, seen):
        return _applied(model, seen)
    said = next((line for line in model.failures or () if _is_true(line, seen)), None)
    word, reads = said.is_ if said is not None else None, bool(model.reads)
    if reads and (word == "not_found" or (word is None and seen.answer.status == 404)):
        return Outcome(result="applied", output={"found": False})
    if said is not None:
        return seen.outcome(*by_word(said.is_, undo=undo), _say(said, seen))
    if by_status(seen.answer)[0] != "applied":
        return seen.failed()
    try:
        _check_readable(model, seen)
        if model.success is not None and not _passes(model.success, seen):
            return seen.doubtful("unknown", "its answer does not pass the connector's success test")
    except Unreadable as error:
        return seen.doubtful("unreadable", str(error))
    return _applied(model, seen)


def _applied(model: ActionModel, seen: Seen) -> Outcome:
    try:
        output = _output(model.output or {}, model.result or {}, seen)
        external_id = _outside_id(model.external_id, seen)
    except (Unreadable, EvaluationError) as error:
        return seen.doubtful("unreadable", str(error))
    if model.reads:
        output["found"] = True
    return Outcome(result="applied", output=output, external_id=external_id)


def _was_replayed(model: ActionModel, seen: Seen) -> bool:
    """The service says that it had carried our key out before."""
    try:
        return model.key is not None and model.key.replayed is not None and holds(model.key.replayed, seen.scope)
    except EvaluationError:
        return False


def counted(model: LookupModel | FindModel, action: ActionModel, seen: Seen) -> Outcome:
    """What a find or look-up found. A 404 says how many only if `count` asks for the status."""
    ok = 200 <= seen.answer.status < 300
    if not ok and not (seen.answer.status == 404 and "response.status" in model.count):
        return seen.failed()
    try:
        count = answered(model.count, seen.scope)
    except EvaluationError as error:
        return seen.doubtful("unreadable", f"how many it found cannot be told: {error}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        return seen.doubtful("unreadable", "how many it found is not a whole number")
    if count != 1:
        return Outcome(result="applied", count=count)
    try:
        output = _output(action.output or {}, model.output or {}, seen)
        return Outcome(result="applied", count=1, output=output, external_id=_outside_id(model.external_id, seen))
    except (Unreadable, EvaluationError) as error:
        return seen.doubtful("unreadable", str(error))


def _is_true(line: FailureModel, seen: Seen) -> bool:
    try:
        return holds(line.when, seen.scope)
    except EvaluationError:
        # the answer is not of the shape this line speaks of; the default rules still guard it
        return False


def _say(line: FailureModel, seen: Seen) -> str:
    try:
        said = answered(line.say or "", seen.scope)
    except EvaluationError:
        said = ""
    if isinstance(said, str) and said.strip():
        return " ".join(said.split())
    return f"{seen.host} answered {seen.answer.status} ({line.is_.replace('_', ' ')})"


def _passes(success: str, seen: Seen) -> bool:
    try:
        return holds(success, seen.scope)
    except EvaluationError as error:
        raise Unreadable(f"the success test cannot be answered: {error}") from None


def _check_readable(model: ActionModel, seen: Seen) -> None:
    """A body must be what it says, and JSON where the connector states no success test of its own. A page for people,
    such as a log-in, is no answer, whatever its status says, unless the test reads the text."""
    kind, success = media_type(seen.answer), model.success
    is_page = "html" in kind and "response.text" not in (success or "")
    if not seen.is_json and (success is None or "json" in kind or is_page):
        raise Unreadable(f"its body ({kind or 'without a content type'}) is not JSON")


def _output(fields: Mapping[str, Json], sources: Mapping[str, Json], seen: Seen) -> dict[str, Json]:
    """The output by its declared fields. Raises Unreadable, EvaluationError."""
    content = seen.scope["response"]["json"]
    found: dict[str, Json] = {}
    for name, kind in fields.items():
        value = content.get(name) if isinstance(content, dict) and name not in sources else None
        if name in sources:
            try:
                value = answered(sources[name], seen.scope)
            except EvaluationError:
                if not optional(kind):
                    raise
        if value is None and not optional(kind):
            raise Unreadable(f'its answer has no "{name}"')
        found[name] = None if value is None else _fitted(name, kind, value)
    return found


_PLAIN: Mapping[str, tuple[type, ...]] = {
    "": (object,),
    "any": (object,),
    "number": (int, float),
    "integer": (int,),
    "yes_no": (bool,),
    "list": (list,),
    "record": (dict,),
    "money": (dict,),
}


def _fitted(name: str, kind: Json, value: Json) -> Json:
    """The value as the declared type has it: an id that comes as a number becomes the text it is declared to be."""
    try:
        value = read_money(field_type(kind), value, strict=True)
    except ValueError as error:
        raise Unreadable(f'"{name}" in its answer {error}') from None
    word = kind.removesuffix(" or empty") if isinstance(kind, str) else ""
    if word == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    is_wrong_switch = isinstance(value, bool) and word in ("number", "integer")
    if is_wrong_switch or not isinstance(value, _PLAIN.get(word, (str,))):
        raise Unreadable(f'"{name}" in its answer is not {"a " + word.replace("_", "/")}')
    return value


def _outside_id(template: str | None, seen: Seen) -> str:
    if template is None:
        return ""
    value = answered(template, seen.scope)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise Unreadable("its answer has no outside id")
    return str(value)
