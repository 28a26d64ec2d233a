"""A project folder: settings, connections, templates, flows, and what a run pins of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from runner.contract import Action, Json, Retry, Undo
from runner.errors import InvalidFlow, NotFound, Problem, SettingsError, StoreCorrupt
from runner.language.actions import action_from_json, action_to_json
from runner.language.bundle import assemble, restore
from runner.language.connections import Connections, Imported, Kinds, installed, load_connections
from runner.language.facts import ProjectFacts
from runner.language.flow import Duration
from runner.language.problems import render_all
from runner.language.project import Project, is_flow_test
from runner.language.rehearsed import load_flow_test
from runner.language.schema import as_text, is_stale, schemas, write_schemas
from runner.language.settings import Cluster, Settings, SignIn, load_settings
from tests.language.ground import BILLING, CRM, HTTP, MAIL, TASKS, Kind, facts

ROOT = Path(__file__).parents[2]


class Yaml:
    """Connectors in YAML, as far as these tests need them: the first line is the name, or a complaint."""

    def kind_from_text(self, text: str, file: str) -> tuple[Kind | None, tuple[Problem, ...]]:
        if "wrong" in text:
            return None, (
                Problem(code="FL003", level="error", file=file, line=1, column=1, what="it is wrong", length=5),
            )
        actions = {"billing": BILLING, "crm": CRM, "tasks": TASKS}
        return Kind(text.strip(), actions.get(text.strip(), ()), {"origin": "text", "token": "secret or empty"}), ()

    def shipped(self) -> Mapping[str, str]:
        return {"crm": "crm"}

    def imported(self, text: str, file: str, *, name: str = "", tags: Sequence[str] = ()) -> Imported:
        raise NotFound("no document is needed here")


class KeyedHttp(Kind):
    """A connector whose actions depend on its settings."""

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        if settings.get("key") == "no":
            raise SettingsError('web: "no" is no key')
        return self.actions()


def kinds(own: Mapping[str, tuple[str, str]] | None = None) -> Kinds:
    mail = Kind(
        "email", MAIL, {"host": "text", "port": "integer or empty", "password": "secret or empty", "from": "text"}
    )
    python = {"email": mail, "http": KeyedHttp("http", HTTP, {"key": "text or empty"}), "records": Kind("records", ())}
    return Kinds(python=python, declarative=Yaml(), own=own or {"billing": ("connectors/billing.yaml", "billing")})


def connections_of(text: str) -> Connections:
    connections, _, problems = load_connections(text, "connections.yaml", kinds=kinds())
    assert not problems, render_all(problems, text)
    return connections


# --- connections ---------------------------------------------------------------------------------------------------

LINES = """crm: { connector: crm, origin: "https://crm.example", token: { secret: CRM_TOKEN } }
mail: { connector: email, host: smtp.example.test, port: 587, password: { secret: SMTP }, from: "Ops <ops@example.test>" }
billing: { connector: billing, origin: "http://127.0.0.1:1", rate: 100 per 10 s, at_once: 4 }
"""


def test_connections_are_read_and_secrets_stay_names() -> None:
    found = connections_of(LINES).by_name
    assert sorted(found) == ["billing", "crm", "http", "mail", "records"]
    assert found["crm"].settings == {"origin": "https://crm.example", "token": {"secret": "CRM_TOKEN"}}
    assert (found["billing"].rate, found["billing"].at_once) == ((100, 10_000), 4)
    assert found["billing"].settings == {"origin": "http://127.0.0.1:1"}
    assert found["billing"].found.text == "billing"
    assert "mail.send" in connections_of(LINES).actions()


@pytest.mark.parametrize(
    ("written", "rate"), [("5 per s", (5, 1_000)), ("5 per min", (5, 60_000)), ("9 per 2 hour", (9, 7_200_000))]
)
def test_rates(written: str, rate: tuple[int, int]) -> None:
    line = f"crm: {{ connector: crm, origin: x, rate: {written} }}\n"
    assert connections_of(line).by_name["crm"].rate == rate


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("connector: crm", "connector: cmr", 'FL208 1:19 there is no connector "cmr" | did you mean "crm"?'),
        ("connector: crm, ", "", 'FL005 1:1 connection "crm" has no "connector" | one of: billing, crm, email, http, records'),
        ("origin: \"https://crm.example\", ", "", 'FL005 1:1 connection "crm" has no "origin", which crm needs | '),
        ("token:", "tokn:", 'FL003 1:55 "tokn" is not a setting of crm | did you mean "token"?'),
        ("{ secret: CRM_TOKEN }", "abc", 'FL401 1:62 the secret "token" is written in the file | put it into .env and write token: { secret: CRM_TOKEN }'),
        ("{ secret: CRM_TOKEN }", "{ secret: CRM-TOKEN }", 'FL006 1:72 "CRM-TOKEN" cannot be the name of a secret | the name of a line in .env: letters, digits and _'),
        ("{ secret: CRM_TOKEN }", "{ secret: CRM_TOKEN, x: 1 }", 'FL003 1:83 "x" is not a key of a secret | it is written { secret: NAME }'),
        ("port: 587", "port: many", 'FL006 2:58 "port" needs a whole number | '),
        ("host: smtp.example.test", "host: 127", 'FL002 2:33 "host" is a text, and 127 would be read as something else | write it in quotes: "127"'),
        ("100 per 10 s", "many", 'FL006 3:68 "many" is not a rate | it is written 100 per 10 s, or 5 per min'),
        ("100 per 10 s", "0 per 10 s", 'FL006 3:68 "0 per 10 s" is not a rate | it is written 100 per 10 s, or 5 per min'),
        ("at_once: 4", "at_once: 0", "FL006 3:91 0 calls at once are none at all | hold the connection for that"),
        ("at_once: 4", "at_once: some", 'FL006 3:91 "at_once" needs a whole number | '),
        ("crm: {", "c-rm: {", 'FL006 1:1 "c-rm" is not a name | a name has letters, digits and _, a letter first'),
    ],
)  # fmt: skip
def test_a_wrong_line_is_told(old: str, new: str, expected: str) -> None:
    assert old in LINES
    text = LINES.replace(old, new)
    connections, _, problems = load_connections(text, "connections.yaml", kinds=kinds())
    assert [f"{one.code} {one.line}:{one.column} {one.what} | {one.hint}" for one in problems] == [expected]
    assert len(connections.unreadable) == 1


def test_settings_that_do_not_go_together_are_told_by_the_connector() -> None:
    _, _, problems = load_connections('web: { connector: http, key: "no" }\n', "connections.yaml", kinds=kinds())
    assert [one.what for one in problems] == ['web: "no" is no key']


def test_a_connector_with_mistakes_is_told_in_its_own_file() -> None:
    own = {"broken": ("connectors/broken.yaml", "wrong")}
    _, _, problems = load_connections("x: { connector: broken }\n", "connections.yaml", kinds=kinds(own))
    assert [(one.file, one.what) for one in problems] == [
        ("connectors/broken.yaml", "it is wrong"),
    ]


# --- settings ------------------------------------------------------------------------------------------------------


def test_every_setting_has_a_default() -> None:
    settings, source, problems = load_settings(None, "amends.yaml", folder="acme-ops 2")
    assert (source, problems) == (None, ())
    assert settings == Settings(project="acme_ops_2")
    assert load_settings("", "amends.yaml", folder="x")[0] == Settings(project="x")
    assert (settings.engine, settings.keep) == ("embedded", Duration(amount=400, unit="day"))


def test_every_setting_is_read() -> None:
    text = """project: acme_ops
