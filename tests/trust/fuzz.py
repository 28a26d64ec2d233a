"""Fuzz: what comes from outside is read or refused, in under a second of CPU and 256 MB, and nothing is uncaught.

Every reader gets its seeds mutated; 229 strings that try to leave the expressions are refused when the flow is loaded;
bombs are refused inside their limits; the API is tried by schemathesis. What runs, runs in this process: `--reader NAME
--seed N` plays one case again.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree.ElementTree import ParseError

from connectors import answers
from connectors.answers import Seen, retry_after
from connectors.calendar import _listed, _read
from connectors.declarative import kind_from_text
from connectors.sheet.books import Told, Unfit, read_book
from connectors.wire import Answer
from runner.contract import canonical
from runner.errors import AmendsError
from runner.language.expressions import evaluate, faults
from runner.language.functions import FUNCTIONS
from runner.language.load import load_flow
from runner.language.people import load_people
from runner.language.source import read
from runner.secrets import parse_env
from runner.triggers import bodies, mails
from runner.triggers.mails import as_text, read_head, read_mail
from tests.language.ground import codes
from tests.language.test_expressions_closed import HOSTILE
from tests.support.cpu import spent
from tests.trust.bombs import BOMBS, workbook
from tests.trust.figures import Figures

ROOT = Path(__file__).resolve().parents[2]
MOST_CPU, MOST_MB = 1.0, 256
MEANT = (AmendsError, answers.Unreadable, bodies.Unreadable, mails.Unreadable, Unfit)
"""How readers refuse."""
REFUSED = (*MEANT, ValueError, ParseError)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What is tried: a function of bytes, and what its mutations begin with."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    also: tuple[type[Exception], ...] = ()


def _answer(body: bytes) -> object:
    for kind in ("application/json", "text/html; charset=utf-16", "text/plain; charset=\xff", "text/xml"):
        answer = Answer(
            status=500, headers={"content-type": kind, "retry-after": body[:30].decode("latin-1")}, body=body
        )
        Seen.of(answer, scope={}, with_text=True, url="http://a.test", redact=lambda text: text).failed()
        retry_after(answer, 0)
    return None


def _expression(told: bytes) -> object:
    text = "${{ " + told.decode("utf-8", "replace") + " }}"
    if faults(text):
        return None
    with contextlib.suppress(AmendsError):
        return evaluate(text, {"inputs": {"a": "x", "b": [1, 2]}, "steps": {}}, now=0, zone="UTC")
    return None


def _text(reads: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda told: reads(told.decode("utf-8", "replace"))


def _files(pattern: str) -> tuple[bytes, ...]:
    return tuple(file.read_bytes() for file in sorted(ROOT.glob(pattern)))[:12]


MAIL = (
    b"From: a <a@b.test>\r\nTo: =?utf-8?B?5pel5pys?= <c@d.test>\r\nSubject: =?iso-2022-jp?B?GyRCRnxLXBsoQg==?=\r\n"
    b"Message-ID: <x@y>\r\nDate: Mon, 30 Nov 2026 10:00:00 +0900\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/plain; charset=shift_jis\r\n\r\nhello\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>&amp;x"
    b"</p>\r\n--b\r\nContent-Disposition: attachment; filename*=utf-8''a%20b.pdf\r\nContent-Transfer-Encoding: base64\r\n"
    b"\r\nAAAA\r\n--b--\r\n"
)
EVENT = (
    b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART;TZID=Asia/Tokyo:20261201T100000\r\nDURATION:PT1H\r\n"
    b"RRULE:FREQ=DAILY;COUNT=3\r\nSUMMARY:x\\, y\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
LISTED = (
    b"<d:multistatus xmlns:d='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><d:response><d:href>/a/b.ics</d:href><d:propstat>"
    b"<d:prop><d:getetag>e</d:getetag><c:calendar-data>"
    + EVENT
    + b"</c:calendar-data></d:prop></d:propstat></d:response>"
    b"</d:multistatus>"
)
BODIES = (b'{"a": [1, 2.5, "x", null], "b": {"c": true}}', b"a=1&b=%E6%9B%B8&payload=%7B%7D", b"[]")


def _body(told: bytes) -> object:
    for headers in ({"content-type": "application/json"}, {"content-type": "application/x-www-form-urlencoded"},
                    {"content-type": "application/json", "content-encoding": "gzip"}):  # fmt: skip
        with contextlib.suppress(bodies.Unreadable):
            found = bodies.read_body(headers, told)
            canonical(found)
            bodies.id_of("standard", {**headers, "webhook-id": told[:20].decode("latin-1")}, found, "d")
    return None


READERS: Mapping[str, Reader] = {
    "flow": Reader(read=_text(lambda text: load_flow(text, "x.yaml")), seeds=_files("flows/*.yaml")),
    "yaml": Reader(read=_text(lambda text: read(text, "x.yaml")), seeds=(b"a: [1, {b: c}]\nd: &x |\n  e\nf: *x\n",)),
    "connector": Reader(read=_text(lambda text: kind_from_text(text, "x.yaml")), seeds=_files("connectors/s*.yaml")),
    "people": Reader(read=_text(lambda text: load_people(text, "people.yaml")), seeds=(
        b"people:\n  tom: { name: Tom, mail: t@a.test, role: admin }\nteams:\n  ops: { members: [tom] }\n",)),
    "env": Reader(read=_text(parse_env), seeds=(b"A=1\nB=\"two\\n\"\nC='x'\n# c\n",)),
    "expression": Reader(read=_expression, seeds=(*(one.encode("utf-8", "replace") for one in HOSTILE),
        b"inputs.a | upper", b"inputs.b | length > 1 and 'x' in inputs.a", b"now() | date('yyyy')", b"inputs.b[0] + 1 if true else 2")),
    "webhook": Reader(read=_body, seeds=(*BODIES, gzip.compress(BODIES[0]))),
    "mail": Reader(read=lambda told: (read_head(told), read_mail(told)), seeds=(MAIL,)),
    "html": Reader(read=_text(as_text), seeds=(b"<p>a<br>b &amp; <a href='x'>c</a><style>d</style></p><!-- e -->",)),
    "answer": Reader(read=_answer, seeds=(*BODIES, b"<html><body>no</body></html>", b"\xff\xfea\0")),
    "event": Reader(read=_text(_read), seeds=(EVENT,), also=(ValueError,)),
    "events": Reader(read=_text(lambda text: list(_listed(text))), seeds=(LISTED,), also=(ValueError, ParseError)),
    "csv": Reader(read=lambda told: read_book(Told(kind=".csv"), told, to_write=True).content(), seeds=(
        b"no,name\n1,\"a, b\"\n2,'=x\n",)),
    "xlsx": Reader(read=lambda told: read_book(Told(kind=".xlsx"), told, to_write=False), seeds=(
        workbook(b'<row r="1"><c r="A1"><v>1</v></c></row>'),)),
}  # fmt: skip


def mutated(seed: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """The seed after a few accidents."""
    told = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(told) + 1)
        kind = chance.randrange(8)
        if kind == 0 and told:
            told[at % len(told)] = chance.randrange(256)
        elif kind == 1:
            told[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        elif kind == 2:
            del told[at : at + chance.randrange(1, 40)]
        elif kind == 3:
            told[at:at] = told[at : at + chance.randrange(1, 60)] * chance.choice((2, 5, 200))
        elif kind == 4:
            other = chance.choice(others)
            cut = chance.randrange(len(other) + 1)
            told[at:] = other[cut : cut + 4_000]
        elif kind == 5:
            told[at:at] = chance.choice((b"\0", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"-", b"'", b'"', b"{{", b"}}", b"*a", b"&a ",
                                         b"9" * 400, b"%", b"\r", b"\t", b": ", b"\xed\xa0\x80", b"<", b"=?", b"\\u0000", b"1e9999"))  # fmt: skip
        elif kind == 6:
            told[at:at] = chance.choice((b"[", b"{", b"(", b"- ", b"<a>", b"not ")) * chance.choice((3, 60, 2_000))
        else:
            told = told[:at]
    return bytes(told[:200_000])


def _memory() -> float:
    """The most memory that this process had since `_forget`, MB; where the system cannot forget, since its start."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _forget() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def tried(name: str, act: Callable[[], object], meant: tuple[type[Exception], ...]) -> str:
    """What is wrong with one case, else empty."""
    _forget()
    before = _memory()
    with spent() as cpu:
        try:
            act()
        except meant:
            pass
        except (MemoryError, RecursionError, Exception) as error:  # noqa: BLE001 - that is what is looked for
            return f"{name}: {type(error).__name__}: {str(error)[:160]}"
    grew = _memory() - before
    if cpu.seconds > MOST_CPU:
        return f"{name}: took {cpu.seconds:.1f} s of CPU"
    return f"{name}: took {grew:.0f} MB" if grew > MOST_MB else ""


