"""Databases by named statements: `statements` reads and checks them, `databases` opens connections (the home of
psycopg and pymysql), `kind` is the connector. Begin at `kind`. SQLAlchemy gives the dialects and runs the text."""
