"""Where logs are known to end: before that, no log can end again, and no new record can lie.

Where one does, Postgres has forgotten what it said was durable: somebody put a backup in its place,
or a standby took over that lagged. What a broker has in memory is of no log any more then, and the
offsets of acknowledged records are given away again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from protocol.ids import Partition
from storage.errors import MetadataWentBack
from storage.metadata.port import BatchOutcome
from storage.partition_log import PartitionLog
from storage.partition_offsets import PartitionOffsets

KnownEnds = Mapping[PartitionLog, int]


class _Batch(Protocol):
    @property
    def log(self) -> PartitionLog: ...


def known_ends(logs: Iterable[PartitionLog]) -> KnownEnds:
    """Return where logs end, as far as is known here; to be taken before Postgres is asked."""
    return {log: log.high_watermark for log in logs}


def check_offsets(known: KnownEnds, offsets: Mapping[Partition, PartitionOffsets]) -> None:
    """Check what Postgres says of logs.

    Raises:
        MetadataWentBack: one ends before where it ended.
    """
    for log, end_offset in known.items():
        found = offsets.get(log.partition)
        if found is not None and found.high_watermark < end_offset:
            raise _went_back(log, found.high_watermark, end_offset)


def check_appended(
    known: KnownEnds, batches: Sequence[_Batch], outcomes: Sequence[BatchOutcome]
) -> None:
    """Check where batches were appended.

    Raises:
        MetadataWentBack: one lies before where its log ended.
    """
    for batch, outcome in zip(batches, outcomes, strict=True):
        is_appended = outcome.refusal is None and not outcome.duplicate
        if is_appended and outcome.base_offset < known[batch.log]:
            raise _went_back(batch.log, outcome.base_offset, known[batch.log])


def _went_back(log: PartitionLog, end_offset: int, known_offset: int) -> MetadataWentBack:
    topic_id, index = log.partition
    return MetadataWentBack(
        f"the metadata database has gone back: partition {index} of topic {topic_id} ends at "
        f"{end_offset:,} in it, and ended at {known_offset:,} before. It is a backup, or a standby "
        f"that lagged behind"
    )
