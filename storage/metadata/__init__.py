"""The metadata port (D2), in Postgres and in memory, piece by piece."""
