"""What came to triggers, where each of them stands, and the one active version of each flow."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Three tables more."""
    words, numbers = sa.Text, sa.BigInteger
    named = "flow source arrival digest run_id status why content entity".split()
    op.create_table(
        "arrivals",
        *(sa.Column(name, words, nullable=False) for name in named),
        sa.Column("at", numbers, nullable=False),
        sa.PrimaryKeyConstraint("flow", "source", "arrival", name="pk_arrivals"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_arrivals_newest", "arrivals", ["at"])
    op.create_index("ix_arrivals_status", "arrivals", ["status", "at"])
    op.create_index("ix_arrivals_flow", "arrivals", ["flow", "at"])
    has_run = sa.text("run_id <> ''")
    op.create_index("ix_arrivals_run", "arrivals", ["run_id"], sqlite_where=has_run, postgresql_where=has_run)
    op.create_table(
        "cursors",
        *(sa.Column(name, words, nullable=False) for name in ("name", "value")),
        sa.Column("at", numbers, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_cursors"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "active",
        *(sa.Column(name, words, nullable=False) for name in ("flow", "bundle", "problem")),
        sa.Column("at", numbers, nullable=False),
        sa.PrimaryKeyConstraint("flow", name="pk_active"),
        sqlite_with_rowid=False,
    )
