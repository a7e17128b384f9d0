"""A broker that hears nothing from Postgres any more, and its producers and consumers.

When one is cut off and when not is in test_membership.py, what becomes of members of groups in
groups/test_cut_off.py.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from broker.cluster import CUT_OFF_PAUSE_S, NOBODY
from broker.sent_away import MOST_SENT_AWAY
from protocol.records import Record, build_batch
from tests.broker.groups.conftest import FIND_COORDINATOR, coordinator
from tests.support.group_wire import fetch_request, named
from tests.support.postgres import create_empty_database
from tests.support.proxied_brokers import ProxiedBroker, proxied_broker
from tests.support.tls import metric
from tests.support.wire import (
    ConnectionEnded,
    WireClient,
    encode_frame,
    leader_of,
    list_offset_request,
    produce_request,
)

NONE, MOVED = ErrorCode.none, ErrorCode.not_leader_or_follower
PATIENCE_S: Final = 30.0
GONE_ON_S: Final = 15.0
GLANCE_S: Final = 0.05
AWAY_S: Final = 8.0
SENT_AWAY_S: Final = 8.0  # Postgres is waited for for 10 s
MOST_ASKED: Final = 100  # requests a second, of two clients: thousands without a pause
LIBRDKAFKA_ASKS: Final = 3  # times for the group's coordinator, in a transaction: then it waits
GROUPS: Final = [f"group-{number}" for number in range(20)]
BATCH: Final = build_batch([Record(offset_delta=0, value=b"a")])
NUMBERED_BATCH: Final = build_batch(
    [Record(offset_delta=0, value=b"b")], producer_id=0, producer_epoch=0, base_sequence=0
)

Pair = tuple[ProxiedBroker, ProxiedBroker]


@pytest.fixture
async def pair(tmp_path: Path, topic: str) -> AsyncIterator[Pair]:
    """Return two brokers, first who leads a new topic of one partition, as both of them say."""
    dsn, store = await create_empty_database(), f"file://{tmp_path / 'objects'}"
    async with (
        proxied_broker(tmp_path / "one", dsn, store) as one,
        proxied_broker(tmp_path / "two", dsn, store) as two,
    ):
        await one.client.create_topic(topic)
        leader = await agreed((one, two), topic)
        yield (one, two) if one.broker.bootstrap == leader else (two, one)


async def agreed(pair: Pair, topic: str) -> str:
    """Wait until both know each other and say the same of the topic; return who leads it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            lists = [await _lists(one) for one in pair]
            leader, other = [await _leader(one, topic) for one in pair]
            if lists == [[0, 1], [0, 1]] and leader is not None and leader == other:
                return leader
            await asyncio.sleep(GLANCE_S)


async def _described(of: ProxiedBroker, topic: str) -> Any:
    """Return the answer to Metadata, on a new connection: one may be closed that asks too often."""
    async with await WireClient.connect(of.broker.bootstrap) as client:
        return await client.describe(topic)


async def _lists(of: ProxiedBroker) -> list[int]:
    return [each.node_id for each in (await _described(of, "none")).brokers]


async def _leader(of: ProxiedBroker, topic: str) -> str | None:
    return leader_of(await _described(of, topic))


