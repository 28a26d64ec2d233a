"""Who is told of an approval by which locator, and the codes that people prove themselves with."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Two tables more."""
    words, numbers = sa.Text, sa.BigInteger
    op.create_table(
        "notices",
        sa.Column("locator", words, nullable=False),
        sa.Column("run_id", words, nullable=False),
        sa.Column("about", words, nullable=False),
        sa.Column("round", numbers, nullable=False),
        sa.Column("person", words, nullable=False),
        sa.Column("at", numbers, nullable=False),
        sa.PrimaryKeyConstraint("locator", name="pk_notices"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_notices_run_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_notices_once", "notices", ["run_id", "about", "round", "person"], unique=True)
    op.create_index("ix_notices_person", "notices", ["person", "at"])
    op.create_table(
        "codes",
        *(sa.Column(name, words, nullable=False) for name in ("digest", "locator", "person", "door")),
        *(sa.Column(name, numbers, nullable=False) for name in ("wrong", "at", "until")),
        sa.PrimaryKeyConstraint("digest", name="pk_codes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_codes_person", "codes", ["person", "at"])
