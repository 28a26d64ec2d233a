"""What flows/README.md says is so: its examples are read without a problem, and no word of the language is left out."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from pydantic import BaseModel

from connectors.declarative import kind_from_text
from runner.errors import InputsInvalid, Problem
from runner.language.clauses import COMPENSATION_MODELS, LockModel, OnFailureModel, RecordModel, RetryModel
from runner.language.connections import BUILT_IN
from runner.language.fields import KINDS, field_types
from runner.language.functions import FUNCTIONS
from runner.language.load import STEP_VERBS, load_flow
from runner.language.model import (
    AgentLimitsModel,
    AgentModel,
    ApproveModel,
    CallModel,
    ChooseBranchModel,
    ChooseModel,
    DoModel,
    DoToolModel,
    EachModel,
    EmitModel,
    FlowModel,
    HandOffStepModel,
    ParallelModel,
    ReadModel,
    ReadToolModel,
    ToolApprovalModel,
    WaitForModel,
    WaitModel,
)
from runner.language.people import load_people
from runner.language.rehearsed import ANSWER_MODELS, CaseModel, ComesModel, ExpectModel, SaysModel, load_flow_test
from runner.language.schema_files import MOST_LEVELS, MOST_PARTS
from runner.language.schemas import read_inputs
from runner.language.settings import load_settings
from runner.language.source import read
from runner.language.validity import FORMATS
from tests.flows.problem_pages import BEGIN
from tests.flows.stage import copy_flows, project_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "flows" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT.partition(BEGIN)[0], re.MULTILINE | re.DOTALL)
SCHEMA = re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0]
HEAD = "flow: sample\ntitle: A sample\nowner: person:me\nrun_key: ${{ trigger.id }}\n"
STEP = "steps:\n  - id: only\n    do: crm.make\n    compensate: cancel\n"


def whole_flow(block: str) -> str:
    """A block of the page as a whole flow."""
    first = block.split(":", maxsplit=1)[0].split(maxsplit=1)[0]
    if first == "flow":
        return block.replace("flow: welcome_customer", "flow: sample")
    if first == "-":
        return HEAD + "steps:\n" + textwrap.indent(block, "  ")
    if first == "compensate":
        return HEAD + "steps:\n  - id: only\n    do: crm.make\n" + textwrap.indent(block, "    ")
    if first == "with":
        return (
            HEAD + "steps:\n  - id: only\n    do: crm.make\n    compensate: cancel\n" + textwrap.indent(block, "    ")
        )
    return HEAD + block + STEP


def problems_of(block: str) -> tuple[Problem, ...]:
    """What is wrong with a block, whatever file it belongs to."""
    if block.startswith("# amends.yaml"):
        return load_settings(block, "amends.yaml", folder="x")[2]
    if block.startswith("# people.yaml"):
        return load_people(block, "people.yaml")[2]
    if block.startswith("connector:"):
        return kind_from_text(block, "billing.yaml")[1]
    if block.startswith("test:"):
        return load_flow_test(block, "signup_to_paid.test.yaml").problems
    if block.startswith(("crm: {", "# connections.yaml")):
        return read(block, "x.yaml")[1]
    flow, _, problems = load_flow(whole_flow(block), "sample.yaml", lambda name: (SCHEMA, None))
    assert flow is not None
    field_types(flow.inputs)
    return problems


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:40])
def test_every_example_is_read_without_a_problem(block: str) -> None:
    assert problems_of(block) == ()


def test_a_wrong_example_would_be_seen() -> None:
    assert [problem.code for problem in problems_of("compensate:\n  cancle: tasks.close\n")] == ["FL003"]
    assert [problem.code for problem in problems_of("- id: x\n  wait: 3 moons\n")] == ["FL006"]
    assert len(BLOCKS) > 15


def fields(model: type[BaseModel]) -> set[str]:
    """The keys of a model as they are written."""
    return {field.alias or name for name, field in model.model_fields.items()}


MODELS = (
    FlowModel, ReadModel, DoModel, WaitModel, ChooseModel, ChooseBranchModel, ParallelModel, HandOffStepModel,
    OnFailureModel, RetryModel, ApproveModel, EachModel, CallModel, WaitForModel, EmitModel, LockModel, RecordModel,
    AgentModel, AgentLimitsModel, ReadToolModel, DoToolModel, ToolApprovalModel,
)  # fmt: skip


OF_TESTS = (CaseModel, SaysModel, ComesModel, ExpectModel)


@pytest.mark.parametrize(
    "model",
    [*MODELS, *COMPENSATION_MODELS.values(), *ANSWER_MODELS.values(), *OF_TESTS],
    ids=lambda model: model.__name__,
)
def test_every_key_of_the_language_is_named(model: type[BaseModel]) -> None:
    missing = {key for key in fields(model) if not re.search(rf"(`|\b){key}(`|:|\b)", TEXT)}
    assert missing == set()


def test_every_type_word_is_named() -> None:
    assert {word for word in KINDS if word != "any" and f"`{word}`" not in TEXT} == set()


def test_the_schema_on_the_page_is_enforced() -> None:
    flow, _, problems = load_flow(
        whole_flow("inputs: { schema: schemas/order.json }\n"), "sample.yaml", lambda name: (SCHEMA, None)
    )
    assert flow is not None
    assert problems == ()
    assert [(name, field.kind, field.optional) for name, field in flow.inputs.items()] == [
        ("email", "email", False),
        ("price", "number", False),
        ("lines", "list", True),
    ]
    given = {"email": "a@b.co", "price": "19.99", "lines": [{"sku": "AB-1", "qty": 0}]}
    with pytest.raises(InputsInvalid, match="lines: item 1: qty: must be at least 1, not 0"):
        read_inputs(flow.inputs, given, schema=flow.schema)


def test_every_format_and_limit_of_a_schema_is_named() -> None:
    assert {name for name in FORMATS if f"`{name}`" not in TEXT} == set()
    assert f"{MOST_LEVELS} levels or {MOST_PARTS:,} parts" in TEXT


def test_every_word_of_the_expressions_is_named() -> None:
    assert {word for word in FUNCTIONS if f"`{word}" not in TEXT} == set()


def test_every_verb_is_in_the_table() -> None:
    assert {word for word in STEP_VERBS if f"| `{word}` |" not in TEXT} == set()


def test_every_connection_without_a_line_is_named() -> None:
    assert {name for name in BUILT_IN if f"| `{name}` |" not in TEXT} == set()


def test_every_problem_that_the_code_can_tell_is_in_the_table() -> None:
    told = set()
    for file in (ROOT / "runner").rglob("*.py"):
        told |= set(re.findall(r'"(FL\d{3})"', file.read_text(encoding="utf-8")))
    assert told <= set(re.findall(r"^\| (FL\d{3}) \|", TEXT, re.MULTILINE))
    assert len(told) > 5


def test_every_heading_that_is_linked_exists() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= headings


def test_every_example_file_is_in_the_list() -> None:
    settings = {"amends.yaml", "people.yaml", "connections.yaml"}
    there = {file.name for file in (ROOT / "flows").glob("*.yaml") if "." not in file.stem} - settings
    assert there == set(re.findall(r"^\| `(\w+\.yaml)` \|", TEXT, re.MULTILINE))


def test_the_first_flow_passes_the_whole_check(tmp_path: Path) -> None:
    folder = copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    block = next(block for block in BLOCKS if block.startswith("flow: welcome_customer"))
    (folder / "welcome_customer.yaml").write_text(block, encoding="utf-8")
    assert project_of(folder).check("welcome_customer")[0].problems == ()
    (folder / "welcome_customer.yaml").write_text(block.replace("inputs.email", "inputs.mail"), encoding="utf-8")
    assert {found.code for found in project_of(folder).check("welcome_customer")[0].problems} == {"FL101"}
