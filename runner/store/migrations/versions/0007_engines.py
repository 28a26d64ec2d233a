"""Several engines on one PostgreSQL: who they are, which run is whose, what they share."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Four tables more, and two columns."""
    words, numbers = sa.Text, sa.BigInteger
    op.add_column("meta", sa.Column("home", words, nullable=False, server_default=""))
    op.add_column("runs", sa.Column("fence", numbers, nullable=False, server_default="0"))
    taken = sa.text("fence <> 0")
    op.create_index("ix_runs_taken", "runs", ["fence"], sqlite_where=taken, postgresql_where=taken)
    op.create_table(
        "engines",
        *(
            sa.Column(name, numbers, nullable=False)
            for name in ("fence", "commit_no", "checkpointed", "lease_until", "since")
        ),
        sa.Column("name", words, nullable=False),
        sa.PrimaryKeyConstraint("fence", name="pk_engines"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "duties",
        sa.Column("name", words, nullable=False),
        sa.Column("fence", numbers, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_duties"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "places",
        sa.Column("connection", words, nullable=False),
        *(sa.Column(name, numbers, nullable=False) for name in ("fence", "open", "begun", "wanted")),
        sa.PrimaryKeyConstraint("connection", "fence", name="pk_places"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "artifacts",
        sa.Column("digest", words, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_artifacts"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE commits")
