"""Mail and exports: 60 strings that try to add a header, a recipient or a part, in six fields of a mail on a real wire;
the same strings and more in every file that a spreadsheet opens.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import email
import email.policy
import io
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl

from connectors import email as mails
from connectors import letter
from connectors.sheet import books
from connectors.sheet import kind as sheet
from runner import cells
from runner.cells import csv_lines
from runner.errors import AmendsError
from tests.connectors.tools import Lent
from tests.support.smtp_service import SmtpService
from tests.trust.figures import Figures
from tests.trust.guard import instead

BREAKS = ("\r\n", "\n", "\r", "\v", "\f", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\r\n\r\n", "\n\n", "\x00\r\n",
          "\u200b\n", "%0d%0a", "=0D=0A")  # fmt: skip
TAILS = ("Bcc: eve@evil.test", "To: eve@evil.test", "Content-Type: text/html")
ODD = (
    "x@a.test>, <eve@evil.test", '"x" <a@a.test>, eve@evil.test', "a@a.test, eve@evil.test", "a@a.test;eve@evil.test",
    "=?utf-8?B?DQpCY2M6IGV2ZUBldmlsLnRlc3Q=?=", "=?utf-8?Q?x=0D=0ABcc:_eve@evil.test?=", "\r\n.\r\nMAIL FROM:<eve@evil.test>",
    "\n.\nRCPT TO:<eve@evil.test>", "\r\n--boundary--\r\nBcc: eve@evil.test", 'x"; filename="eve.exe',
    "x\r\n .\r\n", "x\n\tBcc: eve@evil.test",
)  # fmt: skip
STRINGS: tuple[str, ...] = (
    *[f"x{cut}{tail}" for cut, tail in itertools.product(BREAKS, TAILS)],
    *ODD,
)
FIELDS = ("to", "to_name", "reply_to", "subject", "text", "file_name")
"""Where they are put."""
FORMULAS = (
    "=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1", "＋1", "－1", "＠A1",
    " =1+1", "\u00a0=1+1", "\ufeff=1+1", "\u200b=1+1", "\x00=1+1", "\u3000=1+1", '"=1+1', "x;=1+1", "x\t=1+1",
    "x\n=1+1", "x|=1+1", "x,=1+1", 'x";=1+1', "x; =1+1", '=HYPERLINK("http://evil.test")', "=DDE()", "x\r\n@SUM(A1)",
)  # fmt: skip


def _letter(field: str, text: str, tools: Lent) -> dict[str, Any]:
    given: dict[str, Any] = {"to": "aya@acme.test", "subject": "Hello", "text": "Hi", "reply_to": "desk@acme.test"}
    content = b"a file"
    given["attach"] = [{"name": "a.txt", "kind": "txt", "sha256": tools.keep(content), "size": len(content)}]
    if field == "to_name":
        given["to"] = f"{text} <aya@acme.test>"
    elif field == "file_name":
        given["attach"][0]["name"] = text
    else:
        given[field] = text
    return given


def _shape(raw: str) -> tuple[Any, ...]:
    """What a mail consists of: its headers by name, its parts."""
    parsed = email.message_from_bytes(raw.encode("utf-8", "surrogateescape"), policy=email.policy.default)
    return (
        sorted(name.lower() for name in parsed.keys()),  # noqa: SIM118 - a mail's header may come twice
        [part.get_content_type() for part in parsed.walk()],
        len(parsed.defects),
    )


async def letters(strings: Sequence[str] = STRINGS) -> tuple[int, int, list[str]]:
    """(mails that were sent, mails that were refused, what was wrong)"""
    tools, wrong, refused = Lent(), list[str](), 0
    async with SmtpService() as service:
        line = {"host": "127.0.0.1", "port": service.port, "from": "ops@acme.test", "security": "none",
                "allow_insecure": True, "allow_private": True}  # fmt: skip
        made = mails.KIND.connect("mail", line, tools)

        async def send(field: str, text: str, key: str) -> str:
            before = len(service.mails)
            request = made.prepare("send", _letter(field, text, tools), key=key, purpose="do")
            found = await made.send("send", request, key=key, purpose="do", limit=10_000)
            new = service.mails[before:]
            if found.result != "applied" or len(new) != 1 or new[0].to != (request.body["recipient"],):
                wrong.append(f"{field} {text!r}: {found.result}, {[each.to for each in new]}")
            return new[0].text if new else ""

        usual = _shape(await send("text", "Hi", "usual"))
        for number, (field, text) in enumerate(itertools.product(FIELDS, strings)):
            try:
                raw = await send(field, text, f"k{number}")
            except AmendsError:
                refused += 1
                continue
            if raw and _shape(raw) != usual:
                wrong.append(f"{field} {text!r}: the mail is made otherwise, {_shape(raw)}")
        return len(service.mails), refused, wrong


# --- what a spreadsheet opens ------------------------------------------------------------------------------------------


def _runs(cell: str, more: str = "") -> bool:
    """Whether a spreadsheet takes it for a formula; it skips what nobody sees."""
    return cell.lstrip("\x00\ufeff\u200b\u00a0\u3000 \t\r\n" + more).startswith(tuple("=+-@＝＋－＠"))


def exported(text: str) -> list[str]:
    """What is wrong with a file of exports that holds this text, however its cells are parted."""
    content = "".join(csv_lines([["a", text, "b"]])).removeprefix(cells.MARK)
    wrong = [
        f"{text!r}: the cell {one!r} runs" for row in csv.reader(io.StringIO(content)) for one in row if _runs(one)
    ]
    for sign in ";\t|":
        parts = [part for line in content.splitlines() for part in line.split(sign)]
        wrong += [f"{text!r}, parted by {sign!r}: {one!r} runs" for one in parts if _runs(one, '"')]
    return wrong


async def in_sheets(texts: Sequence[str] = FORMULAS) -> list[str]:
    """What is wrong in files of the connector `sheet` that these texts were put into."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".xlsx"):
            file = Path(folder) / f"a{suffix}"
            if suffix == ".csv":
                file.write_text("no,name,ref\n", encoding="utf-8")
            else:
                book = openpyxl.Workbook()
                book.active.append(["no", "name", "ref"])  # type: ignore[union-attr]
                book.save(file)
            made = sheet.KIND.connect("book", {"file": str(file), "key": "ref"}, Lent())
            put: dict[str, str] = {}
            for number, text in enumerate(texts):
                row = {"no": f"n{number}", "name": text}
                try:
                    request = made.prepare("append", {"row": row}, key=f"am_{number}", purpose="do")
                    found = await made.send("append", request, key=f"am_{number}", purpose="do", limit=10_000)
                except AmendsError:
                    continue
                if found.result == "applied":
                    put[f"n{number}"] = text
            wrong += [f"{suffix}: only {len(put)} of {len(texts)} texts were taken"] * (len(put) < len(texts) - 6)
            wrong += _in_csv(file, put) if suffix == ".csv" else _in_book(file)
            await made.close()
    return wrong


