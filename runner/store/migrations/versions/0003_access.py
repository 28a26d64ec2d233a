"""Who may come in: passwords, sessions, one-time links and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """One table more."""
    op.create_table(
        "access",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("digest", "kind", "person", "name")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("at", "until")),
        sa.PrimaryKeyConstraint("digest", name="pk_access"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_access_person", "access", ["person", "kind"])
