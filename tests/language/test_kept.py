"""What is kept of a check is never told where anything that counts has changed, and a damaged cache harms nobody."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields
from pathlib import Path

import pytest

from runner.cli.check import rehearsing
from runner.errors import Problem
from runner.language import kept
from runner.language.facts import ProjectFacts
from runner.language.kept import check_again, check_with_tests
from runner.language.project import Project
from tests.flows.stage import FLOWS, copy_flows

FEW = "amends people connections mail_desk invoice_reminder reminders_due signup_to_paid".split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    for flow in made.glob("*.yaml"):
        if flow.stem not in FEW:
            flow.unlink()
    return made


def cache(folder: Path) -> Path:
    return folder / ".amends" / "cache" / "check.json"


def again(folder: Path, which: str | None = None) -> dict[str, tuple[Problem, ...]]:
    return {one.file: one.problems for one in check_again(Project.open(folder), which)}


def fresh(folder: Path) -> dict[str, tuple[Problem, ...]]:
    return {one.file: one.problems for one in Project.open(folder).check()}


def again_with_tests(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The flow tests that were read, and what is wrong in the others' files and theirs."""
    project, read = Project.open(folder), []
    rehearse = rehearsing(project)

    def reading(file: Path) -> tuple[str, tuple[Problem, ...]]:
        read.append(file.name)
        return rehearse(file)

    told = check_with_tests(project, None, reading)[1]
    return read, {one.file: " ".join(each.what for each in one.problems) for one in told}


def is_used(folder: Path) -> bool:
    """Whether what is kept is told: a planted answer comes back."""
    head, _, body = cache(folder).read_text(encoding="utf-8").partition("\n")
    entries = json.loads(body)
    entries["mail_desk.yaml"]["mode"] = "planted"
    body = json.dumps(entries)
    cache(folder).write_text(f"{head.split()[0]} {kept._hash(body)}\n{body}", encoding="utf-8")
    return any(one.mode == "planted" for one in check_again(Project.open(folder)))


def test_the_second_time_what_was_kept_is_told(folder: Path) -> None:
    assert again(folder) == again(folder) == fresh(folder)
    assert is_used(folder)


CHANGES = {
    "the flow": ("mail_desk.yaml", "steps.kind.choice }}", "steps.kid.choice }}"),
    "a called flow": ("invoice_reminder.yaml", "inputs:\n", "inputs:\n  more: text\n"),
    "people": ("people.yaml", "sales_leads:", "sales_leadz:"),
    "a connector": ("connectors/tasks.yaml", "  create:\n", "  make:\n"),
    "a connection": ("connections.yaml", "tasks: {", "tasksx: {"),
    "a template": ("templates/welcome.md", "${{", "${{ nobody }} ${{"),
    "a setting": ("amends.yaml", "zone: ", "# zone: "),
}


