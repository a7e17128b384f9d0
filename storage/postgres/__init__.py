"""Postgres itself: connections, the embedded server, migrations."""