async def becomes_true(is_true: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(within_s):
        while not is_true():
            await asyncio.sleep(GLANCE_S)


async def leads(leader: ProxiedBroker | None, topic: str, *, by: ProxiedBroker) -> None:
    """Wait until one broker leads the topic, or none, by what another or it says itself."""
    wanted = None if leader is None else leader.broker.bootstrap
    async with asyncio.timeout(PATIENCE_S):
        while await _leader(by, topic) != wanted:
            await asyncio.sleep(GLANCE_S)


async def _leader_and_epoch(of: ProxiedBroker, topic: str) -> tuple[str | None, int]:
    described = await _described(of, topic)
    return leader_of(described), int(described.topics[0].partitions[0].leader_epoch)


async def _coordinated_by(one: ProxiedBroker) -> str:
    """Return a group that it coordinates."""
    for group in GROUPS:
        if await coordinator(one.client, group) == one.broker.port:
            return group
    raise AssertionError(GROUPS)


async def _coordinator_code(by: ProxiedBroker, group: str) -> ErrorCode:
    async with await WireClient.connect(by.broker.bootstrap) as client:
        return await _ask_for_coordinator(client, group)


async def _ask_for_coordinator(client: WireClient, group: str) -> ErrorCode:
    request = named(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(group,))
    (answer,) = (await client.ask(request)).coordinators
    code: ErrorCode = answer.error_code
    return code


async def requests(pair: Pair) -> float:
    """Return how many both have answered; the proxies need the event loop meanwhile."""
    name = "streamhouse_request_seconds_count"
    return sum([await asyncio.to_thread(metric, one.broker, name) for one in pair])


async def test_who_alone_is_cut_off_sends_clients_away(pair: Pair, topic: str) -> None:
    # Given a record, and a consumer that waits for the next one
    here, there = pair
    assert (await here.client.produce(topic, BATCH)).error_code == NONE
    group = await _coordinated_by(here)
    async with await WireClient.connect(here.broker.bootstrap) as consumer:
        waiting = asyncio.create_task(consumer.fetch(topic, 1, max_wait_ms=60_000))

        # When the leader alone hears nothing from Postgres any more, while a batch is under way
        here.postgres.lose_answers()
        patient = produce_request(topic, NUMBERED_BATCH, timeout_ms=60_000)
        (answer,) = (await here.client.ask(patient)).responses[0].partition_responses

        # Then its producer hears soon that the outcome is not known, and the consumer to go away
        assert answer.error_code == ErrorCode.request_timed_out
        assert (await waiting).error_code == MOVED

    # And nobody leads, as far as this broker knows, so who asks it asks others, too
    described = await _described(here, topic)
    (partition,) = described.topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (NOBODY, ErrorCode.leader_not_available)
    assert described.throttle_time
    assert len(described.brokers) == len(pair)
    assert await _coordinator_code(here, group) == ErrorCode.coordinator_not_available
    assert (await here.client.produce(topic, BATCH)).error_code == MOVED

    # And who asks nobody else is made to
    async with await WireClient.connect(here.broker.bootstrap) as lonely:
        for _ in range(MOST_SENT_AWAY):
            await lonely.describe(topic)
        with pytest.raises(ConnectionEnded):
            await lonely.describe(topic)
    async with await WireClient.connect(here.broker.bootstrap) as lonely:
        for _ in range(LIBRDKAFKA_ASKS - 1):
            await _ask_for_coordinator(lonely, group)
        with pytest.raises(ConnectionEnded):
            await _ask_for_coordinator(lonely, group)

    # And what is in memory can still be read there, and the batch be sent to who took over
    assert (await here.client.fetch(topic, 0)).records
    await leads(there, topic, by=there)
    assert (await there.client.produce(topic, NUMBERED_BATCH)).error_code == NONE

    # And once Postgres answers it leads again, and has both records once
    here.postgres.cut()
    await leads(here, topic, by=here)
    assert (await here.client.list_offset(topic, -1)).offset == 2
    assert not (await _described(here, topic)).throttle_time


async def test_what_waits_for_postgres_holds_nobody_up(pair: Pair, topic: str) -> None:
    # Given a consumer of a leader that has just lost Postgres, and a group that it coordinates
    here, _ = pair
    group = await _coordinated_by(here)
    requests = [
        list_offset_request(topic, -1),
        fetch_request(group, {topic: [0]}),
        named(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(group,)),
    ]
    here.postgres.lose_answers()

    # When it asks for what only Postgres knows, and behind that for the coordinator
    began_s = time.monotonic()
    async with await WireClient.connect(here.broker.bootstrap) as client:
        for request in requests:
            await client.send(encode_frame(request, 1))
        answers = [(await client.receive(request))[1] for request in requests]

    # Then all are answered once the leader knows that it is cut off, long before it gives up; but
    # the last after a pause
    assert time.monotonic() - began_s - CUT_OFF_PAUSE_S < SENT_AWAY_S
    offsets, committed, _ = answers
    assert offsets.topics[0].partitions[0].error_code == MOVED
    assert committed.groups[0].error_code == ErrorCode.coordinator_load_in_progress


async def test_while_postgres_is_away_for_all_there_is_one_leader_or_none(
    pair: Pair, topic: str
) -> None:
    # Given two brokers of which neither hears from Postgres
    here, there = pair
    told = {await _leader_and_epoch(one, topic) for one in pair}
    group = await _coordinated_by(there)
    for one in pair:
        one.postgres.lose_answers()
    async with asyncio.timeout(PATIENCE_S):
        while await _coordinator_code(there, group) == NONE:
            told |= {await _leader_and_epoch(one, topic) for one in pair}
            await asyncio.sleep(GLANCE_S)

    # When both have noticed it, and until both are back
    await leads(None, topic, by=here)
    told |= {await _leader_and_epoch(one, topic) for one in pair}
    for one in pair:
        one.postgres.cut()
    async with asyncio.timeout(PATIENCE_S):
        while await _leader(here, topic) is None or await _coordinator_code(there, group) != NONE:
            told |= {await _leader_and_epoch(one, topic) for one in pair}

    # Then no client has heard of two leaders in one epoch: librdkafka may stay with the wrong one
    (epoch,) = {epoch for _, epoch in told}
    assert told == {(here.broker.bootstrap, epoch), (None, epoch)}


@dataclass
class Stock:
    """A producer and a consumer on librdkafka that go on by themselves, each in a thread.

    Attributes:
        acknowledged, read: values, in order.
    """

    bootstrap: str
    topic: str
    acknowledged: list[bytes] = field(default_factory=list)
    read: list[bytes] = field(default_factory=list)
    failed: list[KafkaError] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    sent: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        number = 0
        while not self.stopping.is_set():
            producer.produce(self.topic, b"%d" % number, on_delivery=self._delivered)
            producer.poll(0.05)
            number += 1
        producer.flush(PATIENCE_S)
        self.sent.set()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.failed.append(error)

    def consume(self) -> None:
        config = {"bootstrap.servers": self.bootstrap, "group.id": "g", "enable.auto.commit": False}
        consumer = Consumer(config)
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        while not self.sent.is_set() or len(self.read) < len(self.acknowledged):
            message = consumer.poll(0.05)
            if message is not None and not message.error():
                self.read.append(message.value() or b"")
        consumer.close()

    async def goes_on(self, within_s: float) -> None:
        """Wait until both have gone on."""
        acknowledged, read = len(self.acknowledged), len(self.read)
        await becomes_true(lambda: len(self.acknowledged) > acknowledged + 5, within_s)
        await becomes_true(lambda: len(self.read) > max(read, acknowledged) + 5, within_s)


@pytest.fixture
async def stock(pair: Pair, topic: str) -> AsyncIterator[Stock]:
    """Return clients that have begun."""
    stock = Stock(",".join(one.broker.bootstrap for one in pair), topic)
    threads = [threading.Thread(target=work) for work in (stock.produce, stock.consume)]
    for thread in threads:
        thread.start()
    await stock.goes_on(PATIENCE_S)
    yield stock
    stock.stopping.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 2 * PATIENCE_S)
        assert not thread.is_alive()
    assert not stock.failed
    assert stock.read == [b"%d" % number for number in range(len(stock.acknowledged))]
    assert sorted(stock.acknowledged) == sorted(stock.read)


async def test_stock_clients_of_who_is_cut_off_go_on_elsewhere(pair: Pair, stock: Stock) -> None:
    here, _ = pair
    here.postgres.lose_answers()
    await stock.goes_on(GONE_ON_S)
    here.postgres.cut()
    await stock.goes_on(GONE_ON_S)


async def test_while_postgres_is_away_for_all_stock_clients_ask_now_and_then(
    pair: Pair, stock: Stock, topic: str
) -> None:
    # Given two brokers that are both cut off
    here, _ = pair
    await agreed(pair, topic)
    for one in pair:
        one.postgres.lose_answers()
    await leads(None, topic, by=here)

    # When their clients go on asking
    before, began_s = await requests(pair), time.monotonic()
    await asyncio.sleep(AWAY_S)

    # Then now and then
    asked = await requests(pair) - before
    took_s = time.monotonic() - began_s
    for one in pair:
        one.postgres.cut()
    assert asked < MOST_ASKED * took_s

    # And they go on once Postgres is back
    await stock.goes_on(GONE_ON_S)