def _in_csv(file: Path, put: Mapping[str, str]) -> list[str]:
    rows = list(csv.reader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))[1:]
    wrong = [f".csv: {cell!r} runs" for row in rows for cell in row if _runs(cell)]
    return wrong + [
        f".csv: {put[row[0]]!r} came back as {row[1]!r}" for row in rows if books._bare(row[1]) != put[row[0]]
    ]


def _in_book(file: Path) -> list[str]:
    book = openpyxl.load_workbook(file)
    page: Any = book.active
    return [f".xlsx: {cell.value!r} is a formula" for row in page.iter_rows() for cell in row if cell.data_type == "f"]


# --- mistakes ----------------------------------------------------------------------------------------------------------


async def see_mistakes() -> dict[str, str]:
    """Each planted mistake, and what saw it."""
    caught = {}
    with instead(letter, "one_line", lambda text: text):
        try:
            wrong = (await letters(STRINGS[:6]))[2]
            caught["line breaks stay in headers"] = f"{len(wrong)} mails" if wrong else ""
        except ValueError as error:  # the library's own last look
            caught["line breaks stay in headers"] = f"{type(error).__name__}"
    with instead(letter, "address", lambda text, field: ("", str(text))):
        try:
            wrong = (await letters(ODD[:4]))[2]
            caught["any text is an address"] = f"{len(wrong)} mails" if wrong else ""
        except ValueError as error:
            caught["any text is an address"] = f"{type(error).__name__}"
    with instead(cells, "harmless", lambda cell: cell):
        caught["cells of exports are not looked at"] = f"{sum(map(len, map(exported, FORMULAS)))} cells"
    with instead(cells, "_shown", cells.harmless):
        found = [text for text in FORMULAS if exported(text)]
        caught["cells within cells are not looked at"] = f"{len(found)} texts" if found else ""
    with instead(books, "harmless", lambda cell: cell):
        found = await in_sheets(FORMULAS[:6])
        caught["cells of a sheet are not looked at"] = f"{len(found)} cells" if found else ""
    return caught


async def play(figures: Figures) -> None:
    """All of it."""
    sent, refused, wrong = await letters()
    figures.say("mails", f"{len(STRINGS)} strings in {len(FIELDS)} fields: {sent} sent, {refused} refused")
    figures.broken(wrong)
    figures.say("extra recipients, headers or parts", len(wrong))
    cells_wrong = [one for text in (*FORMULAS, *STRINGS) for one in exported(text)] + await in_sheets()
    figures.broken(cells_wrong)
    figures.say("texts in files of a spreadsheet", f"{len(FORMULAS) + len(STRINGS)}; {len(cells_wrong)} would run")
    figures.planted(await see_mistakes())
    figures.floor("effects", sent, 120)


def run(argv: Sequence[str]) -> int:
    """The long form; it is as long as the short one."""
    argparse.ArgumentParser(prog="python -m tests.trust mail").parse_args(argv)
    figures = Figures()
    asyncio.run(play(figures))
    return figures.code
