"""Where requests must not go: more than 120 spellings of addresses, and a name service of our own that they are looked up in."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PUBLIC = "93.184.216.34"
PUBLIC6 = "2606:2800:220:1:248:1893:25c8:1946"

LOOPBACK = (
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1",
    "0177.1", "017700000001", "0000177.0.0.1", "127.000.000.001", "0x7F.0X0.0x0.0x1", "127.0.0.0x1", "127.0.0.01",
    "127.0x1", "0177.0x0.0.1", "127.0.0.1.", "127.1.", "2130706433.", "0x7f000001.", "127.255.255.254", "127.8.8.8",
    "0", "0.0.0.0", "0x0", "00000000000", "0.0.0.0.", "localhost", "LOCALHOST", "localhost.", "LocalHost.LocalDomain",
    "ip6-localhost",
)  # fmt: skip
PRIVATE = (
    "10.0.0.1", "10.1", "167772161", "0xa000001", "012.0.0.1", "172.16.0.1", "172.31.255.254", "2886729729",
    "192.168.0.1", "192.168.1", "0xc0a80001", "3232235521", "100.64.0.1", "198.18.0.1", "192.0.2.1", "240.0.0.1",
)  # fmt: skip
CLOUDS = (
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
    "169.254.169.254.", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1",
    "255.255.255.255", "fd00:ec2::254", "fe80::1", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1", "64:ff9b:1:a9fe:a9:fe00::",
)  # fmt: skip
SIX = (
    "::1", "::", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::ffff:127.0.0.1", "::ffff:7f00:1",
    "0:0:0:0:0:ffff:7f00:0001", "::127.0.0.1", "::7f00:1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1", "2002:7f00:1::", "2002:7f00:0001:0:0:0:0:1", "2001:0:7f00:1::1", "2001:0:5ef5:79fd::80ff:fffe",
    "2001:4860::5efe:7f00:1", "::1%lo", "fe80::1%lo", "fc00::1", "fec0::1", "::ffff:10.0.0.1",
)  # fmt: skip
UNICODE = (
    "１２７.０.０.１", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "ｌｏｃａｌｈｏｓｔ",
    "local\u00adhost", "127.0.0.1\u3002", "127.0.0.\uff11", "lоcalhost",
)  # fmt: skip
NAMES = (
    "inner.test", "mixed.test", "late.test", "six.test", "mapped.test", "meta.test", "zero.test", "translated.test",
    "xn--inner-test.test",
)  # fmt: skip
PARSED = (
    "public.test@127.0.0.1", "public.test:80@127.0.0.1", "public.test#@127.0.0.1", "public.test?@127.0.0.1",
    "public.test\\@127.0.0.1", "127.0.0.1\\@public.test", "127.0.0.1\\.public.test", "127.0.0.1%00.public.test",
    "127.0.0.1%2f.public.test", "127.0.0.1%23.public.test", "127.0.0.1\t", " 127.0.0.1", "127.0.0.1\r\nHost: public.test",
    "127.0.0.1\n", "[::1]", "[[::1]]", "[::ffff:127.0.0.1]", "[::1].public.test", "127.0.0.1:80#.public.test",
    "%31%32%37.0.0.1", "public.test/@127.0.0.1/..", "127.0.0.1;public.test", "//127.0.0.1",
)  # fmt: skip
HOSTILE: tuple[str, ...] = (*LOOPBACK, *PRIVATE, *CLOUDS, *SIX, *UNICODE, *NAMES, *PARSED)
NEVER = CLOUDS

ZONE: dict[str, Sequence[str]] = {
    "public.test": [PUBLIC],
    "localhost.localdomain": ["127.0.0.1"],
    "ip6-localhost": ["::1"],
    "inner.test": ["127.0.0.1"],
    "mixed.test": [PUBLIC, "127.0.0.1"],
    "late.test": [*[f"93.184.216.{number}" for number in range(40, 60)], "127.0.0.1"],
    "six.test": [PUBLIC, "::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "meta.test": ["169.254.169.254"],
    "zero.test": ["0.0.0.0"],
    "translated.test": ["64:ff9b::7f00:1"],
    "xn--inner-test.test": ["127.0.0.1"],
}
"""What our name service says. An address stands for itself; other names have none."""

Answers = Callable[[str], Sequence[str] | None]


class NameService:
    """Answers as told: by `zone`, or one list after the other of `turns`, over and over."""

    def __init__(self) -> None:
        self.zone: dict[str, Sequence[str]] = dict(ZONE)
        self.turns: deque[Sequence[str]] = deque()
        self.asked = 0
        self._real = socket.getaddrinfo

    def answer(self, host: Any, port: Any, *more: Any, **named: Any) -> Any:
        """As `socket.getaddrinfo`; the numbers that libc reads are read by libc."""
        text = host.decode("idna") if isinstance(host, bytes) else str(host)
        name = text.rstrip(".").lower()
        if name == "turning.test":
            self.asked += 1
            found: Sequence[str] = self.turns[0]
            self.turns.rotate(-1)
        elif name in self.zone:
            self.asked += 1
            found = self.zone[name]
        else:
            named["flags"] = int(named.get("flags", 0)) | socket.AI_NUMERICHOST
            return self._numeric(text, port, named)
        family = named.get("family", more[0] if more else 0)
        return [
            (kind, socket.SOCK_STREAM, 6, "", (one, port, 0, 0) if ":" in one else (one, port))
            for one in found
            for kind in [socket.AF_INET6 if ":" in one else socket.AF_INET]
            if family in (0, kind)
        ]

    def _numeric(self, text: str, port: Any, named: dict[str, Any]) -> Any:
        if text.rstrip(".").lower() == "localhost":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        try:
            plain = text.encode("idna").decode().rstrip(".") or text
        except UnicodeError:
            raise socket.gaierror(socket.EAI_NONAME, "no such name") from None
        if plain.lower() == "localhost":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        return self._real(plain, port, type=socket.SOCK_STREAM, flags=named["flags"])


@contextmanager
def name_service() -> Iterator[NameService]:
    """The process looks names up in ours, and in no other."""
    made = NameService()
    real = socket.getaddrinfo
    socket.getaddrinfo = made.answer
    try:
        yield made
    finally:
        socket.getaddrinfo = real
