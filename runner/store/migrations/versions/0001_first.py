"""The first schema: made whole by `tables.metadata`, so there is no step that leads to it."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing is older."""
