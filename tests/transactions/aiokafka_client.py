"""aiokafka, on an event loop in a thread of its own. It knows no group metadata (KIP-447)."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from threading import Thread
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.transactions.client import CALL_S, FETCH_WAIT_MS, TIMEOUT_MS, Fenced, Member, Read

POLL_MS: Final = 50
SESSION_MS: Final = 45_000
T = TypeVar("T")


class Loop:
    """An event loop that runs all the time, so that clients do what they do in the background."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="aiokafka")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaMember:
    """A consumer of a group."""

    def __init__(self, loop: Loop, group: str, consumer: AIOKafkaConsumer) -> None:
        self.group = group
        self._loop = loop
        self._consumer = consumer

    def leave(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaWriter:
    """A transactional producer."""

    def __init__(self, loop: Loop, producer: AIOKafkaProducer) -> None:
        self._loop = loop
        self._producer = producer

    def init(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        self._run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        sent = [
            await self._producer.send(topic, value.encode(), partition=partition)
            for partition, value in records
        ]
        await asyncio.gather(*sent)

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: Member) -> None:
        assert isinstance(member, AiokafkaMember)
        places = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(places, member.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._close())

    async def _close(self) -> None:
        try:
            await self._producer.stop()
        except ProducerFenced:  # with which its sender has ended, and so it does not go on to this
            await self._producer.client.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._loop.run(work)
        except ProducerFenced as fenced:
            raise Fenced(str(fenced)) from fenced


class AiokafkaLibrary:
    """aiokafka."""

    name = "aiokafka"
    tells_group_metadata = False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = Loop()

    def writer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> AiokafkaWriter:
        async def make() -> AIOKafkaProducer:
            return AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                linger_ms=5,
            )

        return AiokafkaWriter(self._loop, self._loop.run(make()))

    def member(self, group: str, topic: str, record_count: int) -> AiokafkaMember:
        async def make() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=self._bootstrap,
                group_id=group,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                session_timeout_ms=SESSION_MS,
            )
            await consumer.start()
            for _ in range(record_count):
                await consumer.getone()
            return consumer

        return AiokafkaMember(self._loop, group, self._loop.run(make()))

    def read(self, topic: str, *, committed: bool = True) -> list[Read]:
        return self._loop.run(self._read(topic, committed))

    async def _read(self, topic: str, committed: bool) -> list[Read]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level=level,
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        found = []
        async with consumer:
            await consumer._client.force_metadata_update()
            numbers = sorted(consumer._client.cluster.partitions_for_topic(topic) or ())
            assert numbers, f"{topic} is not known"
            places = [TopicPartition(topic, number) for number in numbers]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            # by isolation level
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                fetched = await consumer.getmany(timeout_ms=POLL_MS)
                found += [
                    Read(place.partition, record.offset, record.value.decode())
                    for place, records in fetched.items()
                    for record in records
                    if record.offset < ends[place]
                ]
        return found

    def end(self) -> None:
        self._loop.end()
