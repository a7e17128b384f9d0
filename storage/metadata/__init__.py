"""The metadata port (D2), in Postgres, piece by piece."""
