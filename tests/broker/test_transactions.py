"""Transactions and their upkeep on a store in memory: what hardly happens over the wire."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest
from prometheus_client import CollectorRegistry

from broker.transactions import transaction_upkeep
from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transaction_metrics import TransactionMetrics
from broker.transactions.transaction_upkeep import TOGETHER, TransactionUpkeep
from broker.transactions.transactions import FENCE, EndMode, Transactions
from protocol.control_batch import EndMarker, read_end_marker
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import (
    LAST_EPOCH,
    InitOutcome,
    Producer,
    TransactionState,
    Verdict,
)
from storage.partition_offsets import PartitionOffsets
from tests.support.fakes.metadata import MemoryMetadata

PATIENCE_S: Final = 30.0
MINUTE_MS: Final = 60_000
NOW_MS: Final = 1_000_000
COMMIT: Final = EndMode(committed=True, bumps_epoch=False)
COMMIT_AND_BUMP: Final = EndMode(committed=True, bumps_epoch=True)
ABORT_AND_BUMP: Final = EndMode(committed=False, bumps_epoch=True)


@dataclass
class Clock:
    now_ms: int = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class World:
    """One broker's transactions, on a store of their own.

    Attributes:
        markers: what this broker's readers were shown.
    """

    clock: Clock = field(default_factory=Clock)
    markers: list[tuple[EndMarker, list[Partition]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryMetadata(Random(1), self.clock)
        self.producer_ids = ProducerIds(self.store)
        self.transactions = self.broker(self.store)

    def broker(self, store: MemoryMetadata) -> Transactions:
        return Transactions(
            store=store,
            append_markers=self._append,
            producer_ids=self.producer_ids,
            metrics=TransactionMetrics(CollectorRegistry()),
            now_ms=self.clock,
        )

    def upkeep(self, store: MemoryMetadata | None = None) -> TransactionUpkeep:
        return TransactionUpkeep(
            store=store or self.store, transactions=self.transactions, unused_ms=MINUTE_MS
        )

    def _append(self, marker: bytes, offsets: Mapping[Partition, PartitionOffsets]) -> None:
        self.markers.append((read_end_marker(marker), list(offsets)))

    async def partition(self) -> Partition:
        topic = await self.store.create_topic(
            "orders", partition_count=1, replication_factor=1, configs={}
        )
        return Partition(topic.topic_id, 0)

    async def producer(self, name: str = "a", timeout_ms: int = MINUTE_MS) -> Producer:
        outcome = await self.transactions.init(name, timeout_ms=timeout_ms, expected=None)
        assert outcome.producer is not None
        return outcome.producer

    async def state(self, name: str = "a") -> TransactionState:
        (record,) = await self.store.find_transactions([name])
        return record.state


@pytest.fixture
def world() -> World:
    return World()


async def test_the_marker_carries_the_epoch_that_its_rules_give(world: World) -> None:
    # Given a producer with a transaction in one partition
    partition, producer = await world.partition(), await world.producer()
    await world.transactions.add(producer, [partition])

    # When it ends as for an old client, and the next one as for a new client
    first = await world.transactions.end(producer, COMMIT)
    await world.transactions.add(producer, [partition])
    second = await world.transactions.end(producer, ABORT_AND_BUMP)

    # Then this broker's readers are shown both markers, the second with the next epoch
    assert first.producer == producer
    assert second.producer is not None
    assert second.producer.producer_epoch == producer.producer_epoch + 1
    said = [(marker.committed, marker.producer_epoch, where) for marker, where in world.markers]
    assert said == [(True, 0, [partition]), (False, 1, [partition])]
    assert all(marker.timestamp_ms == NOW_MS for marker, _ in world.markers)


async def test_only_the_last_epoch_costs_a_producer_id(world: World) -> None:
    # Given a producer, and the producer id that would be next
    producer = await world.producer()
    next_id = await world.producer_ids.take() + 1

    # When it ends transactions until its epochs are used up
    while producer.producer_epoch < LAST_EPOCH:
        outcome = await world.transactions.end(producer, ABORT_AND_BUMP)
        assert outcome.producer is not None
        producer = outcome.producer
    outcome = await world.transactions.end(producer, ABORT_AND_BUMP)

    # Then that one is taken at the very end
    assert outcome.producer == Producer(transactional_id="a", producer_id=next_id, producer_epoch=0)
    assert await world.producer_ids.take() == next_id + 1


async def test_an_epoch_that_is_never_given_out_is_fenced(world: World) -> None:
    producer = await world.producer()
    beyond = Producer(
        transactional_id="a", producer_id=producer.producer_id, producer_epoch=LAST_EPOCH + 1
    )
    assert await world.transactions.add(beyond, []) is Verdict.FENCED
    for mode in (COMMIT, ABORT_AND_BUMP, FENCE):
        assert (await world.transactions.end(beyond, mode)).verdict is Verdict.FENCED


async def test_init_aborts_what_its_predecessor_left_open(world: World) -> None:
    # Given an open transaction
    partition, producer = await world.partition(), await world.producer()
    await world.transactions.add(producer, [partition])

    # When another producer starts with that transactional id
    successor = await world.producer()

    # Then it is aborted under an epoch that nobody has
    assert [(said.committed, said.producer_epoch) for said, _ in world.markers] == [(False, 1)]
    assert (successor.producer_id, successor.producer_epoch) == (producer.producer_id, 2)
    assert await world.transactions.add(producer, [partition]) is Verdict.FENCED


async def test_init_by_the_producer_itself_goes_on_from_its_own_abort(world: World) -> None:
    # Given an open transaction
    partition, producer = await world.partition(), await world.producer()
    await world.transactions.add(producer, [partition])
    expected = (producer.producer_id, producer.producer_epoch)

    # When its own producer wants a new epoch, twice, for the first answer was lost
    outcomes = [
        await world.transactions.init("a", timeout_ms=MINUTE_MS, expected=expected)
        for _ in range(2)
    ]

    # Then it is aborted, and the producer gets the next epoch
    again = Producer(transactional_id="a", producer_id=expected[0], producer_epoch=1)
    assert outcomes == [InitOutcome(verdict=Verdict.DONE, producer=again)] * 2
    assert await world.state() is TransactionState.EMPTY


class Busy(MemoryMetadata):
    """A store where another broker's client begins again whenever a transaction ends."""

    async def init_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        fresh_producer_id: int,
    ) -> InitOutcome:
        outcome = await super().init_producer(
            transactional_id,
            timeout_ms=timeout_ms,
            expected=expected,
            fresh_producer_id=fresh_producer_id,
        )
        if outcome.producer is not None:
            await self.add_to_transaction(outcome.producer, [])
        return InitOutcome(verdict=Verdict.OPEN, producer=outcome.producer)


