"""Signs that look right to a person and are not what YAML reads: full-width signs, and braces without quotes.

Both are found line by line, without a parser, because they are what keeps the parser from reading the file. Each
finding brings the line as it should be, so that reading can go on and the other problems of the file come out as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

WIDE = {
    "：": ":",
    "｛": "{",
    "｝": "}",
    "［": "[",
    "］": "]",
    "＃": "#",
    "，": ",",
    "－": "-",
    "\u3000": " ",
    "\u00a0": " ",
}
NAMES = {"\u3000": "the wide space", "\u00a0": "the no-break space", "–": 'the long dash "–"', "—": 'the long dash "—"'}
DASHES = "－–—"
"""Signs that are taken for the dash before a list item."""

_HIDDEN = "\0"
_BLOCK = re.compile(r"(?:^|[:\-]\s+|^\s*-\s+)[|>][+-]?\d?[+-]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"^(?P<indent>[ \u3000\u00a0]*)(?P<dash>(?:[-－–—][ \u3000\u00a0]*)*)(?P<key>[A-Za-z_][\w.]*)"
    r"(?P<colon>[ \u3000\u00a0]*[:：])(?P<rest>.*)$"
)
_ITEM = re.compile(r"\s*(?:- +)?[A-Za-z_]\w*:(?: |$)|\s*- ")
_MARKER = re.compile(r"\$?\{\{.*?\}\}")
_WIDE_COMMA = re.compile(r"(?<=[\w\"'}\]])[ \u3000]*，[ \u3000]*(?=[\"'A-Za-z0-9_{\[])", re.ASCII)
_WIDE_BRACKETS = re.compile(r"[｛［][\x20-\x7e：，＃－｛｝［］\u3000\u00a0]*[｝］]$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A line that YAML does not read as meant, with its place from 1; `fixed` is the line as it should be, or
    empty where only the author can know it."""

    kind: Literal["sign", "braces", "quote"]
    line: int
    column: int
    length: int
    shown: str
    fixed: str


def masked(text: str) -> list[tuple[str, bool]]:
    """The lines with everything in quotes, comments and block texts hidden (same length), and whether each begins
    inside an open `{` or `[`."""
    lines: list[tuple[str, bool]] = []
    quote = ""
    depth = 0
    block_indent = -1
    opened_at = 0
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if depth and not quote and indent <= opened_at and _ITEM.match(line):
            depth = 0  # a bracket is not closed; this line is no part of what it opened
        if block_indent >= 0 and (not line.strip() or indent > block_indent):
            lines.append((_HIDDEN * len(line), False))
            continue
        block_indent = -1
        began_inside = depth > 0
        seen, quote, depth = _mask_line(line, quote, depth)
        opened_at = opened_at if began_inside else indent
        lines.append((seen, began_inside))
        if not quote and not depth and _BLOCK.search(line):
            block_indent = indent
    return lines


def _mask_line(line: str, quote: str, depth: int) -> tuple[str, str, int]:
    out: list[str] = []
    before = ""
    at = 0
    while at < len(line):
        char = line[at]
        if quote:
            ends, width = _ends_quote(line, at, quote)
            out.append(_HIDDEN * width)
            quote = "" if ends else quote
            before = "x"
            at += width
            continue
        if char in "\"'" and (not before or before in ":,[{-"):
            quote = char
            out.append(_HIDDEN)
        elif char == "#" and (at == 0 or line[at - 1] in " \t"):
            out.append(_HIDDEN * (len(line) - at))
            break
        else:
            depth += (char in "{[" and (depth > 0 or before in ("", ":", "-"))) - (char in "}]" and depth > 0)
            out.append(char)
        before = char if not char.isspace() else before
        at += 1
    return "".join(out), quote, depth


def _ends_quote(line: str, at: int, quote: str) -> tuple[bool, int]:
    """Whether the quote ends at this character, and how many characters to pass over."""
    if quote == '"' and line[at] == "\\":
        return False, min(2, len(line) - at)
    if quote == "'" and line[at : at + 2] == "''":
        return False, 2
    return line[at] == quote, 1


def find_signs(text: str) -> list[Finding]:
    """Lines with a full-width sign, or a wide space, where YAML needs the ASCII sign."""
    lines = zip(text.split("\n"), masked(text), strict=True)
    found = [(line, number, wide_sign(seen, inside)) for number, (line, (seen, inside)) in enumerate(lines, 1)]
    return [sign_at(line, number, column) for line, number, column in found if column >= 0]


def sign_at(line: str, number: int, column: int) -> Finding:
    """The finding for the wide sign at this offset of the line."""
    return Finding(kind="sign", line=number, column=column + 1, length=1, shown=line[column], fixed=with_ascii(line))


def wide_sign(seen: str, inside: bool) -> int:
    """Offset of the first wide sign that stands where YAML needs an ASCII one, or -1."""
    lead = re.match(r"^ *(?:- *)*([\u3000\u00a0－＃]|[–—](?= ))", seen)
    if lead:
        return lead.start(1)
    key = _KEY.match(seen)
    if key is not None:
        colon = key.group("colon")
        if colon[-1] == "：" or (colon[0] in "\u3000\u00a0"):
            return key.start("colon") + next(i for i, c in enumerate(colon) if c in WIDE)
        rest = key.group("rest").strip()
        if key.group("rest")[:1] in ("\u3000", "\u00a0"):
            return key.start("rest")
        if rest[:1] in "{[" or _WIDE_BRACKETS.match(rest):
            return _first_wide(seen, key.start("rest"))
    if inside:
        return _first_wide(seen, 0)
    return -1