def fuzzed(name: str, count: int, seed: int = 0) -> list[str]:
    """What is wrong with one reader over so many mutations."""
    reader, wrong = READERS[name], []
    for number in range(seed, seed + count):
        chance = random.Random(f"{name} {number}")
        told = mutated(chance.choice(reader.seeds), chance, reader.seeds)
        found = tried(f"{name}, seed {number}", lambda told=told: reader.read(told), (*MEANT, *reader.also))  # type: ignore[misc]
        wrong += [found] if found else []
    return wrong


CALLED = ("{}()", "{}(**inputs.a)", "{}(*inputs.a)", "{}(a=1)", "{}([])", "[] | {}", "inputs.a | {}(inputs.b, 1, 2, 3)")
"""Ways in which each function of the language can be called wrongly."""
IN_A_FLOW = """flow: x
title: T
owner: person:tom
steps:
  - id: a
    read: billing.get_plan
    with: { code: %s }
"""


def escapes() -> list[str]:
    """Strings that try to leave the expressions, and are not refused when the flow is loaded."""
    wrong = [f"{text[:60]!r} is taken" for text in HOSTILE if not faults("${{ " + text + " }}")]
    usual = set(codes(IN_A_FLOW % json.dumps("x"), "x.yaml"))
    for text in HOSTILE:
        found = codes(IN_A_FLOW % json.dumps("${{ " + text + " }}"), "x.yaml")
        wrong += [f"{text[:60]!r} is taken when the flow is loaded"] * (not set(found) - usual)
    for name, form in product(FUNCTIONS, CALLED):
        text = form.format(name)
        one = tried(text, lambda text=text: codes(IN_A_FLOW % json.dumps("${{ " + text + " }}"), "x.yaml"), MEANT)  # type: ignore[misc]
        wrong += [one] if one else []
    return wrong


