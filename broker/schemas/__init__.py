"""Schema validation at produce, and the schema registry that it asks."""
