"""Pure functions from DataFrame to DataFrame; the last `select` of each is its schema."""
