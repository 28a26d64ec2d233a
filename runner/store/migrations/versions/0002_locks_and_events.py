"""Locks, awaited and kept events, the places where the scopes of a run begin, and the versions that runs are on."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Four tables more, an index for the scopes of lists, two for versions. What a run waits for has its own table."""
    started = sa.text("type = 'ScopeStarted'")
    op.create_index("ix_log_scopes", "log", ["run_id", "step", "seq"], sqlite_where=started, postgresql_where=started)
    moved = sa.text("type = 'RunMoved'")
    op.create_index("ix_log_moves", "log", ["run_id", "seq"], sqlite_where=moved, postgresql_where=moved)
    op.create_index("ix_runs_version", "runs", ["flow", "bundle", "started_at"])
    op.create_table(
        "locks",
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id", name="fk_locks_run_id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("record", name="pk_locks"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_locks_run", "locks", ["run_id"])
    op.create_table(
        "waits",
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id", name="fk_waits_run_id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("record", "run_id", name="pk_waits"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_waits_run", "waits", ["run_id"])
    op.execute(
        "INSERT INTO waits (record, run_id, at) SELECT held_on, run_id, started_at FROM runs "
        "WHERE held_on <> '' AND ended_at IS NULL"
    )
    op.drop_index("ix_runs_held_on", "runs")
    op.drop_column("runs", "held_on")
    op.create_table(
        "awaited",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id", name="fk_awaited_run_id"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("path", "event", "fields", "digest")),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "path", name="pk_awaited"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_awaited_event", "awaited", ["event", "fields", "digest", "at"])
    open_ones = sa.text("fed_to = ''")
    op.create_table(
        "kept_events",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("event_id", "event", "source", "data")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("at", "until")),
        sa.Column("fed_to", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_kept_events"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_kept_events_open", "kept_events", ["event", "at"], sqlite_where=open_ones, postgresql_where=open_ones
    )
    op.create_index("ix_kept_events_until", "kept_events", ["until"])
