"""One of two stores that are told the same: what it answers, in words that both have in common.

Topic ids and owner epochs differ from store to store; here partitions are numbers, and an owner
epoch is the current one, or not.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from protocol.ids import Partition
from storage.metadata.port import BatchCommit
from storage.metadata.transactions import InitOutcome, Producer, Verdict
from storage.partition_offsets import PartitionOffsets
from tests.contracts.metadata_stores import commit, create_partitions, short, whole_log
from tests.contracts.transaction_stores import Transactions

Ended = tuple[Verdict, Producer | None, dict[int, PartitionOffsets]]
PARTITIONS_PER_TOPIC = 2


@dataclass(slots=True)
class Side:
    """A store; `partitions` has those of deleted topics, too."""

    opened: Transactions
    partitions: list[Partition] = field(default_factory=list)
    owner_epochs: dict[str, int] = field(default_factory=dict)

    async def create_topic(self) -> object:
        self.partitions += await create_partitions(self.opened.store, PARTITIONS_PER_TOPIC)
        return len(self.partitions)

    async def delete_topic(self, number: int) -> object:
        await self.opened.store.delete_topic(self.partitions[number].topic_id)
        return number

    async def init(self, name: str, expected: Producer | None, timeout_ms: int) -> InitOutcome:
        return await self.opened.init(name, expected=expected, timeout_ms=timeout_ms)

    async def write(self, batches: Sequence[tuple[int, BatchCommit]]) -> object:
        """Commit batches, each of the partition of its number; answer in the given order."""
        places = sorted(range(len(batches)), key=lambda each: self.partitions[batches[each][0]])
        ordered = [
            BatchCommit(
                partition=self.partitions[batches[place][0]],
                start=100 * position,
                length=100,
                record_count=batches[place][1].record_count,
                max_timestamp_ms=batches[place][1].max_timestamp_ms,
                producer_id=batches[place][1].producer_id,
                producer_epoch=batches[place][1].producer_epoch,
                base_sequence=batches[place][1].base_sequence,
                transaction=batches[place][1].transaction,
                transactional_id=batches[place][1].transactional_id,
            )
            for position, place in enumerate(places)
        ]
        outcomes = await commit(self.opened.store, ordered)
        answers = {
            place: (short(outcome), outcome.last_stable_offset, outcome.aborted_count)
            for place, outcome in zip(places, outcomes, strict=True)
        }
        return [answers[place] for place in sorted(answers)]

    async def add(
        self, producer: Producer, numbers: Collection[int], group_ids: Collection[str]
    ) -> object:
        partitions = [self.partitions[number] for number in numbers]
        return await self.opened.store.add_to_transaction(producer, partitions, list(group_ids))

    async def write_offsets(
        self,
        producer: Producer,
        group_id: str,
        offsets: Mapping[int, int],
        *,
        owns: bool,
        joins: bool,
    ) -> object:
        outcome = await self.opened.write_offsets(
            producer,
            group_id,
            self._owner_epoch(group_id, owns=owns),
            {self.partitions[number]: offset for number, offset in offsets.items()},
            joins=joins,
        )
        return outcome.verdict, {self._number(partition) for partition in outcome.unknown}

    async def end(
        self, producer: Producer, *, committed: bool, bumps: bool, fences: bool, overdue_only: bool
    ) -> Ended:
        outcome = await self.opened.end(
            producer, committed=committed, bumps=bumps, fences=fences, overdue_only=overdue_only
        )
        return outcome.verdict, outcome.producer, self._numbered(outcome.markers)

    async def set_epoch(self, name: str, epoch: int) -> object:
        await self.opened.set_epoch(name, epoch)
        return epoch

    async def forget_unused(self) -> object:
        await self.opened.waits()
        return await self.opened.store.forget_transactional_ids(0)

    async def take_group(self, group_id: str) -> object:
        self.owner_epochs[group_id] = await self.opened.groups.take(group_id)
        return group_id

    async def commit_group(
        self, group_id: str, offsets: Mapping[int, int], *, owns: bool
    ) -> object:
        outcome = await self.opened.groups.commit(
            group_id,
            self._owner_epoch(group_id, owns=owns),
            {self.partitions[number]: offset for number, offset in offsets.items()},
        )
        return outcome.fenced, {self._number(partition) for partition in outcome.unknown}

    async def delete_group(self, group_id: str, *, owns: bool) -> object:
        epoch = self._owner_epoch(group_id, owns=owns)
        return await self.opened.store.delete_groups({group_id: epoch})

    async def delete_offsets(
        self, group_id: str, numbers: Collection[int], *, owns: bool
    ) -> object:
        partitions = [self.partitions[number] for number in numbers]
        epoch = self._owner_epoch(group_id, owns=owns)
        return await self.opened.store.delete_offsets(group_id, epoch, partitions)

    async def logs(self) -> object:
        """All that can be read of the partitions."""
        store = self.opened.store
        offsets = await store.partition_offsets(self.partitions)
        states = await store.producer_states(self.partitions)
        return [
            (
                offsets[partition],
                [(entry.start_offset, entry.end_offset, entry.inline) for entry in log],
                [
                    (
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.transaction_start_offset,
                    )
                    for state in states[partition]
                ],
                await self.opened.aborted(partition, offsets[partition].log_start_offset),
            )
            for partition in self.partitions
            if partition in offsets
            for log in [await whole_log(store, partition)]
        ]

    async def transactions(self, names: Collection[str], producer_ids: Collection[int]) -> object:
        """All that can be read of transactional ids."""
        store = self.opened.store
        listed = {each.transactional_id: each async for each in store.list_transactions()}
        overdue = await store.overdue_transactions(100_000)
        return (
            [
                (
                    record.producer,
                    record.state,
                    record.timeout_ms,
                    record.started_ms > 0,
                    sorted(self._number(partition) for partition in record.partitions),
                )
                for record in await store.find_transactions(sorted(names))
            ],
            [
                (name, listed[name].producer_id, listed[name].state, listed[name].running_ms >= 0)
                for name in sorted(listed.keys() & set(names))
            ],
            {each for each in overdue if each.transactional_id in names},
            [await store.transactional_id_of(producer_id) for producer_id in sorted(producer_ids)],
        )

    async def groups(self, group_ids: Collection[str]) -> object:
        """All that can be read of groups."""
        answer = []
        for group_id in sorted(group_ids):
            found = await self.opened.store.committed_offsets(group_id, None)
            committed = {self._number(each): offset for each, offset in found.offsets.items()}
            answer.append((committed, {self._number(each) for each in found.unstable}))
        there = set(await self.opened.groups.ids())
        return answer, there.intersection(group_ids)

    def _owner_epoch(self, group_id: str, *, owns: bool) -> int:
        return self.owner_epochs[group_id] if owns else 0

    def _number(self, partition: Partition) -> int:
        return self.partitions.index(partition)

    def _numbered(self, found: Mapping[Partition, PartitionOffsets]) -> dict[int, PartitionOffsets]:
        return {self._number(partition): offsets for partition, offsets in found.items()}
