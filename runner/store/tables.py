"""The tables. Times are ms since the epoch; hashes are SHA-256 in hexadecimal; JSON stands as canonical text.

`meta` has one row. In `log` the payload (`salt`, `data`) is no part of the chain, only its digest is: it can be erased
and the chain still verifies. The numbered steps in `migrations/` lead from older tables to exactly these.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

SCHEMA = "0007"
"""The newest numbered migration: what `alembic_version` must say."""

metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"})


_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by its bytes everywhere: ids and pages of lists stand in one order, whatever a server's language is."""


def _words(*names: str) -> list[Column[str]]:
    return [Column(name, _TEXT, nullable=False) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


def _maybe(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=True) for name in names]


def _later(kind: Any, name: str, default: str) -> Column[Any]:
    """A column that older tables are given."""
    return Column(name, kind, nullable=False, server_default=default)


def _of_run() -> Column[str]:
    return Column("run_id", _TEXT, ForeignKey("runs.run_id"), nullable=False)


def _index(name: str, columns: str, where: str = "", unique: bool = False) -> Index:
    only: dict[str, Any] = {"sqlite_where": text(where), "postgresql_where": text(where)} if where else {}
    return Index(name, *columns.split(), unique=unique, **only)


def _table(name: str, key: str, *parts: Any, with_rowid: bool = False) -> Table:
    return Table(name, metadata, *parts, PrimaryKeyConstraint(*key.split()), sqlite_with_rowid=with_rowid)


version = _table("alembic_version", "version_num", *_words("version_num"), with_rowid=True)

meta = _table(
    "meta",
    "id",
    *_numbers("id"),
    *_words("database_id"),
    *_numbers("commit_no", "fence", "site_seq"),
    *_words("site_head"),
    *_numbers("checkpointed"),
    *_maybe(BigInteger, "restored_at"),
    _later(Text, "home", ""),
)

engines = _table(
    "engines",
    "fence",
    *_numbers("fence", "commit_no", "checkpointed", "lease_until", "since"),
    *_words("name"),
)
"""Engines that write to one PostgreSQL, each its row; `lease_until` by the server's clock. SQLite has none."""

duties = _table("duties", "name", *_words("name"), *_numbers("fence"))

places = _table("places", "connection fence", *_words("connection"), *_numbers("fence", "open", "begun", "wanted"))

artifacts = _table("artifacts", "digest", *_words("digest"), Column("content", LargeBinary, nullable=False))

texts = _table("texts", "digest", *_words("digest", "content"), with_rowid=True)

bundles = _table("bundles", "digest name", *_words("digest", "name", "text_digest"))

runs = _table(
    "runs",
    "run_id",
    *_words("run_id", "flow", "mode", "run_key"),
    *_numbers("rerun"),
    *_words("bundle", "title", "owner", "record", "starter", "continues", "inputs_digest"),
    *_numbers("seq"),
    *_words("head", "status", "phase"),
    *_numbers("started_at", "updated_at"),
    *_maybe(BigInteger, "ended_at", "wake_at"),
    *_words("waiting_for", "at_step", "needs", "summary"),
    *_numbers("decided", "commit_no"),
    _later(BigInteger, "fence", "0"),
    _index("ix_runs_key", "flow mode run_key rerun", unique=True),
    _index("ix_runs_newest", "started_at run_id"),
    _index("ix_runs_flow", "flow started_at run_id"),
    _index("ix_runs_version", "flow bundle started_at"),
    _index("ix_runs_status", "status started_at run_id"),
    _index("ix_runs_flow_status", "flow status started_at run_id"),
    _index("ix_runs_record", "record started_at run_id", "record <> ''"),
    _index("ix_runs_open", "started_at run_id", "ended_at IS NULL"),
    _index("ix_runs_due", "wake_at", "wake_at IS NOT NULL"),
    _index("ix_runs_taken", "fence", "fence <> 0"),
)

receipts = _table(
    "receipts", "source delivery_id", *_words("source", "delivery_id", "digest", "run_id"), *_numbers("at")
)

