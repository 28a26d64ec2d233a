"""The table of OWASP's ASVS 5.0, levels 1 and 2 (`asvs.csv`): each item once, and what proves it is there.

A row has the item's id and level, what it is about, and a status: `holds`, `partly` and `missing` (the note says what is
missing), `not here` (the note says why), `whoever runs it` (SECURITY.md says what they do). A proof is a test
(`file::name`, with an attack of test_attacks in brackets), `ruff:CODE` for a rule that ./check holds, or
`doc:FILE#heading`.
"""

from __future__ import annotations

import ast
import base64
import csv
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from runner.people.access import new_access
from runner.people.codes import LENGTH, SIGNS
from runner.store.codes import LIFE, TRIES
from tests.house import ROOT

TABLE = Path(__file__).with_name("asvs.csv")
STATUS = ("holds", "partly", "missing", "not here", "whoever runs it")
ITEMS = (
    "1.1:22 1.2:1111122223 1.3:112222222223 1.4:222 1.5:123 2.1:122 2.2:112 2.3:12223 2.4:23 3.1:3 3.2:113 3.3:12223"
    " 3.4:11222233 3.5:11122333 3.6:3 3.7:22333 4.1:12233 4.2:23333 4.3:22 4.4:1222 5.1:2 5.2:112333 5.3:113 5.4:222"
    " 6.1:122 6.2:111111112222 6.3:11223333 6.4:112233 6.5:22222333 6.6:2223 6.7:33 6.8:2222 7.1:222 7.2:1111 7.3:22"
    " 7.4:11222 7.5:223 7.6:22 8.1:1233 8.2:1123 8.3:133 8.4:23 9.1:111 9.2:1222 10.1:22 10.2:223 10.3:22223"
    " 10.4:1111122222233333 10.5:22222 10.6:22 10.7:222 11.1:2233 11.2:22233 11.3:11233 11.4:1222 11.5:23 11.6:23"
    " 11.7:33 12.1:12233 12.2:11 12.3:22223 13.1:2333 13.2:222223 13.3:2233 13.4:1222233 14.1:22 14.2:12223333"
    " 14.3:122 15.1:12233 15.2:12233 15.3:1222222 15.4:3333 16.1:2 16.2:22222 16.3:2222 16.4:222 16.5:2223 17.1:23"
    " 17.2:22223333 17.3:22"
)
"""The level of each item of a section, in their order."""
JITTER = ("runner/triggers/poll.py",)
"""Modules whose randomness only spreads work over time."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One item."""

    id: str
    level: str
    item: str
    status: str
    proof: str
    note: str

    @property
    def proofs(self) -> list[str]:
        return [one for one in self.proof.split("; ") if one]


def rows() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file, strict=True)]


def wanted() -> dict[str, str]:
    """The level of each item of level 1 and 2."""
    sections = (one.partition(":") for one in ITEMS.split())
    return {
        f"{section}.{number}": level
        for section, _, levels in sections for number, level in enumerate(levels, 1) if level != "3"
    }  # fmt: skip


@cache
def functions_of(path: str) -> frozenset[str]:
    """The functions of a module, none for a file that is not there."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def headings_of(path: str) -> frozenset[str]:
    """What links into a page of text can name."""
    file = ROOT / path
    found = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE) if file.is_file() else []
    return frozenset(re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in found)


@cache
def linted() -> frozenset[str]:
    """The rules that ruff holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return frozenset(settings["tool"]["ruff"]["lint"]["select"])


def is_there(proof: str) -> bool:
    """Whether what is named exists."""
    if proof.startswith("ruff:"):
        return proof.removeprefix("ruff:") in linted()
    if proof.startswith("doc:"):
        path, _, heading = proof.removeprefix("doc:").partition("#")
        return heading in headings_of(path)
    path, _, name = proof.partition("::")
    name, _, case = name.rstrip("]").partition("[")
    return name.startswith("test_") and {name, case or name} <= functions_of(path)


