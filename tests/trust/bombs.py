"""Small things that would become large ones, or take for ever: each is refused inside its limit."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from typing import Any

from connectors.answers import Seen, json_of
from connectors.calendar import _listed
from connectors.declarative import kind_from_text
from connectors.sheet.books import Told, read_book
from connectors.wire import Answer
from runner.language.expressions import evaluate
from runner.language.load import load_flow
from runner.language.people import load_people
from runner.language.source import read
from runner.language.validity import pattern_matcher
from runner.triggers.bodies import read_body
from runner.triggers.mails import as_text, read_head, read_mail

BOMBS: dict[str, Callable[[], Any]] = {}
JSON = {"content-type": "application/json"}


def bomb(made: Callable[[], Any]) -> Callable[[], Any]:
    """Registers one."""
    BOMBS[made.__name__.replace("_", " ")] = made
    return made


def aliases(deep: int = 9, wide: int = 9) -> str:
    """A YAML of a billion laughs."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * wide)}]" for n in range(1, deep)]
    return "\n".join(lines)


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "lolololololololololol">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    + '<!ENTITY ext SYSTEM "file:///etc/passwd">]>'
)


MANY = b"<!-- 210 MB of spaces -->"


def zipped(parts: dict[str, bytes]) -> bytes:
    """A workbook's file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in parts.items():
            start, _, end = content.partition(MANY)
            with made.open(name, "w") as written:
                written.write(start)
                for _ in range(210 if MANY in content else 0):
                    written.write(b" " * 1_000_000)
                written.write(end)
    return out.getvalue()


def workbook(rows: bytes) -> bytes:
    """A workbook whose one sheet holds this."""
    kind = "http://schemas.openxmlformats.org"
    return zipped({
        "[Content_Types].xml": f'<Types xmlns="{kind}/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>'.encode(),
        "_rels/.rels": f'<Relationships xmlns="{kind}/package/2006/relationships"><Relationship Id="r1" Type="{kind}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>'.encode(),
        "xl/workbook.xml": f'<workbook xmlns="{kind}/spreadsheetml/2006/main" xmlns:r="{kind}/officeDocument/2006/relationships"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>'.encode(),
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kind}/package/2006/relationships"><Relationship Id="r1" Type="{kind}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'.encode(),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{kind}/spreadsheetml/2006/main"><sheetData>'.encode() + rows + b"</sheetData></worksheet>",
    })  # fmt: skip


GZIP = gzip.compress(b" " * 10_000_000)
GZIP_OF_GZIP = gzip.compress(GZIP)


@bomb
def gzip_of_a_webhook() -> Any:
    return read_body({**JSON, "content-encoding": "gzip"}, GZIP)


@bomb
def gzip_in_gzip_of_a_webhook() -> Any:
    return read_body({**JSON, "content-encoding": "gzip"}, GZIP_OF_GZIP)


@bomb
def aliases_of_yaml() -> Any:
    return read(aliases(), "bomb.yaml")


@bomb
def aliases_in_a_flow() -> Any:
    return load_flow(f"flow: bomb\ntitle: x\nowner: person:me\nsteps: []\n{aliases()}", "bomb.yaml")


@bomb
def aliases_in_a_connector() -> Any:
    return kind_from_text(f"connector: bomb\n{aliases()}", "bomb.yaml")


@bomb
def yaml_that_merges_itself() -> Any:
    return read("a: &a\n  <<: *a\n  b: [*a, *a]\n", "bomb.yaml")


@bomb
def deep_yaml() -> Any:
    return read("[" * 20_000 + "]" * 20_000, "bomb.yaml")


@bomb
def deep_blocks_of_yaml() -> Any:
    return read("\n".join(" " * n + "a:" for n in range(2_000)), "bomb.yaml")


@bomb
def long_yaml() -> Any:
    return read("a: [" + "1, " * 400_000 + "1]", "bomb.yaml")


@bomb
def deep_json() -> Any:
    return read_body(JSON, b"[" * 500_000)


@bomb
def deep_json_of_a_service() -> Any:
    return json_of(Answer(status=200, headers=JSON, body=b"[" * 5_000_000))


@bomb
def long_number_of_a_service() -> Any:
    return json_of(Answer(status=200, headers=JSON, body=b"9" * 5_000_000))


MANY_KEYS = b"{" + b", ".join([b'"k%d": %d' % (n, n) for n in range(300_000)]) + b"}"
"""Made beforehand: what is measured is the reading."""


@bomb
def many_keys_of_a_service() -> Any:
    answer = Answer(status=500, headers=JSON, body=MANY_KEYS)
    return Seen.of(answer, scope={}, with_text=True, url="http://a", redact=str)


@bomb
def markup_of_a_service() -> Any:
    body = b"<script" * 500_000
    seen = Seen.of(Answer(status=500, headers={"content-type": "text/html"}, body=body), scope={}, with_text=True,
                   url="http://a", redact=str)  # fmt: skip
    return seen.failed()


@bomb
def laughs_of_a_calendar() -> Any:
    return list(_listed(f"{LAUGHS}<d:multistatus xmlns:d='DAV:'>&j;&ext;</d:multistatus>"))


@bomb
def calendar_with_many_lines() -> Any:
    data = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n" + "X-A:b\r\n" * 20_000 + "END:VEVENT\r\nEND:VCALENDAR\r\n"
    xml = f"<d:multistatus xmlns:d='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><d:response><d:propstat><d:prop><d:getetag>e</d:getetag><c:calendar-data>{data}</c:calendar-data></d:prop></d:propstat></d:response></d:multistatus>"
    return list(_listed(xml))


@bomb
def spaces_in_a_workbook() -> Any:
    return read_book(Told(kind=".xlsx"), workbook(MANY), to_write=False)


@bomb
def cells_in_a_workbook() -> Any:
    return read_book(Told(kind=".xlsx"), workbook(b'<row r="1"><c r="XFD1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'), to_write=False)  # fmt: skip


@bomb
def a_wide_and_long_workbook() -> Any:
    return read_book(Told(kind=".xlsx"), workbook(b'<row r="1"><c r="A1"><v>1</v></c></row><row r="60000"><c r="XFD60000"><v>1</v></c></row>'), to_write=False)  # fmt: skip


@bomb
def many_rows_in_a_workbook() -> Any:
    return read_book(Told(kind=".xlsx"), workbook(b"<row><c><v>1</v></c></row>" * 1_200_000), to_write=False)


@bomb
def parts_in_a_mail() -> Any:
    inner = "Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n"
    return read_mail(("".join(inner.format(n=n) for n in range(3_000))).encode())


@bomb
def many_parts_in_a_mail() -> Any:
    return read_mail(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 100_000)


@bomb
def headers_of_a_mail() -> Any:
    return read_head(b"References: " + b"<a@b> " * 60_000 + b"\r\n" + b"To: " + b"(" * 20_000 + b"\r\n\r\n")


@bomb
def addresses_of_a_mail() -> Any:
    return read_head(b"To: " + b"a@b.test, " * 20_000 + b"\r\nSubject: " + b"=?utf-8?Q?=41?= " * 10_000 + b"\r\n\r\n")


@bomb
def html_of_a_mail() -> Any:
    return as_text("<div>" * 200_000 + "<!--" * 50_000 + "&#" * 100_000)


@bomb
def a_pattern_that_doubles() -> Any:
    return pattern_matcher("^(a+)+$").isinstance_python("a" * 40 + "!")


@bomb
def a_pattern_of_many_repeats() -> Any:
    return pattern_matcher("^((a{0,100}){0,100}){0,100}$").isinstance_python("a" * 50_000 + "!")


@bomb
def an_expression_over_a_huge_list() -> Any:
    scope = {"inputs": {"a": [{"n": n} for n in range(100_000)]}}
    return evaluate("${{ inputs.a | where('n', 5) | length }}", scope, now=0, zone="UTC")


@bomb
def an_expression_that_joins_much() -> Any:
    scope = {"inputs": {"a": ["x" * 1_000] * 20_000}}
    return evaluate("${{ inputs.a | join(',') }}", scope, now=0, zone="UTC")


@bomb
def an_expression_that_replaces_much() -> Any:
    scope = {"inputs": {"a": "a" * 100_000}}
    nested = "inputs.a | replace('a', 'aaaaaaaaaa') | replace('a', 'aaaaaaaaaa') | replace('a', 'aaaaaaaaaa')"
    return evaluate("${{ " + nested + " }}", scope, now=0, zone="UTC")


@bomb
def people_with_laughs() -> Any:
    return load_people(f"people: {{}}\n{aliases()}", "people.yaml")
