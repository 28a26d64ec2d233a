"""Every code has a file that shows it, word for word, and each of those files is in order once the hint is followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.language.check.context import RULES
from tests.language.ground import codes, told

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))
CODES = {
    *(f"FL00{number}" for number in range(1, 8)),
    *(f"FL10{number}" for number in range(1, 8)),
    *(f"FL20{number}" for number in range(1, 10)),
    "FL301",
    "FL302",
    "FL303",
    "FL401",
    "FL402",
    "FL403",
}

FIXES: dict[str, list[tuple[str, str]]] = {
    "fl001_key_twice": [("    with: { code: basic }\n", "")],
    "fl002_comment_sign": [("Order #42", '"Order #42"'), ("Call back  #soon", "Call back  # soon")],
    "fl002_date_in_text": [("title: 2026-09-01", 'title: "2026-09-01"')],
    "fl002_number_in_text": [("00123", '"00123"')],
    "fl003_full_width_sign": [("steps：", "steps:"), ("with：｛ code: pro ｝", "with: { code: pro }")],
    "fl003_full_width_value": [("title：Call", "{ title: Call }")],
    "fl003_sentence_in_braces": [
        ("It is the last step, so nothing follows", '"It is the last step, so nothing follows"')
    ],
    "fl003_unknown_key": [("compensat:", "compensate:")],
    "fl003_unknown_verb": [("reed:", "read:")],
    "fl004_anchor": [("&plan ", ""), ("*plan", "{ code: pro }")],
    "fl004_braces": [("${{ inputs.name }}", '"${{ inputs.name }}"')],
    "fl004_indentation": [("\n   with", "\n    with")],
    "fl005_missing_owner": [("steps:", "owner: person:me\nsteps:")],
    "fl006_wrong_kind": [("timeout: soon", "timeout: 30 s"), ("retry: 3", "retry: { tries: 3 }")],
    "fl006_wrong_type": [("e-mail", "email")],
    "fl007_not_in_the_language": [("inputs.name.upper()", "inputs.name | upper")],
    "fl007_not_read_here": [("For ${{ inputs.name }}", "For one person")],
    "fl101_in_a_template": [("template: wrong", "template: welcome, values: { plan: basic }")],
    "fl101_unknown_field": [("lable", "label"), ("outptu", "output")],
    "fl101_unknown_input": [("emial", "email")],
    "fl102_may_be_skipped": [("steps.plan.label }}", "steps.plan.label | default('none') }}")],
    "fl102_not_yet_run": [("steps.plan.label", "inputs.name")],
    "fl102_outcome_beside": [(" and outcome.hold == 'done'", "")],
    "fl103_no_condition": [("inputs.name }}", "inputs.name == 'x' }}")],
    "fl104_text_and_number": [('"3"', "3")],
    "fl105_one_id_twice": [("code: pro }\n  - id: plan", "code: pro }\n  - id: again")],
    "fl106_never_taken": [("      - steps: [{ id: nap, wait: 1 min }]\n", "")],
    "fl107_left_empty": [("inputs.note }}", "inputs.note | default('none') }}")],
    "fl201_read_that_writes": [("read: tasks.create", "do: tasks.create\n    compensate: cancel")],
    "fl202_no_compensation": [("{ title: Call }", "{ title: Call }\n    compensate: cancel")],
    "fl203_nobody_asked": [
        ("{ hand_off: person:cfo }", "{ hand_off: person:cfo }\n    unattended: It is only a test.")
    ],
    "fl204_stands_too_early": [("    unattended", "    accept_order: It may go out first.\n    unattended")],
    "fl205_too_many_tries": [("tries: 9", "tries: 6"), ("tries: 20", "tries: 4")],
    "fl206_key_on_a_clock": [("/${{ today() }}", "")],
    "fl207_unread_answer": [("    compensate", "    unattended: It is only a test.\n    compensate")],
    "fl208_no_such_action": [
        ("billling.get_plan", "billing.get_plan\n    with: { code: pro }"),
        ("get_plans", "get_plan\n    with: { code: pro }"),
        ("coed", "code"),
    ],
    "fl208_no_undo": [
        ("template: welcom }", "template: welcome, values: { plan: x } }"),
        ("    find: { to: x }\n", "    unattended: It is only a greeting.\n"),
        ("compensate: cancel", "compensate: { none: It is only a greeting. }"),
    ],
    "fl209_no_run_key": [("mode: live", "mode: live\nrun_key: ${{ inputs.email }}")],
    "fl301_nobody_there": [
        ("team:sales_op\n", "team:sales_ops\n"),
        ("team:empty", "person:cfo"),
        ("person:tom", "person:aya"),
    ],
    "fl302_not_known_yet": [
        ("[made, letter, paid, welcome]", "[letter, paid]"),
        ("steps.late.label", "steps.plan.label"),
    ],
    "fl303_starter_alone": [("by: person:cfo", "by: team:sales_ops"), ("needs: 3", "needs: 1")],
    "fl401_secret": [
        ('Authorization: "Bearer abcdefgh12345678"', "Accept: text/csv"),
        ("      password: hunter2\n", ""),
    ],
    "fl402_schedule": [
        ("every weekday at 09:00", "every weekday at 09:00\n    zone: Asia/Tokyo"),
        ("every day at 9", "every day at 09:00"),
        ("JST", "Asia/Tokyo"),
        ("0 9 30 2 *", "0 9 28 2 *"),
        ("every 31st", "every last"),
    ],
    "fl403_unproved_delivery": [
        ("returns\n    signed_by: shop\n", "refunds\n    signed_by: shop\n"),
        ("shopp", "shop"),
        ("webhook: orders", "webhook: orders\n    signed_by: shop"),
    ],
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bad_file_is_told_word_for_word(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert told(path.read_text(encoding="utf-8"), path.name) + "\n" == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bad_file_shows_its_code(path: Path) -> None:
    assert path.stem[:5].upper() in codes(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_way_out_leads_out(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for wrong, right in FIXES[path.stem]:
        assert wrong in text
        text = text.replace(wrong, right)
    assert told(text, path.name) == ""


def test_every_code_has_a_file_and_every_rule_a_code() -> None:
    assert {path.stem[:5].upper() for path in FILES} == CODES
    assert {code for rule in RULES for code in rule.codes} <= CODES
    assert all(re.fullmatch(r"fl\d{3}_[a-z_]+", path.stem) for path in FILES)
    assert {path.stem for path in FILES} == set(FIXES)