async def test_init_gives_up_if_others_keep_beginning_transactions(world: World) -> None:
    busy = world.broker(Busy(Random(1), world.clock))
    outcome = await busy.init("a", timeout_ms=MINUTE_MS, expected=None)
    assert outcome.verdict is Verdict.OPEN


async def test_all_that_is_overdue_is_aborted_and_cannot_go_on(world: World) -> None:
    # Given more transactions than are asked for together, of which one has time left
    count = 2 * TOGETHER + 1
    producers = [await world.producer(f"p{at}") for at in range(count)]
    patient = await world.producer("patient", timeout_ms=2 * MINUTE_MS)
    for producer in (*producers, patient):
        await world.transactions.add(producer, [])
    world.clock.now_ms += MINUTE_MS

    # When it is looked for what is overdue
    await world.upkeep().sweep()

    # Then all but that one are aborted, and their producers cannot go on
    assert await world.store.overdue_transactions(count) == []
    assert await world.state("patient") is TransactionState.ONGOING
    for producer in producers:
        assert await world.transactions.add(producer, []) is Verdict.FENCED


class Slow(MemoryMetadata):
    """A store whose list of overdue transactions has been worked off when it arrives."""

    asked = 0

    async def overdue_transactions(self, limit: int) -> list[Producer]:
        self.asked += 1
        gone = Producer(transactional_id="gone", producer_id=1, producer_epoch=1)
        return [gone] * limit


async def test_what_other_brokers_abort_is_left_to_them(world: World) -> None:
    slow = Slow(Random(1), world.clock)
    await world.upkeep(slow).sweep()
    assert slow.asked == 1


class Failing(MemoryMetadata):
    """A store that gives no answer at first."""

    failures = 2
    swept = False
    forgotten = False

    async def overdue_transactions(self, limit: int) -> list[Producer]:
        self._fail()
        self.swept = True
        return await super().overdue_transactions(limit)

    async def forget_transactional_ids(self, unused_ms: int) -> int:
        self._fail()
        self.forgotten = True
        return await super().forget_transactional_ids(unused_ms)

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise MetadataUnavailable("no answer")


async def test_upkeep_goes_on_after_a_store_without_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that fails at first, and upkeep that waits for nothing
    monkeypatch.setattr(transaction_upkeep, "SWEEP_S", 0)
    monkeypatch.setattr(transaction_upkeep, "FORGET_S", 0)
    store = Failing(Random(1), world.clock)

    # When it runs
    running = asyncio.create_task(world.upkeep(store).run())
    async with asyncio.timeout(PATIENCE_S):
        while not (store.swept and store.forgotten):
            await asyncio.sleep(0)

    # Then both of its parts come to their work
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_ids_that_nobody_uses_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an id with an open transaction, and one without
    monkeypatch.setattr(transaction_upkeep, "FORGET_S", 0)
    await world.transactions.add(await world.producer("open", 10 * MINUTE_MS), [])
    await world.producer("unused")

    # When time passes
    world.clock.now_ms += MINUTE_MS + 1
    running = asyncio.create_task(world.upkeep().run())
    async with asyncio.timeout(PATIENCE_S):
        while await world.store.find_transactions(["unused"]):
            await asyncio.sleep(0)
    running.cancel()

    # Then the first one is there still
    assert await world.state("open") is TransactionState.ONGOING


async def test_how_transactions_end_is_counted(world: World) -> None:
    # Given transactions
    registry = CollectorRegistry()
    transactions = Transactions(
        store=world.store,
        append_markers=lambda *_: None,
        producer_ids=world.producer_ids,
        metrics=TransactionMetrics(registry),
        now_ms=world.clock,
    )
    for name in ("a", "b"):
        await transactions.add(await world.producer(name), [])

    # When one is committed, and one is overdue
    (record,) = await world.store.find_transactions(["a"])
    await transactions.end(record.producer, COMMIT_AND_BUMP)
    world.clock.now_ms += MINUTE_MS
    upkeep = TransactionUpkeep(store=world.store, transactions=transactions, unused_ms=1)
    await upkeep.sweep()

    # Then the metrics say so
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"streamhouse_transactions_{name}_total", labels)

    assert value("ended", result="committed") == value("ended", result="aborted") == 1
    assert value("overdue") == 1