def _first_wide(seen: str, start: int) -> int:
    for match in re.finditer(r"[｛｝［］：]|[ \u3000]*，", seen[start:]):
        sign = start + match.end() - 1
        if seen[sign] == "，" and not _WIDE_COMMA.search(seen[max(start, sign - 8) : sign + 4]):
            continue
        return sign
    return -1


def with_ascii(line: str) -> str:
    """The line with ASCII signs where YAML needs them; what stands in a sentence stays."""
    match = _KEY.match(line)
    if match is None:
        body = line.lstrip(" \u3000\u00a0")
        indent = _ascii_indent(line[: len(line) - len(body)])
        if body.startswith("＃"):
            return indent + "# " + body[1:].strip()
        if body[:1] in DASHES:
            return indent + "- " + body[1:].strip()
        return indent + _ascii_collection(body)
    dash = "- " * len(re.findall("[-－–—]", match.group("dash")))
    rest = match.group("rest").strip(" \u3000\u00a0")
    if rest[:1] in ("{", "[", "｛", "［"):
        rest = _ascii_collection(rest)
    return f"{_ascii_indent(match.group('indent'))}{dash}{match.group('key')}:{' ' if rest else ''}{rest}"


def _ascii_indent(spaces: str) -> str:
    return spaces.replace("\u3000", "  ").replace("\u00a0", " ")


def _ascii_collection(text: str) -> str:
    seen, _, _ = _mask_line(text, "", 1)
    signs = "".join(WIDE.get(char, text[at]) if char != _HIDDEN else text[at] for at, char in enumerate(seen))
    signs = signs + text[len(seen) :]
    return re.sub(r"([:,])(?=[^\s])", lambda m: m[1] + " ", signs) if signs != text else signs


def find_braces(text: str) -> list[Finding]:
    """Lines where an expression stands without the quotes it needs."""
    found: list[Finding] = []
    for number, (line, (seen, inside)) in enumerate(zip(text.split("\n"), masked(text), strict=True), 1):
        match = _bare_marker(seen, inside)
        opened = -1 if match is None else _unclosed_quote(seen, match.start())
        if opened >= 0:
            found.append(Finding(kind="quote", line=number, column=opened + 1, length=1, shown=line[opened], fixed=""))
        elif match is not None:
            column, fixed = match.start() + 1, with_quotes(line, seen, inside)
            shown, length = match[0], len(match[0])
            found.append(Finding(kind="braces", line=number, column=column, length=length, shown=shown, fixed=fixed))
    return found


def _unclosed_quote(seen: str, at: int) -> int:
    """Where the text in quotes begins that ends right before this offset, or -1: its end was to be a beginning."""
    before = seen[:at]
    return len(before.rstrip(_HIDDEN)) if before.endswith(_HIDDEN) else -1


def _bare_marker(seen: str, inside: bool) -> re.Match[str] | None:
    for match in _MARKER.finditer(seen):
        if _inside_collection(seen, match.start(), inside) or _opens_value(seen, match.start()):
            return match
        value = _value_start(seen, match.start())
        if ": " in seen[value:]:
            return match
    return None


def _inside_collection(seen: str, at: int, inside: bool) -> bool:
    depth = 1 if inside else 0
    before = _MARKER.sub(lambda m: "x" * len(m[0]), seen[:at])
    for offset, char in enumerate(before):
        if char in "{[" and (depth or re.fullmatch(r"\s*(?:- *)*(?:[\w.]+ *: *)?", before[:offset])):
            depth += 1
        elif char in "}]" and depth:
            depth -= 1
    return depth > 0


def _opens_value(seen: str, at: int) -> bool:
    """Whether a bare `{{` begins the value: YAML reads a map there."""
    return seen[at] == "{" and at == _value_start(seen, at)


def _value_start(seen: str, before: int) -> int:
    match = re.match(r"^\s*(?:- +)*(?:[^\s:{}\[\]]+ *: +)?", seen[:before])
    return match.end() if match else 0


def with_quotes(line: str, seen: str, inside: bool) -> str:
    """The line with quotes around each text that holds an expression."""
    out: list[str] = []
    done = 0
    for match in _MARKER.finditer(seen):
        if match.start() < done:
            continue
        if _inside_collection(seen, match.start(), inside):
            start = max((m.end() for m in re.finditer(r"[{\[,:] *|^\s*(?:- +)?", seen[: match.start()])), default=0)
            end_at = re.search(r"\s*(?:,|[}\]]|$)", seen[match.end() :])
            end = match.end() + (end_at.start() if end_at else 0)
        else:
            start = _value_start(seen, match.start())
            end = len(seen.rstrip(_HIDDEN).rstrip()) if _HIDDEN in seen else len(seen.rstrip())
        start = max(start, done)
        out.append(line[done:start])
        out.append(quoted(line[start:end]))
        done = end
    return "".join(out) + line[done:]


def quoted(text: str) -> str:
    """The text in double quotes, with its expressions written as the language wants them."""
    marked = re.sub(r"(?<!\$)\{\{(.*?)\}\}", lambda m: "${{ " + m[1].strip() + " }}", text)
    if _MARKER.search(marked):
        marked = _MARKER.sub(lambda m: m[0].replace('"', "'"), marked)
    return '"' + marked.replace("\\", "\\\\").replace('"', '\\"') + '"'
