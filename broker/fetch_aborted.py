"""Which records of a fetch are of aborted transactions (KIP-98).

Postgres knows, so this comes when all records of the answer are there, and only where some may be.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from broker.cluster import Cluster
from broker.fetch_context import Wanted, no_index
from broker.refusals import code_of
from protocol.batch import read_header
from protocol.fetch_response import PartitionAnswer
from storage.errors import MetadataUnavailable, OffsetOutOfRange, UnknownPartition
from storage.log import Log

ABORTED_AT_ONCE: Final = 3
"""Partitions of one fetch for which Postgres is asked what was aborted."""


class AbortedRecords:
    """Those of one fetch.

    Args:
        out_of_range: returns what is told of a partition whose log begins behind the offset.
    """

    def __init__(
        self, storage: Log, cluster: Cluster, out_of_range: Callable[[Wanted], ErrorCode]
    ) -> None:
        self._storage = storage
        self._cluster = cluster
        self._out_of_range = out_of_range

    async def add_all(self, doubtful: Sequence[Wanted]) -> None:
        """Tell which records are of aborted transactions, of a few partitions at a time.

        Each may have thousands to load, and other requests need Postgres, too. Once that does not
        answer, all that are left wait for it together, not one after the other.
        """
        left = iter(doubtful)

        async def add() -> None:
            for one in left:
                if not await self._add(one):
                    return

        await asyncio.gather(*(add() for _ in doubtful[:ABORTED_AT_ONCE]))
        await asyncio.gather(*(self._add(one) for one in left))

    async def _add(self, one: Wanted) -> bool:
        """Do so for one partition; return whether Postgres could be asked, if that was needed.

        The answer ends at `stable_offset` at the latest, and this asks with the count of the same
        snapshot, after it: see storage/aborted.py for why nothing is missed then. Nobody is given
        records whose transactions are forgotten: retention may have passed them meanwhile.
        """
        last = read_header(one.answer.records[-1])
        try:
            aborted = await self._cluster.unless_cut_off(
                self._storage.aborted_transactions(
                    one.log,
                    one.partition.offset,
                    last.base_offset + last.last_offset_delta + 1,
                    stable_offset=one.stable_offset,
                    aborted_count=one.aborted_count,
                )
            )
        except MetadataUnavailable:
            one.answer = PartitionAnswer(one.partition.index, no_index(self._cluster))
            return False
        except OffsetOutOfRange:
            one.answer = PartitionAnswer(one.partition.index, self._out_of_range(one))
            return True
        except UnknownPartition as error:
            one.answer = PartitionAnswer(one.partition.index, code_of(error))
            return True
        one.answer.aborted = [(each.producer_id, each.first_offset) for each in aborted]
        return True
