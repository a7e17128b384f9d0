"""Which transactions are open where the end that is looked at begins (recover_tail.py).

Of one that began before, that end shows some of the records, or none. So what lies further back is
read, from its end on, as long as a transaction may be old, and as long as there are transactions:
nothing else tells where one began. A marker stays as long as there are batches of its transaction,
so what has none is open, or has ended behind all that is built.
"""

from collections.abc import Sequence
from typing import Final

from protocol.batch import read_header
from protocol.control_batch import read_end_marker
from protocol.errors import ProtocolError
from storage.bad_answers import read_thrice
from storage.config import MiB
from storage.errors import BadObject
from storage.objects.port import ObjectStore, Owned
from storage.recovery.recover_producers import OpenTransaction
from storage.recovery.recover_scratch import FoundSegment
from storage.segment import parse_index, read_block
from storage.segment_index import Block

LONGEST_MS: Final = 3_600_000
"""Most clusters have less for transaction.max.timeout.ms, which only the lost Postgres told."""

MOST_BLOCKS: Final = 1024
"""Of up to 1 MiB. Times are those of clients, which may be all the same."""

BLOCKS_OF_A_GET: Final = 16

MOST_QUIET_BYTES: Final = 16 * MiB
"""What lies before so much without anything of a transaction is not looked at: most logs have none,
and an hour of all logs of a large cluster takes as long to read as everything else."""


async def open_before(
    objects: ObjectStore, chosen: Sequence[FoundSegment], offset: int
) -> dict[int, OpenTransaction]:
    """Return the transactions that are open just before an offset, by their producers.

    What lies before a gap, or before what cannot be read, is left: it may have ended there.

    Args:
        objects: where they are.
        chosen: built segments, in offset order; not empty.
        offset: where a block begins, or the end of the last segment.

    Raises:
        ObjectStoreUnavailable: no answer.
    """
    found = _Backwards()
    oldest_ms = chosen[-1].max_timestamp_ms - LONGEST_MS
    left = MOST_BLOCKS
    following = chosen[-1].end_offset + 1
    for segment in reversed(chosen):
        is_next = segment.end_offset + 1 == following
        if not is_next or segment.max_timestamp_ms < oldest_ms or left <= 0 or found.is_quiet:
            break
        following = segment.start_offset
        try:
            blocks = [one for one in await blocks_of(objects, segment) if one.first_offset < offset]
            while blocks and left > 0 and not found.is_quiet:
                left -= BLOCKS_OF_A_GET
                await found.read(objects, segment.path, blocks[-BLOCKS_OF_A_GET:])
                del blocks[-BLOCKS_OF_A_GET:]
        except (BadObject, ProtocolError):  # who reads the tail, or fsck, tells
            break
    return found.open


class _Backwards:
    """What the batches of a log tell of transactions, from the last one on.

    Attributes:
        open: those without a marker.
        quiet_bytes: that were read last, without anything of a transaction.
    """

    def __init__(self) -> None:
        self.open: dict[int, OpenTransaction] = {}
        self.quiet_bytes = 0
        self._known: set[int] = set()  # producers whose last marker was seen

    @property
    def is_quiet(self) -> bool:
        return self.quiet_bytes >= MOST_QUIET_BYTES

    async def read(self, objects: ObjectStore, path: str, blocks: Sequence[Block]) -> None:
        """Take the batches of adjacent blocks.

        Raises:
            BadObject, ObjectStoreUnavailable, ProtocolError: it cannot be read.
        """
        start, end = blocks[0].start, blocks[-1].start + blocks[-1].length
        data = memoryview(await get_again(objects, path, start, end - start))
        for block in reversed(blocks):
            at = block.start - start
            for batch in reversed(read_block(data[at : at + block.length], block).batches):
                self._take(batch)

    def _take(self, batch: memoryview) -> None:
        """Take the batch before the last one that was taken."""
        header = read_header(batch)
        is_any = header.is_control or header.is_transactional
        self.quiet_bytes = 0 if is_any else self.quiet_bytes + len(batch)
        producer_id = header.producer_id
        if header.is_control:
            self._known.add(read_end_marker(batch).producer_id)
        elif header.is_transactional and header.record_count and producer_id not in self._known:
            self.open[producer_id] = OpenTransaction(
                producer_id, header.producer_epoch, header.base_offset
            )


async def blocks_of(objects: ObjectStore, segment: FoundSegment) -> Sequence[Block]:
    """Return the blocks of a segment.

    Raises:
        BadObject, ObjectStoreUnavailable: its index cannot be read.
    """
    start = segment.byte_start + segment.byte_length
    return parse_index(await get_again(objects, segment.path, start, segment.index_length)).blocks


async def get_again(objects: ObjectStore, path: str, start: int, length: int) -> Owned:
    """Return bytes of an object; what one bad answer says of it is not believed.

    Raises:
        BadObject, ObjectStoreUnavailable: they cannot be had.
    """
    return await read_thrice(lambda _: objects.get(path, start, length), (BadObject,))
