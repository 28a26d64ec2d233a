"""Bytes of mails as text, by the charset they claim. Japanese charsets mean what mail programs and browsers mean by
them: with the signs that Windows added (① ㈱ 髙), which the standards and Python's own codecs do not have.
"""

from __future__ import annotations

import binascii
import re

_ALIASES = {
    "us-ascii": "utf-8", "ascii": "utf-8", "utf8": "utf-8", "iso-8859-1": "cp1252", "latin1": "cp1252",
    "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "sjis": "cp932", "windows-31j": "cp932",
    "gb2312": "gb18030", "gbk": "gb18030", "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "big5": "cp950",
}  # fmt: skip
_KNOWN = re.compile(r"(utf|iso-?_?(8859|2022)|cp|windows|koi8|mac|gb|euc|big5|hz|tis|johab|latin)[\w.:-]*")
_ESCAPE = re.compile(rb"\x1b(\$[@B]|\([BJI])")
_WORD = re.compile(r"=\?([\w.:-]+)(?:\*[\w-]*)?\?([bBqQ])\?([^?]*)\?=")


def decode(data: bytes, charset: str) -> str:
    """The text. What is not in its charset is UTF-8 or nothing. Raises ValueError with the end of a sentence."""
    named = charset.strip().lower() or ("iso-2022-jp" if b"\x1b$" in data else "utf-8")
    for attempt in (named, "utf-8"):
        try:
            text = _read(data, attempt).removeprefix("\ufeff")
            text.encode()
            return text
        except (LookupError, UnicodeError):  # a charset that Python does not have, bytes that are not of it, half signs
            continue
    raise ValueError(f"is not the {named[:40]} it says it is")


def _read(data: bytes, charset: str) -> str:
    if charset.startswith("iso-2022-jp") and data.count(b"\x1b") == len(_ESCAPE.findall(data)):
        return _from_jis(data).decode("cp932")
    if charset == "euc-jp" and b"\x8f" not in data:
        return re.sub(rb"\x8e([\xa1-\xdf])|([\xa1-\xfe]{2})", _from_euc, data).decode("cp932")
    name = _ALIASES.get(charset, charset)
    if not _KNOWN.fullmatch(name):
        raise LookupError(charset)
    return data.decode(name)


def _from_jis(data: bytes) -> bytes:
    """ISO-2022-JP as CP932: what stands between escapes is two bytes a sign, half-width kana, or ASCII."""
    first, *rest = _ESCAPE.split(data)
    made = [first]
    for escape, part in zip(rest[::2], rest[1::2], strict=True):
        if escape.startswith(b"$"):
            kanji, end, after = part.partition(b"\n")  # a line ends in ASCII even if nothing says so
            made.append(b"".join(_shifted(kanji[at : at + 2]) for at in range(0, len(kanji), 2)) + end + after)
        else:
            made.append(bytes(byte | 0x80 for byte in part) if escape == b"(I" else part)
    return b"".join(made)


def _from_euc(match: re.Match[bytes]) -> bytes:
    return match[1] or _shifted(bytes(byte & 0x7F for byte in match[2]))


def _shifted(pair: bytes) -> bytes:
    """Row and cell of JIS X 0208 as Shift_JIS has them."""
    if len(pair) < 2 or not (0x21 <= pair[0] <= 0x7E and 0x21 <= pair[1] <= 0x7E):
        return pair
    high = ((pair[0] - 0x21) >> 1) + 0x81
    low = pair[1] + (0x7E if pair[0] % 2 == 0 else 0x20 if pair[1] >= 0x60 else 0x1F)
    return bytes((high + (0x40 if high > 0x9F else 0), low))


def words(text: str) -> str:
    """A header field with its encoded words (RFC 2047) read, also those that cut a sign in two. What cannot be read
    stays as it is written; `text` may hold raw bytes as surrogates."""
    text = re.sub(r"\r?\n(?=[ \t])", "", text)
    raw = text.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "replace") if b"\x1b$" not in raw else _softly(raw, "iso-2022-jp")
    parts: list[tuple[str, bytes]] = []
    end = 0
    for match in _WORD.finditer(text):
        between, end_before, end = text[end : match.start()], end, match.end()
        if between.strip() or (between and not end_before):
            parts.append(("", between.encode()))
        charset, data = match[1].lower(), _unpacked(match[2].lower(), match[3])
        if data is None:
            parts.append(("", match[0].encode()))
        elif parts and parts[-1][0] == charset:
            parts[-1] = (charset, parts[-1][1] + data)
        else:
            parts.append((charset, data))
    parts.append(("", text[end:].encode()))
    return "".join(_softly(data, charset) for charset, data in parts)


def _unpacked(way: str, text: str) -> bytes | None:
    try:
        if way == "q":
            return binascii.a2b_qp(text.encode(), header=True)
        packed = text.strip().rstrip("=")
        return binascii.a2b_base64(packed + "=" * (-len(packed) % 4), strict_mode=True)
    except ValueError:
        return None


def _softly(data: bytes, charset: str) -> str:
    try:
        return decode(data, charset)
    except ValueError:
        return data.decode("utf-8", "replace")
