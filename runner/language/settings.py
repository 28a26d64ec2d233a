"""amends.yaml: what holds for the whole project. Every key has a default, so the file itself may be missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from runner.errors import Problem
from runner.language.clauses import (
    Forms,
    Model,
    Name,
    PlainDuration,
    Sentence,
    Who,
    by_tag,
    duration,
    given,
    optional,
    required,
)
from runner.language.fields import read_size
from runner.language.fitting import fit
from runner.language.flow import Duration
from runner.language.people import Language, SecretModel, ZoneText, checked
from runner.language.source import Source, read

_ADDRESS = re.compile(r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}$")
_QUEUE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")
_KEY = re.compile(r"^[0-9a-f]{64}$")
_URL = re.compile(r"^https?://[^\s/?#]+(/[^\s?#]*)?$")


def _is_provider(text: str) -> bool:
    """An address of https; of this computer, http will do."""
    parts = urlsplit(text)
    return bool(_URL.match(text)) and (parts.scheme == "https" or parts.hostname in ("127.0.0.1", "localhost", "::1"))


KeyText = Annotated[str, checked(_KEY.match, "{} is no public key; `amends log key` prints it, 64 digits and letters")]
SizeText = Annotated[str, checked(read_size, "{} is not a size; it is written 500 KB, 20 MB or 1 GB")]
UrlText = Annotated[str, checked(_URL.match, "{} is not an address; it is written https://amends.acme.example")]
AddressText = Annotated[str, checked(_ADDRESS.match, "{} is no address of a cluster; it is written temporal:7233")]
QueueText = Annotated[str, checked(_QUEUE.match, "{} is no name of a task queue; letters, digits, - and _ make one")]
ProviderText = Annotated[str, checked(_is_provider, "{} is no provider; it is written https://login.acme.example")]


class TlsModel(Model, title="tls", spoken="tls"):
    """How the cluster proves who it is, and we who we are. Paths are from the project's folder on."""

    ca: Sentence = optional("The file with its authority's certificate. Default: the usual ones.", "temporal-ca.pem")
    cert: Sentence = optional("The file with our certificate.", "temporal-client.pem")
    key: SecretModel = optional("The secret with our certificate's key, as PEM.", {"secret": "TEMPORAL_KEY"})
    name: Sentence = optional("The name in its certificate, where it is not that of the address.", "temporal.internal")


class TemporalModel(Model, title="temporal", spoken="engine"):
    """A Temporal cluster drives the runs."""

    temporal: AddressText = required("Its address.", "temporal:7233")
    namespace: Sentence = optional("Its namespace. Default: default.", "default")
    tls: Annotated[Any, Forms(switch=bool, map=TlsModel)] = optional(
        "Whether it is reached over TLS; default: where there is an api_key.", True, {"ca": "temporal-ca.pem"}
    )
    api_key: SecretModel = optional("The secret with its API key.", {"secret": "TEMPORAL_API_KEY"})
    queue: QueueText = optional("The task queue: one for each project of a namespace. Default: amends.", "acme-ops")
    apart: list[Name] = optional("Connections that are reached by `amends worker --connections` alone.", ["billing"])
    ui: UrlText = optional("Where its pages are, for links from ours.", "https://temporal.acme.example")


Engine = Annotated[Any, Forms(text=Literal["embedded"], map=TemporalModel)]


class SignInModel(Model, title="sign_in", spoken="sign_in"):
    """People sign in at your own provider."""

    oidc: ProviderText = required("The provider: what it calls its issuer.", "https://login.acme.example")
    client: Sentence = required("The client's id there.", "amends")
    secret: SecretModel = required("The client's secret, by name.", {"secret": "OIDC_SECRET"})
    claim: Sentence = optional(
        "The claim that says who it is, by name or mail of people.yaml. Default: email, which must be verified.", "upn"
    )


