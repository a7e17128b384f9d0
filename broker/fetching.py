"""Long polls: gather what is there, wait for more until min_bytes or max_wait, gather again (D8).

First what memory has, without an await; then, with one query for all of them, what only the store
has. While a fetch waits it is woken by local commits of its partitions, by the poll that looks for
other brokers' commits, and by a change of the brokers. A leader epoch older than ours is no reason
to refuse: it grows with every such change, and no log is ever truncated.

OFFSET_OUT_OF_RANGE makes consumers jump, so it is said neither on old news nor to old questions.
Another broker may have led the partition since it was asked for, if this one was paused, and the
client may have read on there. librdkafka takes the code for where it is by now.

A broker that is cut off from Postgres gives what it has in memory, for if Postgres is away for all,
nobody else can; who wants more is sent to the others, after a pause.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from broker.cluster import CUT_OFF_PAUSE_S, Cluster
from broker.fetch_aborted import AbortedRecords
from broker.fetch_context import FetchContext, Growth, Wanted, counted_bytes, no_index
from broker.read_failures import ReadFailures
from broker.refusals import code_of
from protocol.errors import ProtocolError
from protocol.fetch_response import PartitionAnswer
from storage.errors import MetadataUnavailable, ObjectMissing, OffsetOutOfRange, StorageError
from storage.log import Log
from storage.reading.read_planner import END, ColdRead
from storage.reading.reader import Records
from storage.usage_counter import charged

MAX_WAIT_S: Final = 300.0  # a poll that waits longer is a client's mistake
NO_RECORDS: Final = ErrorCode.kafka_storage_error
"""No row of the index has an offset that is in the log: records are lost."""

_FINE: Final = frozenset((ErrorCode.none, ErrorCode.unknown_leader_epoch))
_NO_ROW: Final = ObjectMissing("no row of the index has this offset")


class Fetch:
    """One fetch request over all its partitions.

    Attributes:
        wanted: those that were looked at last, with their answers.
    """

    def __init__(
        self,
        storage: Log,
        cluster: Cluster,
        context: FetchContext,
        *,
        failures: ReadFailures,
        max_bytes: int,
        read_committed: bool,
        client_id: str = "",
    ) -> None:
        self._storage = storage
        self._failures = failures
        self._cluster = cluster
        self._generation = cluster.generation
        self._context = context
        self.wanted: Sequence[Wanted] = ()
        self._max_bytes = max_bytes
        self._read_committed = read_committed
        self._client_id = client_id
        self._size = 0
        self._planned = 0  # bytes asked of the store
        self._from_store = False  # old data is never waited with: there is more of it

    async def run(self, *, min_bytes: int, max_wait_s: float) -> None:
        """Fill in all answers; returns early when there is enough, or an error to tell."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + min(max_wait_s, MAX_WAIT_S)
        while True:
            growth = Growth(max(min_bytes, 1), read_committed=self._read_committed)
            self.wanted = self._context.begin(growth)  # no commit falls between that and a look
            try:
                await self._gather()
                left_s = deadline_s - loop.time()
                counted = self._size
                if 0 < counted < min_bytes:
                    counted = counted_bytes(self.wanted, read_committed=self._read_committed)
                enough = counted >= min_bytes or self._from_store or self._context.hurries
                if enough or self._has_errors() or left_s <= 0:
                    # UNKNOWN_LEADER_EPOCH waits: this broker is about to hear of it, too
                    if self._cluster.brokers.is_cut_off and not self._size:
                        await asyncio.sleep(min(left_s, CUT_OFF_PAUSE_S))
                    break
                if counted:  # 0 would mean: look again at once
                    growth.grown(counted)
                await asyncio.wait([growth.enough], timeout=left_s)
            finally:
                self._context.end()
        if not self._read_committed:
            return
        doubtful = [one for one in self.wanted if one.answer.size and one.aborted_count]
        if doubtful:
            aborted = AbortedRecords(self._storage, self._cluster, self._out_of_range)
            await aborted.add_all(doubtful)

    def _has_errors(self) -> bool:
        return not _FINE.issuperset({one.answer.error_code for one in self.wanted})

    async def _gather(self) -> None:
        self._size = self._planned = 0
        cold: list[tuple[Wanted, ColdRead]] = []
        doubtful: list[Wanted] = []
        for one in self.wanted:
            one.answer = PartitionAnswer(one.partition.index)
            error = self._check(one)
            if error is ErrorCode.offset_out_of_range:
                doubtful.append(one)
            elif error is not None:
                one.answer.error_code = error
            else:
                self._look(one, cold)
        if doubtful:
            await self._ask_again(doubtful, cold)
        if cold:
            await self._read_store(cold)

    async def _ask_again(
        self, doubtful: Sequence[Wanted], cold: list[tuple[Wanted, ColdRead]]
    ) -> None:
        """Before an offset is called out of range: other brokers may have moved the end since."""
        try:
            refresh = self._storage.refresh([one.log for one in doubtful])
            await self._cluster.unless_cut_off(refresh)
        except MetadataUnavailable:
            for one in doubtful:
                one.answer.error_code = no_index(self._cluster)
            return
        for one in doubtful:
            error = self._check(one)
            if error is ErrorCode.offset_out_of_range:
                error = self._out_of_range(one)
            if error is not None:
                one.answer.error_code = error
            else:
                self._look(one, cold)

    def _out_of_range(self, one: Wanted) -> ErrorCode:
        """Return what is told of an offset that is: to look again, if others may have led since.

        Since the client last heard who leads; many do not say what they heard: since they asked.
        """
        epoch = one.partition.leader_epoch
        is_late = (self._generation if epoch < 0 else epoch) < self._cluster.generation
        return ErrorCode.not_leader_or_follower if is_late else ErrorCode.offset_out_of_range

    def _check(self, one: Wanted) -> ErrorCode | None:
        log, partition = one.log, one.partition
        if log.removed:
            return ErrorCode.unknown_topic_or_partition
        if partition.leader_epoch > self._cluster.generation:
            return ErrorCode.unknown_leader_epoch
        if not self._cluster.serves(log.partition) and not self._holds(one):
            return ErrorCode.not_leader_or_follower
        if not one.is_in_range:
            return ErrorCode.offset_out_of_range
        return None

    def _holds(self, one: Wanted) -> bool:
        """Whether this broker is cut off, but has in memory what is asked for."""
        if not self._cluster.brokers.is_cut_off:
            return False
        log = one.log
        end_offset = log.last_stable_offset if self._read_committed else log.high_watermark
        return bool(log.tail.read(one.partition.offset, 1, end_offset)[0])

    def _look(self, one: Wanted, cold: list[tuple[Wanted, ColdRead]]) -> None:
        log, partition = one.log, one.partition
        self._note_offsets(one)
        end_offset = log.high_watermark
        if self._read_committed:
            one.answer.aborted = ()
            one.stable_offset, one.aborted_count = log.last_stable_offset, log.aborted_count
            end_offset = one.stable_offset
        taken = self._size + self._planned
        room = min(partition.max_bytes, self._max_bytes - taken)
        if partition.offset >= end_offset or (room <= 0 and taken):
            return
        records = self._storage.read_tail(log, partition.offset, room, end_offset)
        one.is_foremost = not self._size
        if records.batches:
            self._add(one, records, room, may_exceed=one.is_foremost)
        else:
            self._planned += max(room, 1)
            end_offset = end_offset if self._read_committed else END
            cold.append((one, ColdRead(log, partition.offset, max(room, 1), end_offset)))

    def _note_offsets(self, one: Wanted) -> None:
        one.answer.high_watermark = one.log.high_watermark
        one.answer.last_stable_offset = one.log.last_stable_offset
        one.answer.log_start_offset = one.log.log_start_offset

    def _add(self, one: Wanted, records: Records, room: int, *, may_exceed: bool) -> None:
        """Put records into the answer, as far as there is room; what comes first may exceed it."""
        batches, size = list(records.batches), records.size
        while batches and size > room and (not may_exceed or len(batches) > 1):
            size -= len(batches.pop())
        one.answer.records, one.answer.size = batches, size
        self._size += size

    async def _read_store(self, cold: list[tuple[Wanted, ColdRead]]) -> None:
        try:
            with charged((read.log.partition.topic_id for _, read in cold), self._client_id):
                found = self._storage.read_store([read for _, read in cold])
                results = await self._cluster.unless_cut_off(found)
        except MetadataUnavailable:
            for one, _ in cold:
                one.answer.error_code = no_index(self._cluster)
            return
        self._from_store = True
        expired = [
            one
            for (one, _), result in zip(cold, results, strict=True)
            if isinstance(result, OffsetOutOfRange)
        ]
        if expired:  # retention, which is another process's, has moved the log start
            await self._ask_again(expired, [])
        for one in expired:
            is_fine = one.answer.error_code == ErrorCode.none
            if is_fine and not one.answer.size and one.partition.offset < one.log.high_watermark:
                one.answer.error_code = NO_RECORDS  # who is given nothing asks for ever
                self._failures.note(one.log, _NO_ROW, offset=one.partition.offset)
        from_memory = self._size  # added before, also of those that come later
        for (one, read), result in zip(cold, results, strict=True):
            if isinstance(result, OffsetOutOfRange):
                continue
            if isinstance(result, MetadataUnavailable):  # when it had to be planned once more
                one.answer.error_code = no_index(self._cluster)
                continue
            if isinstance(result, StorageError | ProtocolError):
                one.answer.error_code = code_of(result)
                self._failures.note(one.log, result, offset=one.partition.offset)
                continue
            self._note_offsets(one)
            room = min(read.max_bytes, self._max_bytes - self._size)
            is_first = one.is_foremost and self._size == from_memory
            self._add(one, result, room, may_exceed=is_first)
