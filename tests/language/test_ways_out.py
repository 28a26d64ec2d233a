"""What a first author gets wrong, and the way out that the check names, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.errors import Problem
from runner.language.connections import installed, load_connections
from runner.language.project import Project
from runner.language.templates import template_faults
from tests.language.ground import TEMPLATES, check

HEAD = """flow: flow
title: A small flow
owner: person:me
mode: live
run_key: ${{ inputs.email }}
inputs:
  email: email
  name: text
  plan: { choice: [basic, pro] }
steps:
"""
MADE = """  - id: made
    do: tasks.create
    with: { title: Call }
    compensate: cancel
"""
MAIL = """  - id: letter
    do: mail.send
    with: { to: "${{ inputs.email }}", subject: Hello, text: Hi }
    unattended: It is only a greeting.
    compensate: { none: It is only a greeting. }
"""


def brief(problem: Problem) -> str:
    hint = f" | {problem.hint}" if problem.hint else ""
    return f"{problem.line}:{problem.column} {problem.code} {problem.what}{hint}"


def told(text: str, **changes: Any) -> list[str]:
    return [brief(problem) for problem in check(text, **changes)[1]]


CANCEL = "write cancel, or a map with one of cancel, mark, correct, quarantine, hand_off, or none: a reason"
SIGN = 'write "${{" before it and "}}" behind it'


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        ("compensate: cancel", "compensate: none", [f'14:17 FL006 "compensate" cannot be "none" | {CANCEL}']),
        ("compensate: cancel", "compensate: rollback", [f'14:17 FL006 "compensate" cannot be "rollback" | {CANCEL}']),
        ("compensate: cancel", "compensate:", [f'14:5 FL006 nothing is written after "compensate" | {CANCEL}']),
        (
            "title: Call",
            'title: "x ${{ inputs.email }}, note: "${{ inputs.name }}"',
            ['13:20 FL004 a quote opened at column 20 is not closed | close it with " where its text ends'],
        ),
        (
            "title: Call",
            "title: “Call”",
            [
                (
                    "13:20 FL003 the curly quotes “ and ” are no quotes for YAML and would stay in the text"
                    " | write it so: \"Call\"; if they belong to the text: '“Call”'"
                )
            ],
        ),
        ("title: Call", 'title: "＄｛｛ inputs.name ｝｝"', [f'13:21 FL007 "＄｛｛" begins no expression | {SIGN}']),
        ("title: Call", 'title: "${ inputs.name }"', [f'13:21 FL007 "${{" begins no expression | {SIGN}']),
        ("title: Call", 'title: "“One” and “two” for ${HOME}"', []),
        ("title: Call", "title: “One” and “two”", []),
        (
            "title: Call",
            "title: \"${{ inputs.name if inputs.plan == ”pro” else 'x' }}\"",
            ['13:55 FL007 "”" stands in an expression | write the sign "'],
        ),
        (
            "title: Call",
            "title: \"${{ 'a' if 2 ＞ 1 else 'b' }}\"",
            ['13:34 FL007 "＞" stands in an expression | write the sign >'],
        ),
        (
            "title: Call",
            'title: "${{ output.id }}"',
            ['13:25 FL101 "output" is in reach in a compensation only | what a step answered is steps.<id>'],
        ),
        (
            "    compensate: cancel\n",
            "    compensate: cancel\n    id: two\n    do: tasks.create\n    with: { title: x }\n    compensate: cancel\n",
            [
                (
                    '15:5 FL001 a second "id" stands in one step (first on line 11)'
                    ' | a step begins with "- ": put it before this id'
                )
            ],
        ),
        (
            "  - id: made",
            "  – id: made",
            ['11:3 FL003 the long dash "–" stands where YAML needs the ASCII sign | write the line so:  - id: made'],
        ),
        (
            "with: { title: Call }",
            'when: ${{ inputs.plan == "lost" }}\n    with: { title: Call }',
            ['13:15 FL104 inputs.plan is never "lost" | its choices: basic, pro'],
        ),
        (
            "with: { title: Call }",
            "when: ${{ inputs.plan in ['pro', 'basik'] }}\n    with: { title: Call }",
            ['13:15 FL104 inputs.plan is never "basik" | did you mean "basic"?'],
        ),
        ("with: { title: Call }", "when: ${{ 'pro' != inputs.plan }}\n    with: { title: Call }", []),
        (
            "with: { title: Call }",
            "retry: 3\n    with: { title: Call }",
            [
                (
                    '13:12 FL006 "retry" needs a map (lines of key: value), not the number 3 '
                    "| for example retry: { tries: 4, pause: 10 s }"
                )
            ],
        ),
    ],
)
def test_a_step_gone_wrong(old: str, new: str, sentences: list[str]) -> None:
    assert told(HEAD + MADE.replace(old, new)) == sentences


def test_a_bracket_not_closed_is_told_alone() -> None:
    later = MADE.replace("made", "next").replace("{ title: Call }", "\n      title: Call ${{ inputs.name }}")
    assert told(HEAD + MADE.replace(" }", "").replace("Call", '"${{ inputs.name }}"') + later) == [
        '13:11 FL004 "{" is opened here and not closed in order | put a "," between the values and a "}" at the end'
    ]


def test_a_wait_and_types_have_a_way_out() -> None:
    text = HEAD.replace("name: text", "name: string").replace("email: email", "email: email\n  x: foo")
    assert told(text + "  - id: pause\n    wait: 2\n" + MADE) == [
        (
            '8:6 FL006 there is no type "foo": types: choice, date, datetime, email, file, integer, list, money, number, '
            "phone, record, text, time, url, yes_no"
        ),
        '9:9 FL006 there is no type "string" | did you mean "text"?',
        '13:11 FL006 "wait" cannot be the number 2 | for example wait: 3 days',
    ]


def test_a_run_key_out_of_an_input_that_may_be_left_out() -> None:
    text = HEAD.replace("name: text", "name: text or empty").replace("{{ inputs.email }}", "{{ inputs.name }}")
    assert told(text + MADE) == [
        (
            '5:14 FL206 "run_key" is built on the input "name", which may be empty: then no run can start'
            " | make the input required, or name another one"
        )
    ]
    assert told(text.replace("inputs.name }}", "inputs.name | default('x') }}") + MADE) == []


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        (
            'to: "${{ inputs.email }}"',
            "to: nobody",
            ['13:17 FL006 "nobody" is not a mail address | write it as name@example.test'],
        ),
        (
            'to: "${{ inputs.email }}"',
            'to: ["佐藤 綾 <aya@acme.example>", "Tom <tom>"]',
            ['13:45 FL006 "Tom <tom>" is not a mail address | write it as name@example.test'],
        ),
        ("subject: Hello, ", "", ["13:5 FL208 mail.send has no subject | write subject: …"]),
        (
            "text: Hi",
            'text: ""',
            ["13:5 FL208 mail.send has nothing to send | write text: … or html: …, or name a template"],
        ),
        (
            "subject: Hello, text: Hi",
            "template: bare",
            [
                (
                    "13:50 FL208 the mail has no subject, and the template bare.md does not begin with one"
                    " | write subject: … here, or as the first line of templates/bare.md"
                )
            ],
        ),
        ("text: Hi", "template: bare", []),
        ("subject: Hello, text: Hi", 'template: welcome, values: { plan: "x" }', []),
    ],
)
def test_a_mail_that_could_never_go_out(old: str, new: str, sentences: list[str]) -> None:
    assert told(HEAD + MAIL.replace(old, new), templates={**TEMPLATES, "bare.md": "Hello\n"}) == sentences


def test_each_is_what_every_recipient_answered() -> None:
    undo = (
        "{ correct: mail.send, with: { to: \"${{ output.each | pick('to') }}\", subject: x, text: y }, unattended: x }"
    )
    text = MAIL.replace("{ none: It is only a greeting. }", undo)
    assert told(HEAD + text) == []
    assert told(HEAD + text.replace("output.each |", "output.eahc |")) == [
        '15:63 FL101 the output of "letter" has no "eahc" | did you mean "each"?'
    ]


MAIL_LINE = "mail: { connector: email, host: smtp.example.com, from: ops@example.com"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{MAIL_LINE}, port: 99999 }}", "1:80 FL006 mail: port must be a number from 1 to 65535"),
        (
            "mail: { connector: email, host: smtp.example.com, from: ops }",
            '1:57 FL006 mail: from: "ops" is not a mail address',
        ),
        (
            f"{MAIL_LINE}, security: none }}",
            (
                "1:84 FL006 mail: security: none sends everything in clear text, passwords too"
                " | for a server on this machine or network add allow_insecure: true"
            ),
        ),
        (
            'web: { connector: http, origin: "crm.example.com" }',
            '1:33 FL006 web: origin "crm.example.com" must be like https://api.example.com',
        ),
    ],
)
def test_settings_that_a_connector_refuses(line: str, sentence: str) -> None:
    found, _, problems = load_connections(line, "connections.yaml", kinds=installed())
    assert [brief(problem) for problem in problems] == [sentence]
    assert found.unreadable == {line.partition(":")[0]}


def test_a_private_address_needs_a_word() -> None:
    line = 'web: { connector: http, origin: "http://127.0.0.1:8601" }'
    _, _, problems = load_connections(line, "connections.yaml", kinds=installed())
    assert ["127.0.0.1" in one.what and "allow_private" in one.what + one.hint for one in problems] == [True]
    _, _, problems = load_connections(line.replace(" }", ", allow_private: true }"), "x.yaml", kinds=installed())
    assert problems == ()


def test_tell_by_names_a_connection_that_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMTP", raising=False)
    (tmp_path / "amends.yaml").write_text("tell_by: mial\n", encoding="utf-8")
    lines = f"{MAIL_LINE}, user: ops, password: {{ secret: SMTP }} }}\n"
    (tmp_path / "connections.yaml").write_text(lines, encoding="utf-8")
    unset = '1:105 FL208 the secret "SMTP" is not set | put a line SMTP=… into .env'
    found = Project.open(tmp_path).problems()
    assert [brief(one) for one in found] == [
        '1:10 FL208 there is no connection "mial" | did you mean "mail"?',
        unset,
    ]
    assert [one.level for one in found] == ["error", "warning"]
    (tmp_path / "amends.yaml").write_text("tell_by: records\n", encoding="utf-8")
    assert [brief(one) for one in Project.open(tmp_path).problems()] == [
        '1:10 FL208 the connection "records" sends no mails | name a connection that does, with connector: email',
        unset,
    ]
    (tmp_path / "amends.yaml").write_text("tell_by: mail\n", encoding="utf-8")
    (tmp_path / ".env").write_text("SMTP=long-enough\n", encoding="utf-8")
    assert Project.open(tmp_path).problems() == ()


@pytest.mark.parametrize("sign", ["＄｛｛ inputs.name ｝｝", "${ inputs.name }"])
def test_a_template_knows_what_was_meant_for_a_marker(sign: str) -> None:
    found = template_faults("x.md", f"subject: Hello\n\nDear {sign},\n")
    begins = sign.split(maxsplit=1)[0]
    assert [(one.line, one.column, one.what, one.hint) for one in found] == [
        (3, 6, f'"{begins}" begins no expression', SIGN)
    ]
    assert template_faults("x.md", "Set ${HOME}, then ${x} costs $5.\n") == ()