class AnchorsModel(Model, title="anchors", spoken="anchors"):
    """Where it is noted, each day, how far the action log has come."""

    file: Sentence = optional("A file elsewhere; one line a day is added.", "/mnt/audit/amends.anchors")
    tell: Who = optional("Who gets it by mail.", "person:auditor")
    timestamp: UrlText = optional(
        "A time-stamping authority (RFC 3161). Needs the extra amends[timestamp].", "https://tsa.acme.example/tsr"
    )
    keys: list[KeyText] = optional(
        "Public keys of other machines, or earlier ones, that write this log; `amends log key` prints each machine's.",
        ["9c1b" + "0" * 60],
    )


class LimitsModel(Model, title="limits", spoken="limits"):
    """Bounds."""

    file: SizeText = optional("The largest file. Default 20 MB.", "20 MB")
    runs_at_once: int = optional("Runs at once. Default 50.", 50, ge=1, le=10_000)


class AmendsModel(Model, title="Amends project", spoken="amends.yaml"):
    """amends.yaml: what holds for the whole project."""

    project: Name = optional("The project's name. Default: the folder's name.", "acme_ops")
    zone: ZoneText = optional("For dates and schedules. Default UTC.", "Asia/Tokyo")
    language: Language = optional("For pages and mails. Default en.", "ja")
    mode: Literal["as_written", "draft"] = optional("draft: every flow stays draft here.", "as_written")
    public_url: UrlText = optional(
        "Where people reach the pages. Default http://127.0.0.1:8484.", "https://amends.acme.example"
    )
    database: Annotated[Any, Forms(text=Sentence, map=SecretModel)] = optional(
        "A SQLite file, or the secret with a PostgreSQL address.", ".amends/amends.db", {"secret": "DATABASE_URL"}
    )
    engine: Engine = optional("Who carries the runs. Default embedded.", "embedded", {"temporal": "temporal:7233"})
    tell_by: Name = optional("The connection that mails approvals and hand-offs.", "mail")
    admin: Who = optional("Told when the project itself is in trouble.", "person:tom")
    sign_in: SignInModel = optional(
        "Default: passwords, and codes by mail.",
        {"oidc": "https://login.acme.example", "client": "amends", "secret": {"secret": "OIDC_SECRET"}},
    )
    session_idle: PlainDuration = optional("After how long unused a session ends. Default 12 hours.", "12 hours")
    token_key: SecretModel = optional(
        "The secret that encrypts the tokens of connections. Default: a key in .amends.", {"secret": "TOKEN_KEY"}
    )
    anchors: AnchorsModel = optional(
        "Where it is noted how far the action log has come.", {"file": "/mnt/audit/amends.anchors"}
    )
    logs: Literal["plain", "json"] = optional("How serve and worker log. Default plain: lines for people.", "json")
    traces: UrlText = optional(
        "The OpenTelemetry collector (OTLP over HTTP) that gets traces of runs. Needs the extra amends[otel].",
        "http://127.0.0.1:4318",
    )
    keep: PlainDuration = optional("How long ended runs are kept. Default 400 days.", "400 days")
    limits: LimitsModel = optional("How much it may take.", {"file": "20 MB", "runs_at_once": 50})


PAGES = "http://127.0.0.1:8484"
KEEP = Duration(amount=400, unit="day")
IDLE = Duration(amount=12, unit="hour")

