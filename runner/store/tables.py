"""The tables. Times are ms since the epoch; hashes are SHA-256 in hexadecimal; JSON stands as canonical text.

`meta` has one row. `log` and `payloads` are apart so that a payload can be erased and the chain still verifies. The
numbered steps in `migrations/` lead to exactly these tables; a test compares them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

SCHEMA = "0001"
"""The newest numbered migration: what `alembic_version` must say."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)


def _words(name: str, length: int | None = None, **more: Any) -> Column[str]:
    return Column(name, String(length), nullable=False, **more)


def _long(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _number(name: str, **more: Any) -> Column[int]:
    return Column(name, Integer, nullable=False, **more)


def _moment(name: str, **more: Any) -> Column[int]:
    return Column(name, BigInteger, **{"nullable": False, **more})


version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True, nullable=False))

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _words("database_id"),
    _moment("commit_no"),
    _moment("fence"),
    _moment("site_seq"),
    _words("site_head", 64),
    _moment("checkpointed"),
    _moment("restored_at", nullable=True),
)

texts = Table("texts", metadata, _words("digest", 64), _long("content"), PrimaryKeyConstraint("digest"))

bundles = Table(
    "bundles",
    metadata,
    _words("digest", 64),
    _words("name"),
    _words("text_digest", 64),
    PrimaryKeyConstraint("digest", "name"),
    sqlite_with_rowid=False,
)

runs = Table(
    "runs",
    metadata,
    _words("run_id"),
    _words("flow"),
    _words("mode"),
    _long("run_key"),
    _number("rerun"),
    _words("bundle", 64),
    _long("title"),
    _words("owner"),
    _long("record"),
    _words("starter"),
    _words("continues"),
    _words("inputs_digest", 64),
    _number("seq"),
    _words("head", 64),
    _words("status"),
    _words("phase"),
    _moment("started_at"),
    _moment("updated_at"),
    _moment("ended_at", nullable=True),
    _moment("wake_at", nullable=True),
    _long("waiting_for"),
    _long("at_step"),
    _long("needs"),
    _long("summary"),
    _long("held_on"),
    _moment("decided"),
    _moment("commit_no"),
    PrimaryKeyConstraint("run_id"),
    Index("ix_runs_key", "flow", "mode", "run_key", "rerun", unique=True),
    Index("ix_runs_newest", "started_at", "run_id"),
    Index("ix_runs_flow", "flow", "started_at", "run_id"),
    Index("ix_runs_status", "status", "started_at", "run_id"),
    Index("ix_runs_flow_status", "flow", "status", "started_at", "run_id"),
    Index(
        "ix_runs_record",
        "record",
        "started_at",
        "run_id",
        sqlite_where=text("record <> ''"),
        postgresql_where=text("record <> ''"),
    ),
    Index("ix_runs_held_on", "held_on", sqlite_where=text("held_on <> ''"), postgresql_where=text("held_on <> ''")),
    Index(
        "ix_runs_open",
        "started_at",
        "run_id",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    Index(
        "ix_runs_due", "wake_at", sqlite_where=text("wake_at IS NOT NULL"), postgresql_where=text("wake_at IS NOT NULL")
    ),
)

receipts = Table(
    "receipts",
    metadata,
    _words("source"),
    _words("delivery_id"),
    _words("digest", 64),
    _words("run_id"),
    _moment("at"),
    PrimaryKeyConstraint("source", "delivery_id"),
    sqlite_with_rowid=False,
)

log = Table(
    "log",
    metadata,
    _words("run_id"),
    _number("seq"),
    _moment("at"),
    _words("type"),
    _long("step"),
    _long("external_id"),
    _words("digest", 64),
    _words("hash", 64),
    Column("guard", Text, nullable=True),
    PrimaryKeyConstraint("run_id", "seq"),
    Index(
        "ix_log_guard",
        "run_id",
        "guard",
        unique=True,
        sqlite_where=text("guard IS NOT NULL"),
        postgresql_where=text("guard IS NOT NULL"),
    ),
)

payloads = Table(
    "payloads",
    metadata,
    _words("run_id"),
    _number("seq"),
    _words("salt", 32),
    _long("data"),
    PrimaryKeyConstraint("run_id", "seq"),
)

effects = Table(
    "effects",
    metadata,
    Column("run_id", String, ForeignKey("runs.run_id"), nullable=False),
    _number("start_no"),
    _long("path"),
    _number("part"),
    _words("action"),
    _words("disposition"),
    _long("external_id"),
    _long("note"),
    PrimaryKeyConstraint("run_id", "start_no"),
    sqlite_with_rowid=False,
)

handoffs = Table(
    "handoffs",
    metadata,
    Column("run_id", String, ForeignKey("runs.run_id"), nullable=False),
    _words("handoff"),
    _long("step"),
    _words("kind"),
    _words("owner"),
    _words("status"),
    _moment("opened_at"),
    _long("summary"),
    _long("choices"),
    _words("resolved_by"),
    _words("choice"),
    PrimaryKeyConstraint("run_id", "handoff"),
    Index(
        "ix_handoffs_open",
        "opened_at",
        sqlite_where=text("status <> 'resolved'"),
        postgresql_where=text("status <> 'resolved'"),
    ),
    sqlite_with_rowid=False,
)

holds = Table(
    "holds",
    metadata,
    _long("record"),
    _words("run_id"),
    _words("handoff"),
    _moment("at"),
    PrimaryKeyConstraint("record", "run_id"),
    sqlite_with_rowid=False,
)

site_holds = Table(
    "site_holds",
    metadata,
    _words("name"),
    _words("held_by"),
    _moment("at"),
    PrimaryKeyConstraint("name"),
    sqlite_with_rowid=False,
)

records = Table(
    "records",
    metadata,
    _words("collection"),
    _words("id"),
    _long("data"),
    _words("created_key"),
    _words("created_by"),
    _moment("created_at"),
    _moment("updated_at"),
    PrimaryKeyConstraint("collection", "id"),
)

quarantine = Table(
    "quarantine",
    metadata,
    _long("record"),
    _words("run_id"),
    _long("step"),
    _long("reason"),
    _long("content"),
    _words("status"),
    _moment("at"),
    _words("answered_by"),
    _moment("answered_at", nullable=True),
    PrimaryKeyConstraint("record", "run_id"),
    Index(
        "ix_quarantine_open",
        "at",
        sqlite_where=text("status = 'set_aside'"),
        postgresql_where=text("status = 'set_aside'"),
    ),
    sqlite_with_rowid=False,
)
