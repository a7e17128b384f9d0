"""aiokafka, the asyncio client, driven from plain functions."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from tests.clients.records import ConsumedRecord, SentRecord

SILENCE_TIMEOUT_S = 30.0
PRODUCE_TIMEOUT_S = 60.0
DEBUG = False  # a foreign client: where it makes each of its futures is not for us to note


@dataclass(frozen=True, slots=True, kw_only=True)
class Aiokafka:
    """The client, pointed at one cluster.

    Attributes:
        bootstrap: HOST:PORT.
    """

    bootstrap: str

    def produce(self, topic: str, records: Iterable[SentRecord], *, codec: str = "none") -> None:
        """Send records with idempotence and acks=all; every one must be acknowledged."""
        asyncio.run(self._produce(topic, records, codec), debug=DEBUG)

    def consume(self, topic: str) -> list[ConsumedRecord]:
        """Read all partitions from the beginning to their ends, without a group."""
        return asyncio.run(self._consume(topic), debug=DEBUG)

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


def record_of_aiokafka(record: "ConsumerRecord[bytes, bytes]") -> ConsumedRecord:
    return ConsumedRecord(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )
