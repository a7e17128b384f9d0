"""All aborted transactions of a range of offsets, however many there are.

The metadata forgets those that ended before the log start, which may lie within a built segment: of
records that are still there, only its own index tells then.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.errors import UnknownPartition
from storage.metadata.port import MetadataStore

PAGE: Final = 1000


async def aborted_ranges(
    metadata: MetadataStore, partition: Partition, start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """Return those with records from `start_offset` on and before `end_offset`, by last offset.

    Of transactions that had ended when this was called.

    Raises:
        UnknownPartition: it is gone.
        MetadataUnavailable: no answer.
    """
    offsets = await metadata.partition_offsets([partition])
    if partition not in offsets:
        raise UnknownPartition(f"{partition.topic_id}-{partition.index}")
    count = offsets[partition].aborted_count
    found: list[AbortedTransaction] = []
    while True:
        page = await metadata.aborted_transactions(
            partition, start_offset, end_offset, PAGE, aborted_count=count
        )
        found += page.transactions
        if len(page.transactions) < PAGE:
            return found
        start_offset = found[-1].last_offset + 1


def merge_aborted(lists: Iterable[Sequence[AbortedTransaction]]) -> list[AbortedTransaction]:
    """Return all aborted transactions, each once, by their last offsets."""
    by_marker = {one.last_offset: one for aborted in lists for one in aborted}
    return [by_marker[last_offset] for last_offset in sorted(by_marker)]
