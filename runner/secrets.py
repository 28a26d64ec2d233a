"""Secrets: read by name from the environment and the project's `.env`, and kept out of everything that is written.

`Secrets.redact` removes every value that was handed out, in the forms in which libraries repeat it: plain, escaped for
JSON, a URL or HTML, in base64 (also inside a longer one) and hexadecimal, and broken over lines.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runner.contract import Json
from runner.errors import SecretMissing, SettingsError, StoreError

SHORTEST = 6
"""A shorter secret is refused: taking it out of every text would take out half the text."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LOGGED = ("run", "flow", "step", "status", "defect")
"""What a log record may carry beside its sentence (`extra`)."""

_LENT = 8
_LARGEST_FILE = 1_000_000
_LINE_OF_ITS_OWN = 8
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "'": "'"}
_QUIET = ("httpx", "httpcore", "aiohttp", "aiohttp.client", "aiohttp.access", "aiosmtplib", "asyncio", "hpack")


MOMENT = 5.0
"""Seconds after a change of `.env` in which a name that it lacks may only not be written yet."""


class Secrets:
    """The secrets of one project folder. The environment wins over `.env`; `environment` is for tests.

    Whoever writes `.env` anew takes it away for a moment, empties it, or has written half of it. What was read before
    stays in use then: for `MOMENT` what the file lacks, and as long as there is none, or none that can be read, all.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._file = Path(folder) / ".env"
        self._environment = os.environ if environment is None else environment
        self._values: dict[str, str] | None = None
        self._last: dict[str, str] = {}
        self._used: dict[str, str] = {}
        self._needles: tuple[tuple[str, str], ...] = ()
        self._known: dict[str, str] = {}
        self._lent: dict[str, deque[str]] = {}
        self._lock = threading.Lock()

    @property
    def names_used(self) -> tuple[str, ...]:
        """The names that were asked for and found."""
        return tuple(sorted(self._used))

    def known(self) -> tuple[str, ...]:
        """The names that are set in `.env`, or were found in the environment. Never the values."""
        return tuple(sorted({*self._from_file(), *self._used}))

    def has(self, name: str) -> bool:
        """Whether the secret is set."""
        return bool(self._find(name))

    def value(self, name: str) -> str:
        """The value. Raises `SecretMissing` when it is not set or too short, `SettingsError` for a broken `.env`."""
        found = self._find(name)
        if not found:
            raise self._missing(name)
        if len(found) < SHORTEST:
            raise SecretMissing(
                f'the secret "{name}" has only {len(found)} characters: one of less than {SHORTEST} cannot be kept out '
                "of logs, use a longer one"
            )
        if self._used.get(name) != found:
            self._keep(name, found)
        return found

    def require(self, name: str) -> None:
        """Raises `SecretMissing` for one that is not set at this instant, `SettingsError` for a broken `.env`."""
        if not (self._environment.get(name) or read_env(self._file).get(name)):
            raise self._missing(name)
        self.value(name)

    def declare(self, names: Iterable[str]) -> tuple[str, ...]:
        """Makes these secrets known to `redact` before they are used; returns the names that cannot be used."""
        lacking = []
        for name in names:
            try:
                self.value(name)
            except SecretMissing:
                lacking.append(name)
        return tuple(lacking)

    def lend(self, name: str, values: Iterable[str]) -> None:
        """Makes what is no line of `.env` known to `redact`: tokens, which come and go; the last few of each name."""
        with self._lock:
            kept = self._lent.setdefault(name, deque(maxlen=_LENT))
            fresh = [value for value in values if len(value) >= SHORTEST and value not in kept]
            if fresh:
                kept.extend(fresh)
                self._renew()

    def reload(self) -> None:
        """Reads `.env` again at the next use; what was known stays redacted."""
        self._values = None

    def redact(self, text: str) -> str:
        """The text without any known secret."""
        needles = self._needles
        return redact_text(text, needles) if needles and text else text

    def redact_value(self, value: Json) -> Json:
        """The JSON value without any known secret, keys included."""
        if not self._needles:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self.redact_value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.redact_value(item) for item in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = str(value)
            clean = self.redact(text)
            return value if clean == text else clean
        return value

    def _missing(self, name: str) -> SecretMissing:
        return SecretMissing(
            f'the secret "{name}" is not set: put a line {name}=… into {self._file.name} in the project folder, or set '
            "it in the environment"
        )

    def _find(self, name: str) -> str:
        found = self._environment.get(name) or self._from_file().get(name)
        if not found:
            self.reload()  # it may be there by now
            found = self._from_file().get(name)
        return found or (self._used.get(name, "") if self._is_being_written() else "")

    def _from_file(self) -> dict[str, str]:
        if self._values is None:
            try:
                found = read_env(self._file)
            except SettingsError:
                if not self._last:
                    raise
                return self._last
            if not found and not self._file.exists():
                return self._last
            self._values = self._last = found
        return self._values

    def _is_being_written(self) -> bool:
        try:
            return time.time() - self._file.stat().st_mtime < MOMENT
        except OSError:
            return False

    def _keep(self, name: str, value: str) -> None:
        with self._lock:
            self._used[name] = value
            self._known[value] = name
            self._renew()

    def _renew(self) -> None:
        known = {value: name for name, values in self._lent.items() for value in values} | self._known
        known = {piece: name for value, name in known.items() for piece in pieces_of(value)} | known
        found = {needle: f"[secret {name}]" for value, name in known.items() for needle in forms_of(value)}
        self._needles = tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))


# --- .env ----------------------------------------------------------------------------------------------------------


def read_env(path: Path) -> dict[str, str]:
    """The names and values of a `.env` file; empty when there is none. Raises `SettingsError` with the line's number.

    A line is `NAME=value`, a comment or empty. A value may stand in 'single quotes' (as it is) or "double quotes"
    (with \\n, \\" and \\\\), both over several lines. Nothing is replaced inside a value.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SettingsError(f"{path.name} is larger than 1 MB")
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} cannot be read: it must be a text file in UTF-8") from error
    return parse_env(text, path.name)


_ENV_LINE = re.compile(r"(?P<key>[^=\n]*)(?P<sign>=?)(?P<rest>[^\n]*)")
_ENV_VALUE = re.compile(
    r"""[ \t]*(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<open>['"])|(?P<plain>[^\n]*))(?P<rest>[^\n]*)""",
    re.DOTALL,
)


def parse_env(text: str, name: str = ".env") -> dict[str, str]:
    """The names and values of a `.env` text. Messages never hold a value."""
    found: dict[str, str] = {}
    text = text.replace("\r\n", "\n")
    at = 0
    while at < len(text):
        line = _ENV_LINE.match(text, at)
        whole = line[0].strip() if line is not None else ""
        if line is None or not whole or whole.startswith("#"):
            at = text.find("\n", at) + 1 or len(text)
            continue
        place, key = f"{name}:{text.count(chr(10), 0, at) + 1}", line["key"].lstrip().removeprefix("export ").strip()
        if not line["sign"] or not _NAME.fullmatch(key):
            raise SettingsError(f"{place} is not NAME=value: a name has letters, digits and _, and no spaces")
        if key in found:
            raise SettingsError(f"{place} sets {key} a second time")
        value = _ENV_VALUE.match(text, line.start("rest"))
        if value is not None:
            found[key], at = _env_value(value, f"{place} {key}"), value.end() + 1
    return found


def _env_value(value: re.Match[str], place: str) -> str:
    if value["open"]:
        raise SettingsError(f"{place} opens a quote and never closes it")
    if value["plain"] is not None:
        if re.search(r"[ \t]#", value["plain"].strip()):
            hint = "put the value in quotes, or the comment on its own line"
            raise SettingsError(f"{place} has a # behind its value: {hint}")
        return value["plain"].strip()
    rest, escapes = value["rest"].strip(), re.findall(r"\\(.)", value["double"] or "", re.DOTALL)
    if not set(escapes) <= set(_ESCAPES):
        hint = "write \\\\, or use 'single quotes'"
        raise SettingsError(f"{place} has a \\ that means nothing in double quotes: {hint}")
    if rest and not rest.startswith("#"):
        raise SettingsError(f"{place} goes on behind its closing quote")
    if value["single"] is not None:
        return value["single"]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], value["double"], flags=re.DOTALL)