@pytest.mark.parametrize(("name", "old", "new"), CHANGES.values(), ids=CHANGES)
def test_what_has_changed_is_looked_at_again(folder: Path, name: str, old: str, new: str) -> None:
    due = folder / "reminders_due.yaml"
    due.write_text(re.sub(r"(?m)^ +zone: .*\n", "", due.read_text(encoding="utf-8")), encoding="utf-8")
    before = again(folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    assert again(folder) == fresh(folder) != before


def test_a_flow_test_is_read_again_where_it_or_its_flow_has_changed(folder: Path) -> None:
    mine, other, flow = (folder / name for name in ("mail_desk.test.yaml", "reminders_due.test.yaml", "mail_desk.yaml"))
    for file in (mine, other):
        file.write_text((FLOWS / file.name).read_text(encoding="utf-8"), encoding="utf-8")
    fine = {mine.name: "", other.name: ""}
    assert again_with_tests(folder) == ([mine.name, other.name], fine)
    assert again_with_tests(folder) == ([], fine)

    text = mine.read_text(encoding="utf-8")
    mine.write_text(text.replace("test: mail_desk", "test: mail_dusk"), encoding="utf-8")
    read, wrong = again_with_tests(folder)
    assert read == [mine.name]
    assert "mail_dusk" in wrong[mine.name]
    assert again_with_tests(folder) == (read, wrong)
    mine.write_text(text, encoding="utf-8")
    assert again_with_tests(folder) == ([mine.name], fine)

    was = flow.read_text(encoding="utf-8")
    flow.write_text(was.replace("title: ", "title: Another ", 1), encoding="utf-8")
    assert again_with_tests(folder) == ([mine.name], fine)
    flow.write_text(was.replace("steps:", "steppes:", 1), encoding="utf-8")
    for _ in range(2):
        assert mine.name in again_with_tests(folder)[0]
    flow.write_text(was, encoding="utf-8")
    read, wrong = again_with_tests(folder)
    assert mine.name in read
    assert wrong == fine
    assert again_with_tests(folder) == ([], fine)


def test_a_schema_and_a_flow_that_are_new_count_too(folder: Path) -> None:
    (folder / "mine.yaml").write_text(
        "flow: mine\ntitle: Mine\nowner: person:aya\ninputs: { schema: schemas/x.json }\n"
        "steps:\n  - { id: it, call: other }\n",
        encoding="utf-8",
    )
    assert len(again(folder)["mine.yaml"]) == 2
    (folder / "schemas").mkdir()
    (folder / "schemas" / "x.json").write_text(
        '{"type": "object", "properties": {"a": {"type": "string"}}, "required": []}', encoding="utf-8"
    )
    (folder / "other.yaml").write_text(
        "flow: other\ntitle: Other\nowner: person:aya\nsteps:\n  - { id: it, wait: 1 day }\n", encoding="utf-8"
    )
    assert again(folder) == fresh(folder)
    assert again(folder)["mine.yaml"] == ()


def test_only_flows_that_are_there_are_kept(folder: Path) -> None:
    again(folder)
    (folder / "mail_desk.yaml").unlink()
    again(folder)
    assert "mail_desk.yaml" not in cache(folder).read_text(encoding="utf-8")


def test_one_flow_alone_leaves_the_others_kept(folder: Path) -> None:
    again(folder)
    assert list(again(folder, "signup_to_paid")) == ["signup_to_paid.yaml"]
    assert is_used(folder)


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_cache_is_not_believed(folder: Path, seed: int) -> None:
    chance, right = random.Random(seed), again(folder)
    whole = cache(folder).read_bytes()
    for _ in range(3):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        cache(folder).write_bytes(bytes(damaged[: chance.choice([len(damaged), len(damaged) // 2])]))
        assert again(folder) == right
    cache(folder).write_bytes(b"")
    assert again(folder) == right
    cache(folder).unlink()
    cache(folder).mkdir()
    assert again(folder) == right


def test_another_state_of_the_program_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again(folder)
    head, _, body = cache(folder).read_text(encoding="utf-8").partition("\n")
    cache(folder).write_text(f"{'0' * 64} {head.split()[1]}\n{body.replace('live', 'planted')}", encoding="utf-8")
    assert "planted" not in {one.mode for one in check_again(Project.open(folder))}
    assert not list(cache(folder).parent.glob("*.new"))


def test_a_project_that_cannot_be_written_to_is_checked_all_the_same(folder: Path) -> None:
    (folder / ".amends").write_text("", encoding="utf-8")
    assert again(folder) == fresh(folder)


def test_all_that_the_rules_can_see_is_in_the_stamp() -> None:
    """A new field of ProjectFacts belongs into `kept._stamp`, unless it is read through `read_file` or never changes."""
    in_the_stamp = {"actions", "people", "connections", "unreadable", "templates", "flows"}
    settings = {"zone", "has_zone", "language", "project"}
    assert {one.name for one in fields(ProjectFacts)} == in_the_stamp | settings | {"read_file", "keeps_drills"}