arrivals = _table(
    "arrivals",
    "flow source arrival",
    *_words("flow", "source", "arrival", "digest", "run_id", "status", "why", "content", "entity"),
    *_numbers("at"),
    _index("ix_arrivals_newest", "at"),
    _index("ix_arrivals_status", "status at"),
    _index("ix_arrivals_flow", "flow at"),
    _index("ix_arrivals_run", "run_id", "run_id <> ''"),
)

cursors = _table("cursors", "name", *_words("name", "value"), *_numbers("at"))

active = _table("active", "flow", *_words("flow", "bundle", "problem"), *_numbers("at"))

log = _table(
    "log",
    "run_id seq",
    *_words("run_id"),
    *_numbers("seq", "at"),
    *_words("type", "step", "external_id", "digest", "hash"),
    *_maybe(Text, "guard", "salt", "data"),
    _index("ix_log_guard", "run_id guard", "guard IS NOT NULL", unique=True),
    _index("ix_log_scopes", "run_id step seq", "type = 'ScopeStarted'"),
    _index("ix_log_moves", "run_id seq", "type = 'RunMoved'"),
    # With a rowid new rows go to the end of the table however many runs are written at once.
    with_rowid=True,
)

effects = _table(
    "effects",
    "run_id start_no",
    _of_run(),
    *_numbers("start_no"),
    *_words("path"),
    *_numbers("part"),
    *_words("action", "disposition", "external_id", "note"),
)

handoffs = _table(
    "handoffs",
    "run_id handoff",
    _of_run(),
    *_words("handoff", "step", "kind", "owner", "status"),
    *_numbers("opened_at"),
    *_words("summary", "choices", "resolved_by", "choice"),
    _index("ix_handoffs_open", "opened_at", "status <> 'resolved'"),
)

holds = _table("holds", "record run_id", *_words("record", "run_id", "handoff"), *_numbers("at"))

site_holds = _table("site_holds", "name", *_words("name", "held_by"), *_numbers("at"))

records = _table(
    "records",
    "collection id",
    *_words("collection", "id", "data", "created_key", "created_by"),
    *_numbers("created_at", "updated_at"),
    with_rowid=True,
)

quarantine = _table(
    "quarantine",
    "record run_id",
    *_words("record", "run_id", "step", "reason", "content", "status"),
    *_numbers("at"),
    *_words("answered_by"),
    *_maybe(BigInteger, "answered_at"),
    _index("ix_quarantine_open", "at", "status = 'set_aside'"),
)

locks = _table("locks", "record", *_words("record"), _of_run(), *_numbers("at"), _index("ix_locks_run", "run_id"))

waits = _table(
    "waits", "record run_id", *_words("record"), _of_run(), *_numbers("at"), _index("ix_waits_run", "run_id")
)

awaited = _table(
    "awaited",
    "run_id path",
    _of_run(),
    *_words("path", "event", "fields", "digest"),
    *_numbers("at"),
    _index("ix_awaited_event", "event fields digest at"),
)

kept_events = _table(
    "kept_events",
    "event_id",
    *_words("event_id", "event", "source", "data"),
    *_numbers("at", "until"),
    *_words("fed_to"),
    _index("ix_kept_events_open", "event at", "fed_to = ''"),
    _index("ix_kept_events_until", "until"),
)

access = _table(
    "access",
    "digest",
    *_words("digest", "kind", "person", "name"),
    *_numbers("at", "until"),
    _index("ix_access_person", "person kind"),
)

notices = _table(
    "notices",
    "locator",
    *_words("locator"),
    _of_run(),
    *_words("about"),
    *_numbers("round"),
    *_words("person"),
    *_numbers("at"),
    _index("ix_notices_once", "run_id about round person", unique=True),
    _index("ix_notices_person", "person at"),
)

outbox = _table(
    "outbox",
    "run_id about round person channel kind",
    _of_run(),
    *_words("about"),
    *_numbers("round"),
    *_words("person", "channel", "kind"),
    *_numbers("at", "due"),
    *_words("status"),
    *_numbers("tries"),
    *_words("said"),
    _index("ix_outbox_due", "due", "status = 'due'"),
    _index("ix_outbox_person", "person kind"),
)

codes = _table(
    "codes",
    "digest",
    *_words("digest", "locator", "person", "door"),
    *_numbers("wrong", "at", "until"),
    _index("ix_codes_person", "person at"),
)
