"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_the_log()
    _create_runs()
    _create_indexes_of_runs()
    _create_lists_of_runs()
    _create_records()


def _create_the_log() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("database_id", sa.String(), nullable=False),
        sa.Column("commit_no", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("site_seq", sa.BigInteger(), nullable=False),
        sa.Column("site_head", sa.String(length=64), nullable=False),
        sa.Column("checkpointed", sa.BigInteger(), nullable=False),
        sa.Column("restored_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_meta"),
    )
    op.create_table(
        "log",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("guard", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_log"),
    )
    op.create_index(
        "ix_log_guard",
        "log",
        ["run_id", "guard"],
        unique=True,
        sqlite_where=sa.text("guard IS NOT NULL"),
        postgresql_where=sa.text("guard IS NOT NULL"),
    )
    op.create_table(
        "payloads",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("salt", sa.String(length=32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_payloads"),
    )
    op.create_table(
        "texts",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_texts"),
    )
    op.create_table(
        "bundles",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("text_digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("digest", "name", name="pk_bundles"),
        sqlite_with_rowid=False,
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("flow", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("run_key", sa.Text(), nullable=False),
        sa.Column("rerun", sa.Integer(), nullable=False),
        sa.Column("bundle", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("starter", sa.String(), nullable=False),
        sa.Column("continues", sa.String(), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("head", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("wake_at", sa.BigInteger(), nullable=True),
        sa.Column("waiting_for", sa.Text(), nullable=False),
        sa.Column("at_step", sa.Text(), nullable=False),
        sa.Column("needs", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("held_on", sa.Text(), nullable=False),
        sa.Column("decided", sa.BigInteger(), nullable=False),
        sa.Column("commit_no", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_table(
        "receipts",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "delivery_id", name="pk_receipts"),
        sqlite_with_rowid=False,
    )


def _create_indexes_of_runs() -> None:
    op.create_index(
        "ix_runs_due",
        "runs",
        ["wake_at"],
        unique=False,
        sqlite_where=sa.text("wake_at IS NOT NULL"),
        postgresql_where=sa.text("wake_at IS NOT NULL"),
    )
    op.create_index("ix_runs_flow", "runs", ["flow", "started_at", "run_id"], unique=False)
    op.create_index("ix_runs_flow_status", "runs", ["flow", "status", "started_at", "run_id"], unique=False)
    op.create_index(
        "ix_runs_held_on",
        "runs",
        ["held_on"],
        unique=False,
        sqlite_where=sa.text("held_on <> ''"),
        postgresql_where=sa.text("held_on <> ''"),
    )
    op.create_index("ix_runs_key", "runs", ["flow", "mode", "run_key", "rerun"], unique=True)
    op.create_index("ix_runs_newest", "runs", ["started_at", "run_id"], unique=False)
    op.create_index(
        "ix_runs_open",
        "runs",
        ["started_at", "run_id"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_runs_record",
        "runs",
        ["record", "started_at", "run_id"],
        unique=False,
        sqlite_where=sa.text("record <> ''"),
        postgresql_where=sa.text("record <> ''"),
    )
    op.create_index("ix_runs_status", "runs", ["status", "started_at", "run_id"], unique=False)


def _create_lists_of_runs() -> None:
    op.create_table(
        "effects",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("start_no", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("disposition", sa.String(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_effects_run_id"),
        sa.PrimaryKeyConstraint("run_id", "start_no", name="pk_effects"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "handoffs",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("handoff", sa.String(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("choices", sa.Text(), nullable=False),
        sa.Column("resolved_by", sa.String(), nullable=False),
        sa.Column("choice", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_handoffs_run_id"),
        sa.PrimaryKeyConstraint("run_id", "handoff", name="pk_handoffs"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_handoffs_open",
        "handoffs",
        ["opened_at"],
        unique=False,
        sqlite_where=sa.text("status <> 'resolved'"),
        postgresql_where=sa.text("status <> 'resolved'"),
    )


def _create_records() -> None:
    op.create_table(
        "holds",
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("handoff", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("record", "run_id", name="pk_holds"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "site_holds",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("held_by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_site_holds"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "records",
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_key", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("collection", "id", name="pk_records"),
    )
    op.create_table(
        "quarantine",
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("answered_by", sa.String(), nullable=False),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("record", "run_id", name="pk_quarantine"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_quarantine_open",
        "quarantine",
        ["at"],
        unique=False,
        sqlite_where=sa.text("status = 'set_aside'"),
        postgresql_where=sa.text("status = 'set_aside'"),
    )