# --- redaction -----------------------------------------------------------------------------------------------------

_GAPS = re.compile(r"\s+")
_CODES = re.compile(
    r"(?P<gap>\\[nrt]|=\r?\n)|(?P<percent>(?:%[0-9A-Fa-f]{2})+)|(?P<unicode>(?:\\u[0-9A-Fa-f]{4})+)"
    r"|(?P<escape>\\[\"'\\/])|(?P<entity>&(?:amp|lt|gt|quot|apos|#x?[0-9A-Fa-f]{1,6});)"
)
_CODED = re.compile(rf"{_CODES.pattern}|\s+")
_LAYERS = 6


def forms_of(value: str, shortest: int = SHORTEST) -> tuple[str, ...]:
    """What to look for, without any white space: the value, its base64 at the three offsets, its hexadecimal form.

    Each line of a value of several lines counts as a secret too, and so does what a value that looks coded stands for.
    """
    texts = {*_views(value), *_views(value.replace(" ", "+"))}
    texts.update(_GAPS.sub("", line) for line in value.splitlines() if len(line.strip()) >= _LINE_OF_ITS_OWN)
    found = {text for text in texts if len(text) >= shortest}
    for raw in {value.encode(), value.strip().encode()}:
        found.update(_base64_parts(raw))
        found.update((raw.hex(), raw.hex().upper()))
    return tuple(found)


def pieces_of(value: str) -> tuple[str, ...]:
    """What is secret by itself in an address: its password, the whole path, and those pieces of user, host, path and
    query that nobody made up. A short piece or a plain word is only known in the whole: it stands elsewhere too.
    """
    found = _ADDRESS.fullmatch(value.strip())
    if found is None:
        return ()
    user, _, password = found["who"].partition(":")
    names = {piece.lower() for piece in re.split("[:/]", f"{found['scheme']}/{user}/{found['host']}{found['path']}")}
    pieces = {password} if _is_password(password) and password.lower() not in names else set()
    if not _OF_DATABASES.match(found["scheme"]):
        whole = found["path"] + found["rest"]
        pieces |= {whole} if len(whole) >= _LONG and any(map(str.isdigit, whole)) else set()
        hosts = () if "." in found["host"] else found["host"].split(":")  # some chats have a token there
        pieces |= {piece for piece in (user, *hosts, *found["path"].split("/")) if _is_made(piece)}
    for pair in re.split("[?&;#]", found["rest"]):
        name, _, piece = pair.partition("=")
        if _is_made(piece) or (_TELLING.search(name) and _is_password(piece)):
            pieces.add(piece)
    return tuple(pieces)


