"""Which tables a database has: made anew, brought up to date, or refused."""

from __future__ import annotations

import importlib
import uuid

from sqlalchemy import Connection, Engine, insert, select

from runner.errors import StoreError
from runner.store.database import Database
from runner.store.log import SITE, first_hash
from runner.store.tables import SCHEMA, meta, metadata, version


def ensure_schema(engine: Engine, file: Database) -> None:
    """Makes the tables in an empty database, or upgrades older ones, in one transaction. Raises StoreError."""
    with engine.connect() as connection, connection.begin():
        file.one_by_one(connection)
        if file.is_empty(connection):
            metadata.create_all(connection, checkfirst=False)
            file.sign(connection)
            connection.execute(insert(version), {"version_num": SCHEMA})
            numbers = dict.fromkeys(("commit_no", "fence", "site_seq", "checkpointed"), 0)
            row = {"id": 1, "database_id": uuid.uuid4().hex, "site_head": first_hash(SITE), **numbers}
            connection.execute(insert(meta), row)
        elif is_older(connection, file):
            file.keep_out(connection)
            # Loaded by name: alembic costs every command a tenth of a second, and is asked once a release.
            importlib.import_module("runner.store.migrations.upgrade").upgrade(connection)


def is_older(connection: Connection, file: Database) -> bool:
    """Whether the database needs an upgrade. Raises StoreError when a newer Amends wrote it."""
    found: str | None = connection.execute(select(version.c.version_num)).scalar()
    if found is None or found > SCHEMA:
        raise StoreError(
            f"{file.name} was written by a newer Amends (schema {found}; this one knows {SCHEMA}); install the newer "
            "Amends, or put back a copy made before the change"
        )
    return found < SCHEMA
