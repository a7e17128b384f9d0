"""A story of producers, groups and brokers, told to two stores at once, step by step.

A step is decided by a number and by what was answered before, so a list of numbers is a story, and
what is left of it when numbers are taken out is one, too.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.port import BatchCommit, TransactionUse
from storage.metadata.transactions import LAST_EPOCH, Producer
from tests.contracts.metadata_stores import a_batch
from tests.contracts.transaction_side import PARTITIONS_PER_TOPIC, Ended, Side
from tests.contracts.transaction_stores import HOUR_MS, bumped, named

NOWHERE: Final = Partition(UUID(int=0), 0)
USES: Final = [TransactionUse.ADDS] * 6 + [TransactionUse.ADDED] * 3 + [TransactionUse.NONE]

T = TypeVar("T")


@dataclass(slots=True)
class Story:
    """Attributes:
    sides: the stores; the first is in memory.
    known: what producers were told to call themselves, in that order.
    ends: those that were asked for.
    topics: the first partitions of those that are not deleted.
    """

    sides: Sequence[Side]
    names: Sequence[str]
    group_ids: Sequence[str]
    known: list[Producer] = field(default_factory=list)
    ends: list[Callable[[Side], Awaitable[Ended]]] = field(default_factory=list)
    topics: list[int] = field(default_factory=list)

    async def begin(self) -> None:
        for side in self.sides:
            side.partitions.clear()
            side.owner_epochs.clear()
        for number in (0, PARTITIONS_PER_TOPIC):
            self.topics.append(number)
            await self.both(Side.create_topic)
        for side in self.sides:
            for group_id in self.group_ids:
                await side.take_group(group_id)
        for name in self.names:
            await self.init_as(name, None, HOUR_MS)

    async def step(self, number: int) -> None:
        """Do what the number says, and see that all that can be read is the same."""
        random = Random(number)
        actions = {
            self.write: 30,
            self.end: 18,
            self.add: 10,
            self.write_offsets: 12,
            self.end_again: 6,
            self.init: 6,
            self.commit_group: 4,
            self.take_group: 2,
            self.delete_offsets: 2,
            self.use_up_epochs: 2,
            self.delete_group: 1,
            self.delete_topic: 1,
            self.forget_unused: 1,
        }
        (action,) = random.choices(list(actions), weights=list(actions.values()))
        await action(random)
        producer_ids = {producer.producer_id for producer in self.known}
        await self.both(Side.logs)
        await self.both(lambda side: side.transactions(self.names, producer_ids))
        await self.both(lambda side: side.groups(self.group_ids))

    async def both(self, tell: Callable[[Side], Awaitable[T]]) -> T:
        """Tell both stores something; return the answer, which has to be the same."""
        first, second = [await tell(side) for side in self.sides]
        assert first == second
        return first

    async def init(self, random: Random) -> None:
        name = random.choice(self.names)
        told = [each for each in self.known if each.transactional_id == name]
        expected = random.choice([None, *told[-3:]])
        await self.init_as(name, expected, random.choice([0, HOUR_MS]))

    async def init_as(self, name: str, expected: Producer | None, timeout_ms: int) -> None:
        answer = await self.both(lambda side: side.init(name, expected, timeout_ms))
        self._learn(answer.producer)

    async def write(self, random: Random) -> None:
        """Commit batches of one producer, or of several, to some partitions."""
        producers: list[Producer | None] = [self._a_producer(random)]
        if random.random() < 0.3:
            producers += [self._a_producer(random), None]
        batches = [
            (number, await self._a_batch(random, producers, number))
            for number in self._numbers(random)
            for _ in range(random.randint(1, 2))
        ]
        await self.both(lambda side: side.write(batches))

    async def add(self, random: Random) -> None:
        producer, numbers = self._a_producer(random), self._numbers(random)
        group_ids = random.sample(self.group_ids, random.randint(0, len(self.group_ids)))
        await self.both(lambda side: side.add(producer, numbers, group_ids))

    async def write_offsets(self, random: Random) -> None:
        producer, group_id = self._a_producer(random), random.choice(self.group_ids)
        offsets = dict.fromkeys(self._numbers(random), random.randint(0, 9))
        owns, joins = _mostly(random), random.random() < 0.6
        await self.both(
            lambda side: side.write_offsets(producer, group_id, offsets, owns=owns, joins=joins)
        )

    async def end(self, random: Random) -> None:
        producer, committed = self._a_producer(random), random.random() < 0.5
        bumps, for_another = random.random() < 0.6, random.random() < 0.2
        overdue_only = for_another and random.random() < 0.5
        fences = for_another and not overdue_only

        def tell(side: Side) -> Awaitable[Ended]:
            return side.end(
                producer,
                committed=committed and not for_another,
                bumps=bumps or for_another,
                fences=fences,
                overdue_only=overdue_only,
            )

        self.ends.append(tell)
        self._learn((await self.both(tell))[1])

    async def end_again(self, random: Random) -> None:
        """As after a lost answer, or late."""
        if self.ends:
            self._learn((await self.both(random.choice(self.ends[-3:])))[1])

    async def use_up_epochs(self, random: Random) -> None:
        producer = self.known[-1]
        epoch = LAST_EPOCH - random.randint(0, 1)
        found = await self.sides[0].opened.store.find_transactions([producer.transactional_id])
        current = [record.producer for record in found] == [producer]
        if current and producer.producer_epoch < epoch:
            await self.both(lambda side: side.set_epoch(producer.transactional_id, epoch))
            self._learn(named(producer, producer.producer_id, epoch))

    async def forget_unused(self, _random: Random) -> None:
        await self.both(Side.forget_unused)

    async def take_group(self, random: Random) -> None:
        group_id = random.choice(self.group_ids)
        await self.both(lambda side: side.take_group(group_id))

    async def commit_group(self, random: Random) -> None:
        group_id, owns = random.choice(self.group_ids), _mostly(random)
        offsets = dict.fromkeys(self._numbers(random), random.randint(10, 19))
        await self.both(lambda side: side.commit_group(group_id, offsets, owns=owns))

    async def delete_offsets(self, random: Random) -> None:
        group_id, owns = random.choice(self.group_ids), _mostly(random)
        numbers = self._numbers(random)
        await self.both(lambda side: side.delete_offsets(group_id, numbers, owns=owns))

    async def delete_group(self, random: Random) -> None:
        group_id, owns = random.choice(self.group_ids), _mostly(random)
        await self.both(lambda side: side.delete_group(group_id, owns=owns))

    async def delete_topic(self, _random: Random) -> None:
        if len(self.topics) > 1:
            number = self.topics.pop()
            await self.both(lambda side: side.delete_topic(number))

    def _learn(self, producer: Producer | None) -> None:
        if producer is not None:
            self.known.append(producer)

    def _a_producer(self, random: Random) -> Producer:
        """Return mostly who a producer is now, else who it was, or might be."""
        name = random.choice(self.names)
        told = [each for each in self.known if each.transactional_id == name]
        if _mostly(random):
            return told[-1]
        strange = [bumped(told[-1]), named(told[-1], told[-1].producer_id + 1, 0)]
        return random.choice(told[-4:] * 2 + strange)

    async def _a_batch(
        self, random: Random, producers: Sequence[Producer | None], number: int
    ) -> BatchCommit:
        """Return a batch that mostly goes on where its producer has ended."""
        records, producer = random.randint(1, 2), random.choice(producers)
        if producer is None:
            return a_batch(NOWHERE, 0, records=records)
        memory = self.sides[0]
        partition = memory.partitions[number]
        found = await memory.opened.store.producer_states([partition])
        following = [
            state.last_sequence + 1
            for state in found.get(partition, [])
            if state.producer_id == producer.producer_id
            and state.producer_epoch == producer.producer_epoch
        ]
        return a_batch(
            NOWHERE,
            0,
            records=records,
            producer=producer.producer_id,
            owner=producer.transactional_id,
            epoch=producer.producer_epoch,
            sequence=random.choice((following or [0]) * 6 + [0, 1, 2]),
            transaction=random.choice(USES),
        )

    def _numbers(self, random: Random) -> list[int]:
        """Return some partitions, mostly of topics that were not deleted."""
        partition_count = self.topics[-1] + PARTITIONS_PER_TOPIC
        if not _mostly(random):
            partition_count = 2 * PARTITIONS_PER_TOPIC
        return random.sample(range(partition_count), random.randint(1, 2))


def _mostly(random: Random) -> bool:
    return random.random() < 0.85
