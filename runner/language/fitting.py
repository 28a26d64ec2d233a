"""Fits a source to a strict model: the one border where pydantic's errors become problems in our words.

Where something does not fit it is told and then set aside, so that everything else of the file can still be looked at.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from runner.contract import Json
from runner.errors import Problem
from runner.language.clauses import Model
from runner.language.nearest import did_you_mean, nearest
from runner.language.signs import WIDE, with_ascii
from runner.language.source import Path, Source, as_quoted, plain_value, problem_at

MOST_ROUNDS = 12

_KINDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a map (lines of key: value)",
    "model_type": "a map (lines of key: value)",
    "list_type": 'a list (lines that begin with "- ")',
}
_PATTERNS = (
    ("manager_of", "names nobody", "write person:… or team:… (people.yaml has the names), or manager_of:starter"),
    ("(person|team)", "names nobody", "write person:… or team:… (people.yaml has the names), or person:me"),
    (r"\.[A-Za-z]", "is not an action", "write it as connection.action"),
    ("[A-Za-z0-9_]*$", "is not a name", "a name has letters, digits and _, a letter first"),
)
_SWITCHES = {"True": "true", "False": "false"}
_ONE_WORD = {
    "compensate": "write cancel, or a map with one of cancel, mark, correct, quarantine, hand_off, or none: a reason",
    "trigger": "write manual, or a map with one of form, webhook, schedule, cron, mail, poll, event",
}
"""Keys that are one word alone or a map: what can be written there."""
_FORM_WORDS = {
    "compensate": "a compensation", "trigger": "a trigger", "steps": "a step", "services": "an answer",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """What came of fitting. `data` is what was left when everything that does not fit had been set aside."""

    model: Any
    data: Json
    problems: list[Problem] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)


def fit(model: type[Model], source: Source, *, forms: Mapping[str, type[Model]], fill: Mapping[str, Json]) -> Fitted:
    """Fits the source's data. `forms` maps the tags of the model's unions to models; `fill` has stand-ins for the
    required keys of the file's top level, used only so that the rest can be read.

    `Fitted.model` is None where nothing could be made of the file.
    """
    data = copy.deepcopy(source.data)
    fitted = Fitted(model=None, data=data)
    if not isinstance(data, dict):
        what = "the file is empty" if data is None else "the file is not a map (lines of key: value)"
        fitted.problems.append(source.problem("FL005" if data is None else "FL006", (), what))
        return fitted
    for turn in range(MOST_ROUNDS):
        try:
            return replace(fitted, model=model.model_validate(data))
        except ValidationError as error:
            details = [(detail, _path(detail["loc"])) for detail in error.errors(include_url=False)]
        if turn == 0:
            _tell(fitted, details, source, model, forms)
        for detail, path in details:
            _set_aside(fitted, data, path, detail["type"], fill)
    return fitted


def _tell(
    fitted: Fitted,
    details: list[tuple[ErrorDetails, Path]],
    source: Source,
    model: type[Model],
    forms: Mapping[str, type[Model]],
) -> None:
    misspelt = {path for detail, path in details if detail["type"] == "extra_forbidden"}
    for detail, path in details:
        fitted.broken.add(path[:-1])
        if not _is_misspelt(detail["type"], path, misspelt):
            fitted.problems.extend(_problems(detail, path, source, model, forms))


def _is_misspelt(kind: str, path: Path, unknown: set[Path]) -> bool:
    """Whether a missing key is there under a name so near that one problem says it all."""
    return kind == "missing" and any(
        other[:-1] == path[:-1] and nearest(str(other[-1]), [str(path[-1])]) for other in unknown
    )


def _path(loc: tuple[int | str, ...]) -> Path:
    """The path in the file: pydantic's place without the tags of unions and the marks of map keys."""
    parts = [part for part in loc if not (isinstance(part, str) and part.startswith("<") and part.endswith(">"))]
    return tuple(parts[:-1] if parts and parts[-1] == "[key]" else parts)


# --- setting aside -------------------------------------------------------------------------------------------------


def _set_aside(fitted: Fitted, data: Json, path: Path, kind: str, fill: Mapping[str, Json]) -> None:
    if kind == "missing":
        if len(path) == 1 and path[0] in fill:
            data[path[0]] = fill[str(path[0])]
        elif path[-1] == "id" and is_step(path[:-1]):
            step = value_at(data, path[:-1])
            if isinstance(step, dict):
                step["id"] = f"unnamed_{'_'.join(str(part) for part in path if isinstance(part, int))}"
        else:
            _remove(fitted, data, path[:-1])
        return
    value = value_at(data, path)
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        _replace(data, path, str(value))
        return
    _remove(fitted, data, path)


def _remove(fitted: Fitted, data: Json, path: Path) -> None:
    if not path:
        return
    around = value_at(data, path[:-1])
    if isinstance(around, dict):
        around.pop(path[-1], None)
    elif is_step(path) and isinstance(around, list) and isinstance(path[-1], int) and path[-1] < len(around):
        step = around[path[-1]]
        if isinstance(step, dict) and isinstance(step.get("id"), str):
            fitted.lost.add(step["id"])
        around[path[-1]] = {"id": f"lost__{len(fitted.lost)}_{path[-1]}", "wait": "0 s"}
    else:
        _remove(fitted, data, path[:-1])


