"""What the upkeep process does to the log: builder, compaction, retention, sweeper (D6)."""
