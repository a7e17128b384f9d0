"""The index of a lost Postgres, rebuilt from the objects (`streamctl recover`)."""
