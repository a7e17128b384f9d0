"""What is no longer in the tail: from index rows to ranged GETs to batches (D8)."""
