"""aiokafka, the asyncio client, driven from plain functions."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from tests.clients.records import ConsumedRecord, SentRecord

SILENCE_TIMEOUT_S = 90.0
PRODUCE_TIMEOUT_S = 180.0
DEBUG = False  # a foreign client: where it makes each of its futures is not for us to note

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aiokafka:
    """The client, pointed at one cluster.

    Attributes:
        bootstrap: HOST:PORT.
    """

    bootstrap: str

    def produce(self, topic: str, records: Iterable[SentRecord], *, codec: str = "none") -> None:
        """Send records with idempotence and acks=all; every one must be acknowledged."""
        _run(self._produce(topic, records, codec))

    def consume(self, topic: str) -> list[ConsumedRecord]:
        """Read all partitions from the beginning to their ends, without a group."""
        return _run(self._consume(topic))

    async def _produce(self, topic: str, records: Iterable[SentRecord], codec: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            max_batch_size=256 * 1024,
            linger_ms=20,
        )
        async with asyncio.timeout(PRODUCE_TIMEOUT_S), producer:
            acknowledgements = [
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            await asyncio.gather(*acknowledgements)

    async def _consume(self, topic: str) -> list[ConsumedRecord]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        records: list[ConsumedRecord] = []
        async with consumer:
            await consumer._client.force_metadata_update()
            numbers = sorted(consumer._client.cluster.partitions_for_topic(topic) or ())
            partitions = [TopicPartition(topic, number) for number in numbers]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            unfinished = {partition for partition in partitions if ends[partition] > 0}
            while unfinished:
                async with asyncio.timeout(SILENCE_TIMEOUT_S):
                    fetched = await consumer.getmany(*unfinished, timeout_ms=1_000)
                for partition, members in fetched.items():
                    records += map(record_of_aiokafka, members)
                    if members[-1].offset >= ends[partition] - 1:
                        unfinished.discard(partition)
        return records


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it, and end the connections that the client forgets.

    It closes what it has; a connection that it was making when it was stopped is nobody's, and
    would be a failure of the test in which the garbage collector finds it.
    """
    with asyncio.Runner(debug=DEBUG) as runner:
        try:
            return runner.run(work)
        finally:
            for transport in list(getattr(runner.get_loop(), "_transports").values()):  # noqa: B009
                transport.abort()


def record_of_aiokafka(record: "ConsumerRecord[bytes, bytes]") -> ConsumedRecord:
    return ConsumedRecord(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )
