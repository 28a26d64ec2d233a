"""What happened: the action log and its tables, on SQLAlchemy Core.

May import: errors, contract, clock, core. Home of sqlalchemy and alembic.

Begin with `facts` (what goes in and comes out), then `sql` (`open_store`, the store), `writer` (one thread, group
commit), `batch` (what one group writes, with `statements`), `log` (the hash chain) and `views` (reading). What only
SQLite knows stands in `sqlite`; the rest is written so that PostgreSQL can follow.
"""
