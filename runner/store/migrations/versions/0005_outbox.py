"""Messages to people, sent after the commit of what they are about."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """One table more."""
    words, numbers = sa.Text, sa.BigInteger
    op.create_table(
        "outbox",
        sa.Column("run_id", words, sa.ForeignKey("runs.run_id", name="fk_outbox_run_id"), nullable=False),
        sa.Column("about", words, nullable=False),
        sa.Column("round", numbers, nullable=False),
        *(sa.Column(name, words, nullable=False) for name in ("person", "channel", "kind")),
        *(sa.Column(name, numbers, nullable=False) for name in ("at", "due")),
        sa.Column("status", words, nullable=False),
        sa.Column("tries", numbers, nullable=False),
        sa.Column("said", words, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "about", "round", "person", "channel", "kind", name="pk_outbox"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_outbox_person", "outbox", ["person", "kind"])
    is_due = sa.text("status = 'due'")
    op.create_index("ix_outbox_due", "outbox", ["due"], sqlite_where=is_due, postgresql_where=is_due)
