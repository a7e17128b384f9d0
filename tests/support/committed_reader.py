"""What a consumer keeps of fetched batches under read_committed, as stock clients do it (KIP-98).

Batches up to an offset make known the aborted transactions that begin there; a batch of one is
skipped; its marker ends it. Each answer is read by itself: nothing is known from the one before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from protocol.batch import HEADER_BYTES, batch_extents, read_header
from protocol.control_batch import read_end_marker
from protocol.decompression import decompress
from protocol.records import decode_records


@dataclass(slots=True)
class CommittedReader:
    """A consumer of one partition.

    Attributes:
        position: of the next record it wants.
        values: what it was given, by offset.
    """

    position: int = 0
    values: dict[int, bytes] = field(default_factory=dict)

    def take(self, records: bytes, aborted: Iterable[tuple[int, int]]) -> None:
        """Read the records of one answer.

        Args:
            records: whole batches, back to back.
            aborted: (producer id, first offset) of the aborted transactions, as answered.
        """
        begins = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
        skipped: set[int] = set()
        data = memoryview(records)
        for start, size, count in batch_extents(data):
            header = read_header(data, start)
            end_offset = header.base_offset + count
            assert end_offset > self.position, "nothing comes that was read already"
            assert header.base_offset <= self.position, "nothing is missing"
            while begins and begins[0][0] < end_offset:
                skipped.add(begins.pop(0)[1])
            batch = data[start : start + size]
            if header.is_control:
                if not read_end_marker(batch).committed:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                self._keep(batch)
            self.position = end_offset

    def _keep(self, batch: memoryview) -> None:
        header = read_header(batch)
        payload = decompress(header.codec, batch[HEADER_BYTES:])
        for record in decode_records(payload, header.record_count):
            offset = header.base_offset + record.offset_delta
            if offset >= self.position:
                self.values[offset] = record.value or b""

    def received(self) -> Sequence[bytes]:
        """Return the values in the order of their offsets."""
        return [self.values[offset] for offset in sorted(self.values)]
