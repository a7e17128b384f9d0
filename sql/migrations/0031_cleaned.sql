-- max.compaction.lag.ms is counted from rounds of compaction (KIP-354), while readers of snapshots have
-- to know of every swap: these are two times.

-- cleaned_at: when a round noted how far it had come. compacted_at stays the time of the last swap, or
-- round.
ALTER TABLE streamhouse_internal.partitions ADD COLUMN cleaned_at timestamptz;
UPDATE streamhouse_internal.partitions SET cleaned_at = compacted_at WHERE compacted_at IS NOT NULL;