def _replace(data: Json, path: Path, value: Json) -> None:
    around = value_at(data, path[:-1])
    if isinstance(around, (dict, list)) and path:
        around[path[-1]] = value  # type: ignore[index]


def is_step(path: Path) -> bool:
    """Whether a step stands at this path: in a list `steps`, or in a branch of `parallel`."""
    if not path or not isinstance(path[-1], int):
        return False
    return path[-2:-1] == ("steps",) or path[-3:-2] == ("parallel",)


def value_at(data: Json, path: Path) -> Json:
    """The value at this path, or None."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


# --- our words -----------------------------------------------------------------------------------------------------


_PLAIN = re.compile(r"[\w ]+")
_COMMA = "inside { } a comma ends a value: put the sentence in quotes, or on its own line"


def _problems(
    detail: ErrorDetails, path: Path, source: Source, root: type[Model], forms: Mapping[str, type[Model]]
) -> Iterator[Problem]:
    kind = detail["type"]
    model, name = _model_at(root, detail["loc"][:-1], forms), str(path[-1]) if path else ""
    if kind == "missing":
        hint = _example(_field_of(model, name), name)
        yield source.problem("FL005", path[:-1], f'{model.spoken} has no "{name}"', hint)
    elif kind == "extra_forbidden":
        what, known = f'"{name}" is not a key of {model.spoken}', _keys_of(model)
        is_sentence = " " in name and value_at(source.data, path) is None  # inside { } a comma has begun a new key
        hint = _COMMA if is_sentence else did_you_mean(name, known, "its keys")
        yield source.problem("FL003", path, what, hint, on="key")
    elif path in source.broken:
        return
    elif value_at(source.data, path) is None and kind != "value_error":
        what = f'nothing is written after "{name}"' if path else "the file is empty"
        hint = _ONE_WORD.get(name) or _example(_field_at(root, detail["loc"], forms), name)
        yield source.problem("FL006", path, what, hint if path else "", on="key")
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        yield _form(source, path, _field_at(root, detail["loc"], forms))
    else:
        yield _value(detail, path, source, _field_at(root, detail["loc"], forms))


def _example(info: FieldInfo | None, name: str) -> str:
    example = info.examples[0] if info is not None and info.examples else None
    if isinstance(example, bool):
        return f"for example {name}: {str(example).lower()}"
    if isinstance(example, dict) and all(isinstance(value, (int, str)) for value in example.values()):
        pairs = (
            f"{key}: {value if _PLAIN.fullmatch(str(value)) else as_quoted(value)}" for key, value in example.items()
        )
        example = f"{{ {', '.join(pairs)} }}"
    return f"for example {name}: {example}" if isinstance(example, (str, int)) else ""


def _has_form(info: FieldInfo | None) -> bool:
    """Whether a text has to look a certain way, so that quotes alone would not make it right."""
    return info is not None and any(
        isinstance(one, AfterValidator) or getattr(one, "pattern", None) for one in info.metadata
    )


def _form(source: Source, path: Path, info: FieldInfo | None) -> Problem:
    """A value that has several forms, and this is none of them."""
    value, is_a_step = value_at(source.data, path), is_step(path)
    owner, around = [*(str(part) for part in reversed(path) if isinstance(part, str)), "", ""][:2]
    words = FORM_WORDS.get("steps" if is_a_step else owner) or FORM_WORDS.get(around, ())
    name = "a step" if is_a_step else _FORM_WORDS.get(owner) or _FORM_WORDS.get(around, owner)
    if not words or not isinstance(value, dict):
        hint = f"it is a map with one of: {', '.join(FORM_WORDS[owner])}" if owner in FORM_WORDS else ""
        hint = hint or ("" if is_a_step else _example(info, owner))
        what = f'"{owner}" cannot be {_kind_of(value)}' if not is_a_step else f"a step cannot be {_kind_of(value)}"
        return _wide(source, path) or source.problem("FL006", path, what, hint)
    found = [word for word in words if word in value]
    if len(found) > 1:
        what = f'{name} has one of these words, and "{found[0]}" is there already'
        return source.problem("FL006", (*path, found[1]), what, f"keep one: {', '.join(found)}", on="key")
    for key in value:
        close = nearest(str(key), words)
        if close and key not in ("id", "when", "with"):
            what = f'"{key}" is not a word that {name} can have'
            return source.problem("FL003", (*path, key), what, f'did you mean "{close}"?', on="key")
    return source.problem("FL005", path, f"{name} needs one of these words", ", ".join(words))


FORM_WORDS: dict[str, tuple[str, ...]] = {}
"""Key -> the words of which exactly one says what form its map has. Filled by the rooms that own the words."""


def _value(detail: ErrorDetails, path: Path, source: Source, info: FieldInfo | None) -> Problem:
    value, kind, context = value_at(source.data, path), detail["type"], detail.get("ctx", {})
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    scalar = source.scalars.get(path)
    if kind == "string_type" and scalar is not None and scalar.style == "plain" and not _has_form(info):
        what = f'"{name}" is a text, and {scalar.text} would be read as {_kind_of(value)}'
        return source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")
    wide = _wide(source, path)
    if wide is not None:
        return wide
    what, hint = f'"{name}" cannot be {_kind_of(value)}', ""
    if kind in _KINDS:
        what, hint = f'"{name}" needs {_KINDS[kind]}, not {_kind_of(value)}', _example(info, name)
        if kind == "list_type" and isinstance(value, str) and value.isidentifier():
            hint = f"write it in brackets: [{value}]"
    elif kind == "literal_error":
        what, hint = _literal(name, value, str(context.get("expected", "")))
    elif kind == "string_pattern_mismatch":
        return _pattern(source, path, value, str(context.get("pattern")))
    elif kind in ("string_too_short", "too_short"):
        what = f'"{name}" is empty'
    elif kind in ("greater_than_equal", "less_than_equal"):
        side = "at least" if kind == "greater_than_equal" else "at most"
        what = f'"{name}" must be {side} {context.get("ge", context.get("le"))}, and {value} is not'
    elif kind == "value_error":
        what, _, hint = str(context.get("error", "")).partition("; ")
    return source.problem("FL006", path, what, hint)


def _pattern(source: Source, path: Path, value: Json, pattern: str) -> Problem:
    sentence, hint = next((w, h) for part, w, h in _PATTERNS if part in pattern)
    on_key = path not in source.scalars
    shown = path[-1] if on_key else value
    better = str(shown).replace("-", "_").replace(" ", "_")
    if sentence == "is not a name" and better.isidentifier():
        hint = f'{hint}; for example "{better}"'
    return source.problem("FL006", path, f'"{shown}" {sentence}', hint, on="key" if on_key else "value")


def _literal(name: str, value: Json, expected: str) -> tuple[str, str]:
    words = [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]
    shown = f'"{value}"' if isinstance(value, (str, int, float)) and not isinstance(value, bool) else _kind_of(value)
    close = nearest(str(value), words)
    words = [_SWITCHES.get(word, word) for word in words]
    hint = f"it is one of: {', '.join(words)}" if len(words) > 1 else _ONE_WORD.get(name, f"it can only be {words[0]}")
    return f'"{name}" cannot be {shown}', f'did you mean "{close}"?' if close else hint


def _wide(source: Source, path: Path) -> Problem | None:
    """A plain text that would have been something else with ASCII signs."""
    scalar = source.scalars.get(path)
    if scalar is None or scalar.style != "plain" or not any(sign in scalar.text for sign in WIDE):
        return None
    sign = next(char for char in scalar.text if char in WIDE)
    place = source.inside(path, scalar.text.index(sign), 1)
    line = source.line(place.line)
    fixed = with_ascii(line)
    if fixed == line:
        inner = "".join(WIDE.get(char, char) for char in scalar.text).replace(":", ": ")
        fixed = line.replace(scalar.text, "{ " + " ".join(inner.split()) + " }")
    what = f'the full-width sign "{sign}" stands where YAML needs the ASCII sign'
    hint = f"write the line so:  {fixed.strip()}"
    return problem_at(source.file, replace(place, length=1), "FL003", what, hint)


def _kind_of(value: Json) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a yes/no"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, (dict, list)):
        return "a map" if isinstance(value, dict) else "a list"
    shown = value if len(value) <= 40 else value[:39] + "…"
    return f'the text "{shown}"' if isinstance(plain_value(value), str) else f'"{shown}"'


# --- which model an error is about ---------------------------------------------------------------------------------


def _model_at(root: type[Model], loc: tuple[int | str, ...], forms: Mapping[str, type[Model]]) -> type[Model]:
    current = root
    for part in loc:
        if isinstance(part, int):
            continue
        if part in forms:
            current = forms[part]
            continue
        info = _field_of(current, part)
        inner = _model_in(info.annotation) if info is not None else None
        current = inner or current
    return current


def _field_at(root: type[Model], loc: tuple[int | str, ...], forms: Mapping[str, type[Model]]) -> FieldInfo | None:
    names = [index for index, part in enumerate(loc) if isinstance(part, str) and not part.startswith("<")]
    if not names:
        return None
    return _field_of(_model_at(root, loc[: names[-1]], forms), str(loc[names[-1]]))


def _field_of(model: type[Model], name: str) -> FieldInfo | None:
    return next((info for key, info in model.model_fields.items() if (info.alias or key) == name), None)


def _model_in(annotation: Any) -> type[Model] | None:
    """The one model that a field's type holds; None where it holds none or a choice of several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation if issubclass(annotation, Model) else None
    found = {model for model in map(_model_in, get_args(annotation)) if model is not None}
    return found.pop() if len(found) == 1 else None


def _keys_of(model: type[Model]) -> list[str]:
    return [info.alias or key for key, info in model.model_fields.items()]
