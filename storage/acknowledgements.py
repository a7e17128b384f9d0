"""What follows when it is known what became of batches: only now may anybody hear of them."""

from protocol.batch import set_base_offset
from storage.errors import StorageError
from storage.metadata.port import BatchOutcome
from storage.metrics import StorageMetrics
from storage.overtaken import OvertakenProducers
from storage.pending_object import BufferedBatch, PendingObject
from storage.tail import TailCache


class Acknowledgements:
    """Called in the order of the commits, so that logs go on in the order of their offsets."""

    def __init__(
        self, tail: TailCache, overtaken: OvertakenProducers, metrics: StorageMetrics
    ) -> None:
        self._tail = tail
        self._overtaken = overtaken
        self._metrics = metrics

    def settle(self, batch: BufferedBatch, outcome: BatchOutcome) -> None:
        """Let the log go on, tail reads find the batch, and its producer hear of it."""
        header, partition_log = batch.header, batch.log
        partition_log.buffered_records -= header.record_count
        if outcome.refusal is not None or self._overtaken:
            outcome = self._overtaken.judge(partition_log.partition, header, outcome)
        if outcome.refusal is None and not outcome.duplicate:
            end_offset = outcome.base_offset + header.record_count
            # If others committed before it, nobody has counted their bytes.
            is_next = outcome.base_offset == partition_log.high_watermark
            set_base_offset(batch.data, outcome.base_offset)
            self._tail.append(partition_log.tail, outcome.base_offset, end_offset, batch.data)
            partition_log.advance(
                high_watermark=end_offset,
                log_start_offset=outcome.log_start_offset,
                last_stable_offset=outcome.last_stable_offset,
                aborted_count=outcome.aborted_count,
                size=len(batch.data) if is_next else 0,
            )
            self._metrics.records_committed.value += header.record_count
            self._metrics.bytes_committed.value += len(batch.data)
        if not batch.outcome.done():
            batch.outcome.set_result(outcome)

    def fail(self, pending: PendingObject, error: StorageError) -> None:
        """Give all batches of an object an error for an outcome."""
        for batch in pending.batches:
            batch.log.buffered_records -= batch.header.record_count
            if not batch.outcome.done():  # its request may have timed out
                batch.outcome.set_exception(error)
