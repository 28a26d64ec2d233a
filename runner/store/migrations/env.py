"""What alembic runs to find the connection; `upgrade` gives it."""

from __future__ import annotations

from alembic import context

from runner.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
