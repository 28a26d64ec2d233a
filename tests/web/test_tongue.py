"""Every sentence of the pages goes through the catalogues; each catalogue there is says all of them."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.pofile import read_po, write_po

from runner import tongue
from runner.core.state import Failure, State
from runner.people.table import ACTIONS
from runner.people.table import sentence as answer
from runner.recorded import RECORDED, retold
from runner.telling import times
from runner.tongue import CATALOGUES, LANGUAGES, _, chosen, several, speaking, spoken
from tests.house import ROOT

with (CATALOGUES / "babel.cfg").open(encoding="utf-8") as file:
    METHODS, OPTIONS = parse_mapping_cfg(file)  # type: ignore[no-untyped-call]
KEYWORDS: dict[str, tuple[int, int] | None] = {"_": None, "marked": None, "several": (1, 2)}


def sentences(folder: Path = ROOT / "runner") -> set[str]:
    """Every sentence of the code and of the templates."""
    found = extract_from_dir(folder, METHODS, OPTIONS, keywords=KEYWORDS)
    return {_singular(message) for _file, _line, message, _comments, _context in found}


def _singular(message: object) -> str:
    return str(message[0]) if isinstance(message, tuple | list) else str(message)


def faults(catalogue: Catalog, wanted: set[str]) -> list[str]:
    """Sentences that a catalogue leaves out, or says with other places for values."""
    wrong = []
    for sentence in sorted(wanted):
        message = catalogue.get(sentence)
        if message is None or not message.string or message.fuzzy:
            wrong.append(f"untranslated: {sentence}")
            continue
        told = message.string if isinstance(message.string, str) else message.string[-1]
        if _places(told) != _places(sentence):
            wrong.append(f"other places: {sentence}")
    return wrong


def _places(sentence: str) -> set[str]:
    return {name for _text, name, _form, _conversion in string.Formatter().parse(sentence) if name}


def test_the_sentences_are_found() -> None:
    found = sentences()
    assert len(found) > 150
    assert {"What waits for me", "{count} error: it cannot run", "is cancelled"} <= found


def spoken_in(module: str) -> set[str]:
    """Every sentence that is handed to `_`, `marked` or `several` as it stands, also inside an f-string."""
    calls = (one for one in ast.walk(ast.parse(module)) if isinstance(one, ast.Call) and one.args)
    named = (one.args[0] for one in calls if isinstance(one.func, ast.Name) and one.func.id in KEYWORDS)
    return {one.value for one in named if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value}


def test_no_sentence_is_hidden_from_the_catalogues() -> None:
    told = {
        one for file in (ROOT / "runner").rglob("*.py") for one in spoken_in(file.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert told - sentences() == set(), "inside an f-string Babel does not see it"
    assert spoken_in("f'{_(\"Hidden\")}'") == {"Hidden"}


@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "en"])
def test_each_catalogue_says_everything(language: str) -> None:
    file = CATALOGUES / language.replace("-", "_") / "LC_MESSAGES" / "amends.po"
    with file.open("rb") as text:
        catalogue = read_po(text)
    assert faults(catalogue, sentences()) == []
    assert {_singular(message.id) for message in catalogue if message.id} <= sentences(), "said by nobody any more"


def test_a_gap_and_a_wrong_place_are_found() -> None:
    catalogue = Catalog()
    catalogue.add("Step {step}", "Schritt {stufe}")
    catalogue.add("Runs", "")
    assert faults(catalogue, {"Step {step}", "Runs", "People"}) == [
        "untranslated: People", "untranslated: Runs", "other places: Step {step}",
    ]  # fmt: skip


TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>|\{#.*?#\}", re.DOTALL)


def bare_words(template: str) -> list[str]:
    """Words of a template that stand outside `_()`."""
    return [word for word in TAG.sub(" ", template).split() if re.search(r"[A-Za-z]{2}", word)]


def test_no_template_speaks_english_by_itself() -> None:
    wrong = {
        file.name: words
        for file in (ROOT / "runner/web/pages").glob("*.html")
        if (words := bare_words(file.read_text(encoding="utf-8")))
    }
    assert wrong == {}
    assert bare_words('<p class="x">{{ _("Good") }} Planted <b>{% if a %}too{% endif %}</b></p>') == ["Planted", "too"]


def test_a_catalogue_is_spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalog(locale="ja")
    catalogue.add("Step {step}", "手順 {step}")
    catalogue.add(("{count} run", "{count} runs"), ("実行 {count} 件",))
    folder = tmp_path / "ja" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    with (folder / "amends.po").open("wb") as out:
        write_po(out, catalogue)
    monkeypatch.setattr("runner.tongue.CATALOGUES", tmp_path)
    monkeypatch.setattr("runner.tongue._catalogue", tongue._catalogue.__wrapped__)
    assert _("Step {step}", step=3) == "Step 3"
    with speaking("ja"):
        assert (spoken(), _("Step {step}", step=3), several("{count} run", "{count} runs", 2)) == (
            "ja", "手順 3", "実行 2 件",
        )  # fmt: skip
        assert _("") == ""
    assert spoken() == "en"


def test_days_and_lengths_of_time_are_written_as_the_language_does() -> None:
    at = 1_788_220_800_000
    told = {}
    for language in LANGUAGES:
        with speaking(language):
            told[language] = (times.short(at, "Asia/Tokyo"), times.span(180_000), times.left(3 * 86_400_000))
    assert told == {
        "en": ("2026-09-01 09:00", "3 min", "in 3 days"),
        "ja": ("2026年9月1日 09:00", "3 分", "あと 3 日"),
        "zh-TW": ("2026年9月1日 09:00", "3 分鐘", "還有 3 天"),
    }


@pytest.mark.parametrize(
    ("own", "accepted", "language"),
    [
        ("", "", "en"),
        ("ja", "en", "ja"),
        ("", "ja,en;q=0.8", "ja"),
        ("", "fr;q=1, zh-Hant-TW;q=0.9, en;q=0.1", "zh-TW"),
        ("", "zh-CN", "en"),
        ("", "en;q=0.2, ja-JP;q=0.9", "ja"),
        ("", "ja;q=x", "en"),
        ("", "eng", "en"),
    ],
)
def test_the_language_is_the_person_s_then_the_browser_s(own: str, accepted: str, language: str) -> None:
    assert chosen(own, accepted, "en") == language


def skeletons(folder: Path) -> set[str]:
    """Every text of a folder's code with its values taken out: `{} said no`."""
    found = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def is_written(piece: str, texts: str) -> bool:
    """Whether a piece of a sentence stands in the code, as it is or put together out of two."""
    return any(piece[:at] in texts and piece[at:] in texts for at in range(len(piece) + 1))


