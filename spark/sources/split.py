"""What one Spark task reads: a range of offsets of a partition, and the objects that hold it."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark.log_location import LogLocation
from spark.sources.cut import Range, TopicPartition
from storage.segment_entry import SegmentEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """An aborted transaction: what its producer wrote from first to last offset is not read."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, kw_only=True)
class Split(InputPartition):
    """Picklable; made by the driver, read by an executor.

    Attributes:
        offsets: what is wanted of the rows; they may begin before and end after it.
        rows: of the index, in offset order, as they were planned. One whose object is gone by the
            time it is read (rebuilt, compacted) is planned again by the executor.
        aborted: transactions whose records are left out; empty for read_uncommitted.
        timestamps_ms: first timestamp wanted, and one past the last; None where there is no limit.
        fail_on_data_loss: what cannot be read (any more) is an error; else it is left out.
        snapshot_id: that is read: what compaction takes of it meanwhile cannot be read any more.
    """

    location: LogLocation
    partition: TopicPartition
    offsets: Range
    rows: tuple[SegmentEntry, ...]
    aborted: tuple[Aborted, ...] = ()
    timestamps_ms: tuple[int | None, int | None] = (None, None)
    include_headers: bool = False
    fail_on_data_loss: bool = True
    snapshot_id: str | None = None