def bombs() -> list[str]:
    """What is wrong: a bomb that is not refused, or read, inside the limits."""
    found = (tried(name, made, REFUSED) for name, made in BOMBS.items())
    return [one for one in found if one]


def see_mistakes() -> dict[str, str]:
    """What a case that is wrong looks like."""

    def late() -> None:
        began = time.process_time()
        while time.process_time() - began < MOST_CPU + 0.1:
            pass

    def broken() -> None:
        raise KeyError("planted")

    def large() -> None:
        bytearray((MOST_MB + 50) * 1_048_576)[::4096].count(1)

    return {name: tried(name, act, MEANT) for name, act in (("uncaught", broken), ("late", late), ("large", large))}


def schemathesis(examples: int) -> str:
    """The API tried by its own description: the test of ./check, with more examples."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/web/test_api.py"],
        cwd=ROOT, capture_output=True, text=True, check=False, env=None, timeout=900,
    )  # fmt: skip
    return "" if told.returncode == 0 else told.stdout[-1_500:] + str(examples)


def run(argv: Sequence[str]) -> int:
    """The long form."""
    words = argparse.ArgumentParser(prog="python -m tests.trust fuzz")
    words.add_argument("--count", type=int, default=3_000, help="mutations of each reader")
    words.add_argument("--reader", choices=list(READERS), default="")
    words.add_argument("--seed", type=int, default=0)
    chosen = words.parse_args(argv)
    if chosen.reader:
        print(json.dumps(fuzzed(chosen.reader, 1, chosen.seed), ensure_ascii=False))
        return 0
    figures = Figures()
    for name in READERS:
        wrong = fuzzed(name, chosen.count, chosen.seed)
        figures.say(f"reader {name}", f"{chosen.count} mutations, {len(wrong)} wrong")
        figures.broken(wrong)
    figures.say("strings that try to leave the expressions", f"{len(HOSTILE)}, {len(escapes())} taken")
    figures.broken(escapes())
    wrong = bombs()
    figures.say("bombs", f"{len(BOMBS)}, {len(wrong)} not refused inside the limit")
    figures.broken(wrong)
    said = schemathesis(100)
    figures.say("the API by schemathesis", said or "0 failures")
    figures.broken([said] if said else [])
    figures.planted(see_mistakes())
    figures.floor("cases", chosen.count * len(READERS), 14 * 300)
    return figures.code