_FORMS = by_tag(SecretModel, TemporalModel, TlsModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """The Temporal cluster that drives the runs. `api_key` names a secret; empty: none.

    `tls` is None where it is not used; else its words, as far as they are given: ca, cert (paths), key (a secret's
    name), name. `apart` are connections that only workers of their own reach.
    """

    address: str
    namespace: str = "default"
    queue: str = "amends"
    api_key: str = ""
    tls: Mapping[str, str] | None = None
    apart: frozenset[str] = frozenset()
    ui: str = ""

    def page(self, run: str) -> str:
        """The page of a run; empty where the cluster's pages are not named."""
        return f"{self.ui}/namespaces/{self.namespace}/workflows/{run}" if self.ui else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignIn:
    """The provider that people sign in at: its issuer, our client there, the name of the client's secret, and the claim
    that says who it is (empty: the verified mail address)."""

    oidc: str
    client: str
    secret: str
    claim: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorPlaces:
    """Where anchors of the action log go: a path from the project folder, whoever is told, an authority's address; and
    the public keys of others that sign this log."""

    file: str = ""
    tell: str = ""
    timestamp: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """amends.yaml with every default filled in.

    `database` is a path from the project folder, or `database_secret` names the secret that holds an address.
    `has_zone` is False where the zone is only the default. `token_key` names a
    secret. `file_limit` is bytes.
    """

    project: str
    zone: str = "UTC"
    has_zone: bool = False
    language: str = "en"
    mode: Literal["as_written", "draft"] = "as_written"
    public_url: str = PAGES
    database: str = ".amends/amends.db"
    database_secret: str = ""
    cluster: Cluster | None = None
    tell_by: str = ""
    admin: str = ""
    sign_in: SignIn | None = None
    token_key: str = ""
    anchors: AnchorPlaces | None = None
    keep: Duration = KEEP
    session_idle: Duration = IDLE
    file_limit: int = 20_000_000
    runs_at_once: int = 50
    logs: Literal["plain", "json"] = "plain"
    traces: str = ""

    @property
    def has_public_url(self) -> bool:
        """Whether amends.yaml says where people reach the pages."""
        return self.public_url != PAGES

    @property
    def engine(self) -> str:
        """`embedded` or `temporal`."""
        return "temporal" if self.cluster is not None else "embedded"


def project_name(folder: str) -> str:
    """A folder's name as a project's name."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", folder).strip("_")
    return name if name[:1].isalpha() else f"project_{name}".rstrip("_")


def load_settings(text: str | None, file: str, *, folder: str) -> tuple[Settings, Source | None, tuple[Problem, ...]]:
    """Reads amends.yaml; `text` is None where there is none. The settings are usable as far as they could be read."""
    default = Settings(project=project_name(folder))
    if text is None:
        return default, None, ()
    source, problems = read(text, file)
    if source is None or source.data is None:
        return default, source, problems
    fitted = fit(AmendsModel, source, forms=_FORMS, fill={})
    found = tuple(sorted((*problems, *fitted.problems), key=lambda one: (one.line, one.column)))
    return (default if fitted.model is None else _settings(fitted.model, default)), source, found


def _settings(model: Any, default: Settings) -> Settings:
    database, limits, sign_in, anchors = model.database, model.limits, model.sign_in, model.anchors
    in_secret = isinstance(database, SecretModel)
    return replace(
        default,
        has_zone=model.zone is not None,
        public_url=(model.public_url or default.public_url).rstrip("/"),
        database=default.database if in_secret else database or default.database,
        database_secret=database.secret if in_secret else "",
        sign_in=None
        if sign_in is None
        else SignIn(oidc=sign_in.oidc, client=sign_in.client, secret=sign_in.secret.secret, claim=sign_in.claim or ""),
        token_key=model.token_key.secret if model.token_key is not None else "",
        anchors=None
        if anchors is None
        else AnchorPlaces(keys=tuple(anchors.keys or ()), **given(anchors, "file", "tell", "timestamp")),
        keep=duration(model.keep) if model.keep else default.keep,
        session_idle=duration(model.session_idle) if model.session_idle else default.session_idle,
        file_limit=read_size(limits.file) if limits is not None and limits.file else default.file_limit,
        **given(model, "project", "zone", "language", "mode", "tell_by", "admin", "logs", "traces"),
        cluster=_cluster(model.engine) if isinstance(model.engine, TemporalModel) else None,
        **given(limits, "runs_at_once"),
    )


def _cluster(model: Any) -> Cluster:
    key = model.api_key.secret if model.api_key is not None else ""
    tls: Mapping[str, str] | None = {} if model.tls is True or (model.tls is None and key) else None
    if isinstance(model.tls, TlsModel):
        tls = given(model.tls, "ca", "cert", "name")
        if secret := given(model.tls, "key"):
            tls = {**tls, "key": secret["key"].secret}
    return Cluster(
        address=model.temporal, api_key=key, tls=tls, apart=frozenset(model.apart or ()),
        ui=(model.ui or "").rstrip("/"), **given(model, "namespace", "queue"),
    )  # fmt: skip
