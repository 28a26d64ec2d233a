"""The closed expression language: reads `${{ … }}`, says what is not in the language, and evaluates.

Begin with `evaluate` and `faults`. `syntax` parses and checks, `uses` lists names, `reading` evaluates. Jinja2 parses,
and nothing else of it is used: the checked tree becomes small functions over JSON values. What has no entry there
cannot be evaluated, so there is nothing to escape into: a dot reads a key of a record, a call names a word of
`functions`, and a result is never looked at again.

Where a marker stands alone (`${{ inputs.amount }}`) its value keeps its kind; inside other text it is printed: numbers
without an exponent, money as `12,000 JPY`, a yes or no as `yes` or `no`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from jinja2 import nodes

from runner.contract import Json
from runner.errors import EvaluationError
from runner.language.calendar import Calendar
from runner.language.expressions.reading import Key, Read, key_of, path_of, path_text, reader, use_of
from runner.language.expressions.syntax import parse, source_faults
from runner.language.expressions.uses import NameUse, Path, given_paths, kind_of_answer, missing_paths, uses_of
from runner.language.functions import Frame, bounded_text
from runner.language.markers import Fault, Marker, pieces, scan
from runner.language.values import NoValue, as_text, shown

__all__ = [
    "Fault",
    "Frame",
    "Key",
    "Marker",
    "NameUse",
    "NoValue",
    "Path",
    "Read",
    "compiled",
    "condition",
    "decided",
    "evaluate",
    "faults",
    "given_paths",
    "key_of",
    "kind_of_answer",
    "markers",
    "missing_paths",
    "names",
    "needed",
    "path_of",
    "path_text",
    "printed",
    "roots",
    "source_faults",
    "source_names",
    "told",
    "tree",
    "use_of",
]


def evaluate(value: Json, scope: Mapping[str, Json], *, now: int, zone: str, calendar: Calendar | None = None) -> Json:
    """The value with every marker in it answered, through lists and records. `now` is ms since the epoch.

    Raises `EvaluationError`: a missing value, kinds that do not fit, a bound exceeded.
    """
    return _answer(value, Frame(scope, now, zone, calendar))


def condition(text: str, scope: Mapping[str, Json], *, now: int, zone: str, calendar: Calendar | None = None) -> bool:
    """The yes or no of a condition. Anything else raises `EvaluationError`, the text "false" too."""
    return decided(_answer(text, Frame(scope, now, zone, calendar)), text)


def markers(text: str) -> tuple[Marker, ...]:
    """The markers of a text, in order."""
    return scan(text)[0]


def faults(text: str) -> tuple[Fault, ...]:
    """Everything in the text that is not in the language, in order."""
    found, wrong = scan(text)
    inner = [fault for marker in found for fault in source_faults(marker.source, marker.start)]
    return tuple(sorted([*wrong, *inner], key=lambda fault: fault.offset))


def names(text: str) -> tuple[NameUse, ...]:
    """Every dotted name that the text's expressions use."""
    return tuple(use for marker in scan(text)[0] for use in source_names(marker.source, marker.start))


def needed(value: Any, *start: str) -> tuple[str, ...]:
    """The names right below a path that the texts in this value cannot do without: for `steps`, `plan` the `label`.

    The value may be text, a list, a mapping or a dataclass that holds such.
    """
    found = (use.path for text in _texts(value) for use in names(text) if not use.guarded)
    return tuple(dict.fromkeys(path[len(start)] for path in found if path[: len(start)] == start != path))


def roots(value: Json) -> frozenset[str]:
    """The names that expressions in this value begin with: of `${{ run.id }}` it is `run`."""
    if isinstance(value, str):
        return _roots(value) if "${{" in value else NO_NAMES
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    found = [roots(item) for item in within]
    return frozenset[str]().union(*found) if any(found) else NO_NAMES


NO_NAMES = frozenset[str]()


@lru_cache(maxsize=4096)
def _roots(text: str) -> frozenset[str]:
    return frozenset(use.path[0] for use in names(text))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _texts(getattr(value, each.name))


def source_names(source: str, start: int = 0, known: frozenset[Path] = frozenset()) -> tuple[NameUse, ...]:
    """The names in one expression that begins at offset `start`; none when it cannot be parsed."""
    parsed = parse(source)
    if isinstance(parsed, Fault):
        return ()
    return tuple(replace(use, offset=use.offset + start) for use in uses_of(parsed, source, known))


def tree(source: str) -> nodes.Expr:
    """The parsed expression (what stands inside the marker).

    A part's `lineno` is the offset of the sign that makes it: a name's first letter, the dot of `.x`, an operator.

    Raises `EvaluationError` when it cannot be parsed.
    """
    parsed = parse(source)
    if isinstance(parsed, Fault):
        raise EvaluationError(_sentence(parsed, source))
    return parsed


@lru_cache(maxsize=4096)
def compiled(source: str) -> Read:
    """The expression as a function of a Frame. Raises `EvaluationError` for what is not in the language."""
    wrong = source_faults(source)
    if wrong:
        raise EvaluationError(_sentence(wrong[0], source))
    return reader(tree(source))


def told(source: str, read: Read) -> Read:
    """The same read, whose errors say in which expression they arose."""

    def read_and_tell(frame: Frame) -> Json:
        try:
            return read(frame)
        except EvaluationError as error:
            raise type(error)(f"{error} (in ${{{{ {_short(source)} }}}})") from error
        except RecursionError as error:
            raise EvaluationError(f"the values are nested too deep (in ${{{{ {_short(source)} }}}})") from error

    return read_and_tell


def decided(answer: Json, text: str) -> bool:
    """The answer of the condition `text`, which must be a yes or no."""
    if isinstance(answer, bool):
        return answer
    hint = "compare it with something"
    if isinstance(answer, str) and answer.lower() in ("true", "false", "yes", "no"):
        hint = f'compare it, == "{answer}", or make the field a yes_no'
    raise EvaluationError(f"a condition must be a yes or no, not {shown(answer)}: {hint} (in {_short(text)})")


_PLAIN = frozenset({int, bool, float, type(None)})


def _answer(value: Json, frame: Frame) -> Json:
    if value.__class__ is dict:
        return {key: _answer(item, frame) for key, item in value.items()}
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, str):
        return _planned(value)(frame) if "${{" in value else value
    if isinstance(value, Mapping):
        return {key: _answer(item, frame) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_answer(item, frame) for item in value]
    return value


@lru_cache(maxsize=4096)
def _planned(text: str) -> Read:
    """The whole text as a function. Stray signs of other languages are text here; `faults` names them."""
    found, wrong = scan(text)
    broken = [fault for fault in wrong if text[fault.offset] in "$'\""]
    if broken:
        raise EvaluationError(_sentence(broken[0], text))
    parts = pieces(text.strip())
    if len(found) == 1 and len(parts) == 1:
        return told(found[0].source, compiled(found[0].source))
    reads = [_constant(part) if isinstance(part, str) else printed(part.source) for part in pieces(text)]
    return lambda frame: bounded_text("".join([read(frame) for read in reads]))


def _constant(value: Json) -> Read:
    return lambda frame: value


def printed(source: str) -> Read:
    """The expression as text inside a sentence, whose errors say in which expression they arose."""
    read = compiled(source)
    return told(source, lambda frame: as_text(read(frame)))


def _short(source: str) -> str:
    line = " ".join(source.split())
    return line if len(line) <= 120 else line[:119] + "…"


def _sentence(fault: Fault, source: str) -> str:
    hint = f": {fault.hint}" if fault.hint else ""
    return f"{fault.what}{hint} (in {_short(source)})"