_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<who>(?:[^/?#]*(?=@))?)@?(?P<host>[^/?#]*)(?P<path>[^?#]*)(?P<rest>\S*)"
)
_OF_DATABASES = re.compile(r"(postgres|mysql|mariadb|sqlite|oracle|mssql)")
_TELLING = re.compile(r"(?i)pass|pwd|token|secret|key|sig")
_LONG, _MIXED = 16, 10


def _is_password(piece: str) -> bool:
    """Long enough, or neither a plain word nor a number."""
    return len(piece) >= _MIXED or (len(piece) >= SHORTEST and not (piece.isalpha() or piece.isdigit()))


def _is_made(piece: str) -> bool:
    """Long, and of more than one kind of signs: no word of an address that people speak of."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return len(piece) >= _LONG and sum(any(map(kind, piece)) for kind in kinds) > 1


def _base64_parts(raw: bytes) -> Iterator[str]:
    """The part of a base64 text that only these bytes decide, for each place they may have in a longer one."""
    for offset, start in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * offset + raw).decode()
        part = whole[start : (offset + len(raw)) * 8 // 6]
        if len(part) >= SHORTEST:
            yield part
            yield part.translate(str.maketrans("+/", "-_"))


def redact_text(text: str, needles: tuple[tuple[str, str], ...]) -> str:
    """The text with every needle (form, what is shown in its place) replaced, whatever coding lies over it."""
    if not any(needle in view for view in _views(text) for needle, _ in needles):
        return text
    squeezed, places = _decoded(text, _GAPS)
    cuts = list(_found(squeezed, places, needles))
    view, places = text, [(at, at + 1) for at in range(len(text))]
    for _ in range(_LAYERS):
        seen, inner = _decoded(view, _CODED)
        if seen == view:
            break
        view, places = seen, [(places[start][0], places[end - 1][1]) for start, end in inner]
        cuts.extend(_found(view, places, needles))
    return _cut(text, cuts)


def _views(text: str) -> list[str]:
    """The text without white space, as it is and with one coding after the other taken off."""
    views, view = [_GAPS.sub("", text)], text
    for _ in range(_LAYERS):
        seen = _GAPS.sub("", _CODES.sub(_plain, view))
        if seen == view:
            break
        views.append(seen)
        view = seen
    return views


def _found(
    view: str, spans: list[tuple[int, int]], needles: tuple[tuple[str, str], ...]
) -> Iterator[tuple[int, int, str]]:
    for needle, name in needles:
        at = view.find(needle)
        while at >= 0:
            yield spans[at][0], spans[at + len(needle) - 1][1], name
            at = view.find(needle, at + 1)


def _decoded(text: str, coded: re.Pattern[str]) -> tuple[str, list[tuple[int, int]]]:
    """(the text with what is coded read and no white space, where each of its characters stood)."""
    signs: list[str] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for match in coded.finditer(text):
        signs.append(text[at : match.start()])
        spans.extend((place, place + 1) for place in range(at, match.start()))
        plain = _plain(match)
        signs.append(plain)
        spans.extend([match.span()] * len(plain))
        at = match.end()
    signs.append(text[at:])
    spans.extend((place, place + 1) for place in range(at, len(text)))
    return "".join(signs), spans


def _plain(match: re.Match[str]) -> str:
    """What one coded part stands for, without white space."""
    kind, coded = match.lastgroup, match[0]
    if kind == "percent":
        plain = bytes.fromhex(coded.replace("%", "")).decode("utf-8", errors="replace")
    elif kind == "unicode":
        try:
            plain = str(json.loads(f'"{coded}"'))
        except ValueError:
            plain = coded
    elif kind == "escape":
        plain = coded[1]
    else:
        plain = html.unescape(coded) if kind == "entity" else ""
    return _GAPS.sub("", plain)


def _cut(text: str, cuts: list[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, shown in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        if start >= at:
            parts += [text[at:start], shown]
        at = max(at, end)
    return "".join([*parts, text[at:]])


# --- logging -------------------------------------------------------------------------------------------------------


class LogFilter(logging.Filter):
    """Takes every known secret out of log records, those of libraries too, their tracebacks included; what the store
    refuses says all there is to say in its sentence, and needs no traceback."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._plain = logging.Formatter()

    def install(self, handler: logging.Handler) -> None:
        """Puts the filter on a handler, where every logger's records pass, and quiets the libraries."""
        handler.addFilter(self)
        quiet_libraries()

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        if record.exc_info and isinstance(refused := record.exc_info[1], StoreError):
            message, record.exc_info = f"{message}: {refused}", None
        record.msg, record.args = self._secrets.redact(message), ()
        for name in LOGGED:
            if isinstance(value := getattr(record, name, None), str):
                setattr(record, name, self._secrets.redact(value))
        if record.exc_info and not record.exc_text:
            record.exc_text = self._plain.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._secrets.redact(record.exc_text)
        if record.stack_info:
            record.stack_info = self._secrets.redact(record.stack_info)
        return True


def quiet_libraries() -> None:
    """Libraries that write whole addresses at INFO are heard from WARNING on."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
