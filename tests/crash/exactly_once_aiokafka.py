"""A processor on aiokafka; its argument is ProcessorSettings as JSON.

aiokafka sends no group metadata (KIP-447). So there is one producer, and one transactional id, for
each partition that is read: who gets a partition fences the producer of who had it, and only then
looks how far that had come.
"""

import asyncio
import sys
import uuid
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaConnectionError, KafkaError

from tests.crash.cluster_member import Page
from tests.crash.exactly_once_settings import (
    ABORT,
    BATCH,
    CALL_S,
    HEARTBEAT_MS,
    MARK,
    POLL_S,
    REQUEST_TIMEOUT_MS,
    SESSION_MS,
    TRANSACTION_TIMEOUT_MS,
    ProcessorSettings,
    fate_of,
    mark,
    target_partition,
)
from tests.groups.telling import stopping

RETRY_BACKOFF_MS: Final = 50


class Processor(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reads, copies and commits until it is told to stop."""

    def __init__(self, settings: ProcessorSettings, page: Page) -> None:
        self._settings = settings
        self._page = page
        life = uuid.uuid4().hex[:8]
        self._transactions = ((f"{settings.name}-{life}-{at}", fate_of(at)) for at in count())
        self._producers: dict[TopicPartition, AIOKafkaProducer] = {}
        # rebalances run beside the loop that copies: partitions go between two transactions
        self._working = asyncio.Lock()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.name,
            group_id=settings.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=2 * SESSION_MS,  # to join waits for those that are gone
            retry_backoff_ms=RETRY_BACKOFF_MS,
            fetch_max_wait_ms=100,
        )

    async def run(self) -> None:
        stop = stopping()
        self._consumer.subscribe([self._settings.source], listener=self)
        await self._start()
        while not stop.is_set():
            await self._work()
        await self._give_all_up()
        await self._consumer.stop()

    async def _start(self) -> None:
        while True:
            try:
                await self._consumer.start()
            except KafkaConnectionError as failure:  # all brokers are away
                self._page.write("failed", reason=repr(failure))
                await asyncio.sleep(POLL_S)
            else:
                return

    async def _work(self) -> None:
        # not with the lock held: once a rebalance has begun, this waits until it has ended, and its
        # end waits for the lock
        read = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
        async with self._working:
            for place, records in read.items():
                if place not in self._producers:  # revoked meanwhile, perhaps
                    await self._begin(place)  # and read again, from what is committed
                else:
                    await self._process(place, records)

    async def on_partitions_revoked(self, _revoked: Iterable[TopicPartition]) -> None:
        await self._give_all_up()

    async def on_partitions_assigned(self, _assigned: Iterable[TopicPartition]) -> None:
        """Do nothing: a partition is begun with when there is something to read."""

    async def _begin(self, place: TopicPartition) -> None:
        """Take a partition over: from now on, nobody else commits its offsets."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap,
            client_id=self._settings.name,
            transactional_id=f"{self._settings.group}-{place.partition}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=5,
        )
        self._producers[place] = producer
        try:
            await producer.start()
            await self._rewind(place)
        except (KafkaError, IllegalStateError) as failure:
            self._page.write("failed", reason=repr(failure))
            await self._give_up(place)

    async def _give_all_up(self) -> None:
        async with self._working:
            for place in list(self._producers):
                await self._give_up(place)

    async def _give_up(self, place: TopicPartition) -> None:
        """Close a producer, whatever state it is in; an open transaction is left to the next."""
        producer = self._producers.pop(place)
        try:
            async with asyncio.timeout(CALL_S):
                await producer.stop()
        except (KafkaError, TimeoutError):  # it does not go on to this, then
            await producer.client.close()

    async def _rewind(self, place: TopicPartition) -> None:
        """Go back to what is committed."""
        self._consumer.seek(place, await self._consumer.committed(place) or 0)

    async def _process(self, place: TopicPartition, records: Sequence[Any]) -> None:
        transaction, fate = next(self._transactions)
        try:
            await self._transact(transaction, fate, place, records)
        except (KafkaError, IllegalStateError) as failure:
            self._page.write("failed", reason=repr(failure))
            await self._give_up(place)

    async def _transact(
        self, transaction: str, fate: str, place: TopicPartition, records: Sequence[Any]
    ) -> None:
        producer = self._producers[place]
        header = [(MARK, mark(fate, transaction, len(records)))]
        await producer.begin_transaction()
        sent = [
            await producer.send(
                self._settings.target,
                record.value,
                record.key,
                partition=target_partition(int(record.value)),
                headers=header,
            )
            for record in records
        ]
        for outcome in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(outcome, BaseException):  # a commit would not tell
                raise outcome
        if fate == ABORT:
            await producer.abort_transaction()
            self._page.write("aborted", transaction=transaction, reason="")
            await self._rewind(place)
            return
        offsets = {place: records[-1].offset + 1}
        await producer.send_offsets_to_transaction(offsets, self._settings.group)
        await producer.commit_transaction()
        self._page.write("committed", transaction=transaction, records=len(records))


async def run(settings: ProcessorSettings, page: Page) -> None:
    await Processor(settings, page).run()  # a consumer is made inside the loop that it runs in


if __name__ == "__main__":
    chosen = ProcessorSettings.from_json(sys.argv[1])
    with Path(chosen.page).open("a") as output:
        asyncio.run(run(chosen, Page(output)))