def test_each_recorded_sentence_is_written_somewhere() -> None:
    rooms = (
        "runner/core",
        "runner/engine",
        "runner/people",
        "runner/store",
        "runner/language",
        "runner/triggers",
        "runner/web",
        "connectors",
    )
    texts = "\n".join(text for room in rooms for text in skeletons(ROOT / room))
    pieces = [(one, part) for one in RECORDED for part in re.split(r"\{\w+\}", one.removesuffix("."))]
    assert [one for one, part in pieces if not is_written(part.strip(), texts)] == []
    assert not is_written("this is planted", texts)


def test_a_recorded_sentence_is_said_in_the_reader_s_language() -> None:
    said = "It could not be looked up: the connection to shop.test broke before a complete answer came"
    assert retold(said) == said
    with speaking("ja"):
        assert retold(said) == "照会できませんでした：shop.test との接続が、応答が完了する前に切れました"
        assert retold("Nobody has written this.") == "Nobody has written this."


@pytest.mark.parametrize("language", ["ja", "zh-TW"])
def test_why_an_order_is_refused_is_said_in_the_reader_s_language(language: str) -> None:
    states = [
        State(run="7"), State(run="7", is_paused=True), State(run="7", status="failed"), State(run="7", status="stopped"),
        State(run="7", stop=Failure(kind="stop", step="", summary="", at=0)),
    ]  # fmt: skip
    with speaking(language):
        told = {answer(state, action)[1] for state in states for action in ACTIONS}
    english = [text for text in told if re.search(r"[A-Za-z]{2}", re.sub(r"`[^`]*`", "", text))]
    assert (english, len(told) > 20) == ([], True)
