"""KIP-98 and the log in the fewest words: what every metadata store must agree with."""

from dataclasses import dataclass, field

from protocol.batch import NO_PRODUCER_ID
from storage.metadata.port import BatchCommit

SEQUENCES = 2**31


@dataclass(slots=True)
class ProducerModel:
    """One epoch of a producer in a partition: all batches as (first, last, base offset)."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1][1] + 1) % SEQUENCES


@dataclass(slots=True)
class PartitionModel:
    """A log that is only a length, and what its producers wrote.

    Attributes:
        forgotten: producers up to this id may go on in the middle: some of them were forgotten.
        next_producer_id: so may producers from there on: they are of another cluster.
    """

    high_watermark: int = 0
    producers: dict[int, ProducerModel] = field(default_factory=dict)
    forgotten: int = -1
    next_producer_id: int = 0

    def append(self, batch: BatchCommit) -> str | int:
        """Append, or say what is wrong, in the words of metadata_stores.short()."""
        last = (batch.base_sequence + batch.record_count - 1) % SEQUENCES
        if batch.producer_id != NO_PRODUCER_ID:
            known = self.producers.get(batch.producer_id)
            if known is not None and batch.producer_epoch == known.epoch:
                for first_sequence, last_sequence, base_offset in known.batches[-5:]:
                    if (first_sequence, last_sequence) == (batch.base_sequence, last):
                        return f"duplicate of {base_offset}"
                if batch.base_sequence != known.next_sequence:
                    return "OutOfOrderSequence"
            elif known is not None and batch.producer_epoch < known.epoch:
                return "InvalidProducerEpoch"
            elif batch.base_sequence and (
                known or self.forgotten < batch.producer_id < self.next_producer_id
            ):
                return "OutOfOrderSequence"
            else:
                known = None
            if known is None:
                known = self.producers[batch.producer_id] = ProducerModel(batch.producer_epoch)
            known.batches.append((batch.base_sequence, last, self.high_watermark))
        base_offset = self.high_watermark
        self.high_watermark += batch.record_count
        return base_offset

    def forget(self) -> None:
        """Forget all producers."""
        own = (one for one in self.producers if one < self.next_producer_id)
        self.forgotten = max([self.forgotten, *own])
        self.producers.clear()