def faults(table: list[Row]) -> list[str]:
    """What is wrong with the table."""
    found = [f"{one} stands {count} times" for one, count in Counter(row.id for row in table).items() if count > 1]
    found += [f"{one} is not there" for one in wanted().keys() - {row.id for row in table}]
    for row in table:
        if wanted().get(row.id) != row.level:
            found.append(f"{row.id} is no item of level {row.level}")
        if row.status not in STATUS or not row.item:
            found.append(f'{row.id} is "{row.status}"')
        if row.status in ("holds", "whoever runs it") and not row.proofs:
            found.append(f"{row.id} has no proof")
        if row.status in ("partly", "missing", "not here") and not row.note:
            found.append(f"{row.id} does not say what is missing, or why")
        if row.status == "missing" and row.proofs:
            found.append(f"{row.id} is missing and has a proof")
        found += [f"{row.id}: {one} is not there" for one in row.proofs if not is_there(one)]
    return found


def test_each_item_stands_in_the_table_and_its_proof_is_there() -> None:
    table = rows()
    assert len(wanted()) == 253
    assert faults(table) == []
    count = Counter(row.status for row in table)
    print(*(f"{status}: {count[status]}" for status in STATUS), sep="\n")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"proof": "tests/web/test_attacks.py::test_nothing_at_all"}, "is not there"),
        ({"proof": "tests/web/test_attacks.py::test_nothing_gets_through[an_attack_of_nobody]"}, "is not there"),
        ({"proof": "tests/web/test_nowhere.py::test_nothing_gets_through"}, "is not there"),
        ({"proof": "tests/web/test_attacks.py::decided"}, "is not there"),
        ({"proof": "ruff:S999"}, "is not there"),
        ({"proof": "doc:SECURITY.md#no-such-part"}, "is not there"),
        ({"proof": ""}, "has no proof"),
        ({"level": "3"}, "is no item of level 3"),
        ({"id": "1.1.2"}, "stands 2 times"),
        ({"id": "99.1.1"}, "1.1.1 is not there"),
        ({"status": "holds, more or less"}, 'is "holds, more or less"'),
        ({"status": "partly", "note": ""}, "does not say what is missing"),
        ({"status": "missing", "note": "all of it"}, "is missing and has a proof"),
    ],
)
def test_a_row_that_says_too_much_is_seen(changed: dict[str, str], said: str) -> None:
    first, *others = rows()
    proof = "tests/web/test_attacks.py::test_html_in_every_shown_value_stays_text"
    right = {**first.__dict__, "status": "holds", "proof": proof}
    assert faults([Row(**right), *others]) == []
    assert any(said in one for one in faults([Row(**right | changed), *others]))


# --- items that no other test proves -----------------------------------------------------------------------------------


def guessable(root: Path) -> list[str]:
    """The modules of the product that make random signs otherwise than by the system."""
    files = [path for folder in ("runner", "connectors") for path in sorted((root / folder).rglob("*.py"))]
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
    return [name for name, text in texts.items() if "random" in text and name not in JITTER and takes_random(text)]


def takes_random(text: str) -> bool:
    """Whether a module imports Python's `random`, by whatever name."""
    statements = [*ast.walk(ast.parse(text))]
    named = [alias.name for one in statements if isinstance(one, ast.Import) for alias in one.names]
    named += [one.module or "" for one in statements if isinstance(one, ast.ImportFrom)]
    return any(name.split(".")[0] == "random" for name in named)


def test_random_signs_come_from_the_system(tmp_path: Path) -> None:
    assert guessable(ROOT) == []
    assert takes_random((ROOT / JITTER[0]).read_text(encoding="utf-8"))
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner/lot.py").write_text("from random import choice\n")
    (tmp_path / "runner/dice.py").write_text("from secrets import choice  # no random\n")
    assert guessable(tmp_path) == ["runner/lot.py"]


def test_what_opens_a_door_cannot_be_guessed() -> None:
    one, two = (new_access("session", "person:tom", now=0)[0] for _ in range(2))
    assert one != two
    assert len(base64.urlsafe_b64decode(f"{one}=")) * 8 == 256
    assert new_access("link", "person:tom", now=0)[1].until == 24 * 3_600_000
    assert len(set(SIGNS)) ** LENGTH >= 2**35
    assert (LIFE, TRIES) == (600_000, 5)


def test_pages_keep_nothing_in_the_browser() -> None:
    pages = [path for path in (ROOT / "runner/web/pages").iterdir() if path.suffix in (".html", ".js")]
    assert len(pages) > 20
    kept = re.compile(r"localStorage|sessionStorage|indexedDB|document\.cookie|serviceWorker|caches\.")
    assert [path.name for path in pages if kept.search(path.read_text(encoding="utf-8"))] == []
    assert kept.search("localStorage.setItem('a', 1)")