zone: Asia/Tokyo
language: ja
mode: draft
public_url: https://amends.acme.example/
database: { secret: DATABASE_URL }
engine:
  temporal: temporal:7233
  namespace: ops
  tls: { ca: ca.pem, cert: us.pem, key: { secret: TLS_KEY }, name: temporal.internal }
  api_key: { secret: TEMPORAL_API_KEY }
  queue: acme-ops
  apart: [billing]
  ui: https://temporal.acme.example/
tell_by: mail
admin: person:tom
sign_in: { oidc: https://login.acme.example, client: amends, secret: { secret: OIDC_SECRET }, claim: upn }
logs: json
traces: http://127.0.0.1:4318
keep: 30 days
session_idle: 8 hours
limits: { file: 5 MB, runs_at_once: 7 }
"""
    settings, _, problems = load_settings(text, "amends.yaml", folder="x")
    assert not problems
    assert settings == Settings(
        project="acme_ops",
        zone="Asia/Tokyo",
        has_zone=True,
        language="ja",
        mode="draft",
        public_url="https://amends.acme.example",
        database_secret="DATABASE_URL",
        cluster=Cluster(
            address="temporal:7233",
            namespace="ops",
            queue="acme-ops",
            api_key="TEMPORAL_API_KEY",
            tls={"ca": "ca.pem", "cert": "us.pem", "key": "TLS_KEY", "name": "temporal.internal"},
            apart=frozenset({"billing"}),
            ui="https://temporal.acme.example",
        ),
        tell_by="mail",
        admin="person:tom",
        sign_in=SignIn(oidc="https://login.acme.example", client="amends", secret="OIDC_SECRET", claim="upn"),
        keep=Duration(amount=30, unit="day"),
        session_idle=Duration(amount=8, unit="hour"),
        file_limit=5_000_000,
        runs_at_once=7,
        logs="json",
        traces="http://127.0.0.1:4318",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zone: JST\n", 'FL006 1:7 "JST" is not the zone of a region | it is written as a region: Asia/Tokyo, Europe/Berlin, or UTC'),
        ("limits: { file: 20 }\n", 'FL006 1:17 "file" needs a text, not the number 20 | for example file: 20 MB'),
        ("limits: { file: 20 XB }\n", 'FL006 1:17 "20 XB" is not a size | it is written 500 KB, 20 MB or 1 GB'),
        ("keep: 3\n", 'FL006 1:7 "keep" needs a text, not the number 3 | for example keep: 400 days'),
        ("public_url: acme\n", 'FL006 1:13 "acme" is not an address | it is written https://amends.acme.example'),
        ("sign_in: { oidc: http://login.acme.example, client: a, secret: { secret: A } }\n", 'FL006 1:18 "http://login.acme.example" is no provider | it is written https://login.acme.example'),
        ("engin: embedded\n", 'FL003 1:1 "engin" is not a key of amends.yaml | did you mean "engine"?'),
        ("engine: embeded\n", 'FL006 1:9 "engine" cannot be "embeded" | did you mean "embedded"?'),
        ('engine: { temporal: "temporal" }\n', 'FL006 1:21 "temporal" is no address of a cluster | it is written temporal:7233'),
        ('engine: { temporal: "t:7233", queue: "a.b" }\n', 'FL006 1:38 "a.b" is no name of a task queue | letters, digits, - and _ make one'),
        ('engine: { temporal: "t:7233", api_key: abc }\n', 'FL006 1:40 "api_key" needs a map (lines of key: value), not the text "abc" | for example api_key: { secret: TEMPORAL_API_KEY }'),
        ('engine: { temporal: "t:7233", tls: [a] }\n', 'FL006 1:36 "tls" cannot be a list | for example tls: true'),
        ('engine: { namespace: ops }\n', 'FL005 1:9 engine has no "temporal" | for example temporal: temporal:7233'),
        ('engine: { temporal: "t:7233", namspace: ops }\n', 'FL003 1:31 "namspace" is not a key of engine | did you mean "namespace"?'),
        ("database: { secrt: A }\n", 'FL003 1:13 "secrt" is not a key of a secret | did you mean "secret"?'),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told(text: str, expected: str) -> None:
    problems = load_settings(text, "amends.yaml", folder="x")[2]
    assert [f"{one.code} {one.line}:{one.column} {one.what} | {one.hint}" for one in problems] == [expected]


# --- a folder ------------------------------------------------------------------------------------------------------

FLOW = """flow: signup
title: A signup
owner: person:me
run_key: ${{ inputs.email }}
inputs: { email: email }
steps:
  - id: letter
    do: mail.send
    with: { to: "${{ inputs.email }}", template: welcome }
    unattended: It is only a greeting.
    compensate: { none: It is only a greeting. }
"""


def project(folder: Path, **files: str) -> Project:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Project.open(folder, kinds=kinds())


def whole(folder: Path, **files: str) -> Project:
    given = {
        "amends_yaml": "zone: Asia/Tokyo\n",
        "connections_yaml": LINES,
        "templates__welcome_md": "subject: Hello\n\nHello ${{ inputs.email }}\n",
        "connectors__billing_yaml": "billing",
        "flows__signup_yaml": FLOW,
        ".env": "CRM_TOKEN=not-a-secret\nSMTP=not-a-secret\n",
    }
    return project(folder, **(given | files))


def test_a_flow_alone_is_a_project(tmp_path: Path) -> None:
    text = FLOW.replace("mail.send", "records.x")
    found = project(tmp_path, signup_yaml="flow: signup\ntitle: x\nowner: person:me\nsteps: [{ id: a, wait: 1 s }]\n")
    assert [checked.is_fit_to_run for checked in found.check()] == [True]
    assert found.flow("signup").title == "x"
    assert found.settings.zone == "UTC"
    assert Project.around(tmp_path / "signup.yaml").folder == tmp_path.resolve()
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "signup.yaml").write_text(text, encoding="utf-8")
    assert Project.around(tmp_path / "flows" / "signup.yaml").folder == tmp_path.resolve()


def test_the_folder_with_amends_yaml_is_the_project(tmp_path: Path) -> None:
    whole(tmp_path, flows__deep__x_yaml=FLOW)
    assert Project.around(tmp_path / "flows" / "deep" / "x.yaml").folder == tmp_path.resolve()


def test_a_whole_project_is_checked(tmp_path: Path) -> None:
    found = whole(tmp_path)
    checked = found.check()
    assert render_all(checked[0].problems, checked[0].text) == ""
    assert found.problems() == ()
    assert found.facts().flows == {"signup": "flows/signup.yaml"}
    assert checked[0].file == "flows/signup.yaml"


def test_a_flow_is_asked_for_by_name_or_by_path(tmp_path: Path) -> None:
    found = whole(tmp_path)
    assert found.flow("signup") == found.flow("flows/signup.yaml") == found.flow(tmp_path / "flows" / "signup.yaml")
    with pytest.raises(NotFound, match='there is no flow "sigup"; did you mean "signup"?'):
        found.flow("sigup")
    with pytest.raises(NotFound, match="there is no folder"):
        Project.open(tmp_path / "nowhere")


def test_a_flow_with_mistakes_is_not_given_out(tmp_path: Path) -> None:
    found = whole(tmp_path, flows__signup_yaml=FLOW.replace('inputs.email }}", t', 'inputs.emial }}", t'))
    with pytest.raises(InvalidFlow) as raised:
        found.flow("signup")
    assert str(raised.value) == 'flows/signup.yaml:9:29 there is no input "emial"'
    assert "flows/signup.yaml" in raised.value.sources


def test_a_mistake_beside_the_flow_keeps_it_too(tmp_path: Path) -> None:
    found = whole(tmp_path, people_yaml="people: { aya: { nmae: x } }\n", templates__bad_md="{% raw %}\n")
    with pytest.raises(InvalidFlow) as raised:
        found.flow("signup")
    assert [one.file for one in raised.value.problems] == ["people.yaml"]
    assert [(one.file, one.code) for one in found.problems()] == [
        ("people.yaml", "FL003"),
        ("templates/bad.md", "FL007"),
    ]


def test_a_mistake_in_a_file_of_another_flow_keeps_nothing(tmp_path: Path) -> None:
    found = whole(tmp_path, templates__bad_md="{% raw %}\n", connectors__broken_yaml="wrong")
    assert found.flow("signup").id == "signup"
    assert [one.file for one in found.problems()] == ["connectors/broken.yaml", "templates/bad.md"]


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    found = whole(tmp_path)
    (tmp_path / "flows" / "signup.yaml").write_bytes(b"flow: \xff\n")
    (tmp_path / "people.yaml").write_bytes(b"\xff\xfe")
    assert [one.what for one in found.check()[0].problems] == ["the file is not UTF-8 from here on"]
    assert [(one.file, one.code) for one in found.problems()] == [("people.yaml", "FL004")]


# --- bundles -------------------------------------------------------------------------------------------------------

RICH = Action(
    name="charge",
    title="Takes money",
    effect="keyed",
    input={"amount": {"money": "JPY"}, "note": "text or empty"},
    output={"id": "text"},
    key_life=1_000,
    has_lookup=True,
    lookup_delay=5,
    find_by=("number",),
    undo=Undo(action="refund", with_={"id": "${{ output.id }}", "deep": [{"a": 1}]}),
    cannot_undo="no",
    sample={"id": "x"},
    retry=Retry(tries=2, pause=3, growth="none", longest=4, never_on=frozenset({"unavailable", "rate_limited"})),
    timeout=7,
    fan_out="to",
    own=True,
    renders_template=True,
    from_ai=True,
    open_input=True,
    open_output=True,
)


@pytest.mark.parametrize("action", [RICH, Action(name="plain"), *MAIL, *CRM])
def test_an_action_survives_json(action: Action) -> None:
    assert action_from_json(json.loads(json.dumps(action_to_json(action)))) == action


def test_an_action_of_a_later_version_is_read() -> None:
    assert action_from_json({"name": "x", "not_known_yet": 1}) == Action(name="x")


def test_a_bundle_holds_what_the_flow_uses_and_nothing_else(tmp_path: Path) -> None:
    bundle = whole(tmp_path).bundle("signup")
    assert sorted(bundle.texts) == ["actions:mail", "flow:signup", "project", "template:welcome.md"]
    assert (bundle.zone, bundle.language, bundle.project) == ("Asia/Tokyo", "en", bundle.project)
    assert list(bundle.actions) == ["mail.send"]
    assert bundle.connector("mail") == ("email", "")
    assert bundle.steps["letter"] is bundle.flow.steps[0]


def test_a_bundle_comes_back_as_it_was(tmp_path: Path) -> None:
    text = FLOW.replace(
        "compensate: { none: It is only a greeting. }",
        "compensate: { mark: crm.update_contact, with: { id: a, status: b } }",
    )
    bundle = whole(tmp_path, flows__signup_yaml=text).bundle("signup")
    again = restore(bundle.digest, json.loads(json.dumps(dict(bundle.texts))))
    assert again == bundle
    assert again is restore(bundle.digest, {})
    assert bundle.connector("crm") == ("crm", "crm")
    assert bundle.texts["connector:crm"] == "crm"


def test_a_bundle_takes_the_undo_along(tmp_path: Path) -> None:
    text = (
        FLOW.replace("mail.send", "crm.create_contact")
        .replace('to: "${{ inputs.email }}", template: welcome', 'email: "${{ inputs.email }}", name: x')
        .replace("compensate: { none: It is only a greeting. }", "compensate: cancel")
        .replace("    unattended: It is only a greeting.\n", "")
    )
    bundle = whole(tmp_path, flows__signup_yaml=text).bundle("signup")
    assert sorted(bundle.actions) == ["crm.create_contact", "crm.delete_contact"]


def test_a_changed_text_is_another_bundle_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    found = whole(tmp_path)
    bundle = found.bundle("signup")
    other = assemble(FLOW, "flows/signup.yaml", replace(found.facts(), templates={"welcome.md": "Hi\n"}))
    assert other.digest != bundle.digest
    with pytest.raises(StoreCorrupt, match="are not what the run began with"):
        restore("0" * 64, bundle.texts)
    with pytest.raises(InvalidFlow):
        assemble("flow: x\n", "x.yaml", facts())


def test_a_bundle_does_not_hold_people_secrets_or_places(tmp_path: Path) -> None:
    found = whole(tmp_path, people_yaml="people: { aya: { name: Aya, mail: aya@acme.example } }\n")
    kept = json.dumps(dict(found.bundle("signup").texts))
    assert "aya@acme" not in kept
    assert "SMTP" not in kept
    assert "smtp.example.test" not in kept


# --- schemas -------------------------------------------------------------------------------------------------------


SCHEMAS = schemas()


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_schemas_of_the_repository_are_fresh(name: str) -> None:
    assert (ROOT / "schemas" / name).read_text(encoding="utf-8") == as_text(SCHEMAS[name])


def test_schemas_are_written(tmp_path: Path) -> None:
    written = write_schemas(tmp_path / "schemas", kinds())
    assert [path.name for path in written] == [
        "flow.schema.json",
        "flow_test.schema.json",
        "people.schema.json",
        "connections.schema.json",
        "amends.schema.json",
    ]
    for path in written:
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_field_of_a_schema_has_a_title_a_description_and_an_example(name: str) -> None:
    assert silent(SCHEMAS[name]) == []


def test_the_fields_of_a_projects_actions_have_them_too() -> None:
    found = Project.open(ROOT / "flows")
    own = schemas(found.kinds, found.facts())["flow.schema.json"]
    jsonschema.Draft202012Validator.check_schema(own)
    fields = own["$defs"]["in crm.create_contact"]["properties"]
    assert fields["email"]["description"] == "A mail address."
    assert fields["note"]["description"] == "A text, may be left out."
    assert silent(own) == []
    del fields["email"]["examples"]
    assert silent(own) == [".$defs.in crm.create_contact.email has no examples"]


def silent(part: Any, where: str = "") -> list[str]:
    """What the fields of a schema do not say. Conditions (`if`) name a field only, `then` says more of it."""
    if not isinstance(part, dict):
        return [found for item in part for found in silent(item, where)] if isinstance(part, list) else []
    found = []
    for key, value in part.get("properties", {}).items():
        wanted = ("title", "description", "examples") if where.rpartition(".")[2] not in ("if", "then") else ()
        found += [f"{where}.{key} has no {word}" for word in wanted if not value.get(word)]
    for key, value in part.items():
        found += silent(value, f"{where}.{key}") if key != "examples" else []
    return found


def test_a_project_that_has_changed_makes_its_schema_stale(tmp_path: Path) -> None:
    def facts() -> ProjectFacts:
        return Project.open(tmp_path, kinds=kinds()).facts()

    schemas_of = tmp_path / "schemas"
    assert not is_stale(schemas_of, facts()), "none was made"
    write_schemas(schemas_of, kinds(), facts())
    assert not is_stale(schemas_of, facts())
    (tmp_path / "people.yaml").write_text("people: { aya: { name: Aya, mail: aya@acme.test } }\n", encoding="utf-8")
    assert is_stale(schemas_of, facts())
    write_schemas(schemas_of, kinds())
    assert not is_stale(schemas_of, facts()), "the plain one knows no project"


@pytest.mark.parametrize("path", sorted((ROOT / "flows").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_fit_the_schema(path: Path) -> None:
    found = Project.around(path)
    if path.name in ("amends.yaml", "people.yaml", "connections.yaml"):
        name = path.stem
    elif is_flow_test(path):
        source = load_flow_test(path.read_text(encoding="utf-8"), path.name).source
        assert source is not None
        jsonschema.validate(source.data, SCHEMAS["flow_test.schema.json"])
        return
    else:
        name = "flow"
        assert found.checked(path).is_fit_to_run
    source = found.check(path)[0].source
    assert source is not None
    jsonschema.validate(source.data, SCHEMAS[f"{name}.schema.json"])


def test_the_installed_connectors_are_found() -> None:
    assert {"http", "email", "records", "quarantine"} <= set(installed().names())


# --- whether anybody can be told --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("project: x\n", "people.yaml:1:1 FL301 warning nobody here gets mail: amends.yaml names no connection that sends it"),
        ("admin: person:zoe\n", 'amends.yaml:1:8 FL301 error there is no person "zoe" in people.yaml'),
        ("admin: person:mute\n", "amends.yaml:1:8 FL301 error person:mute has no address (mail or chat)"),
    ],
)  # fmt: skip
def test_a_project_that_reaches_nobody_is_told(tmp_path: Path, settings: str, expected: str) -> None:
    (tmp_path / "amends.yaml").write_text(settings, encoding="utf-8")
    people = "people:\n  tom: { name: Tom, mail: tom@acme.test }\n  mute: { name: Mute }\n"
    (tmp_path / "people.yaml").write_text(people, encoding="utf-8")
    found = Project.open(tmp_path, kinds=kinds()).problems()
    assert expected in [f"{one.file}:{one.line}:{one.column} {one.code} {one.level} {one.what}" for one in found]
