"""Transactional producers for the trials of delayed_end.py: two that speak the wire protocol.

One is a client of KIP-890: the broker adds partitions as they are produced to, and every end gives
the producer another epoch. The other is one from before: it adds partitions itself, and keeps its
epoch until it is started again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.support.wire import (
    ConnectionEnded,
    WireClient,
    milliseconds,
    produce_request,
    request_entities,
)

PRODUCE: Final = 0
FIND_COORDINATOR: Final = 10
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26
TRANSACTIONAL: Final = 0x10
TRANSACTION_KEY: Final = 1
TIMEOUT_MS: Final = 60_000
PATIENCE_S: Final = 60.0
AGAIN_S: Final = 0.002
NOT_YET: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,  # as the next, right after it was made
        ErrorCode.not_leader_or_follower,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,  # the one before is still being written down
    }
)


class Refused(Exception):
    """The broker said no, or the library did: what became of the transaction is not known."""


class Producer(Protocol):
    """A transactional producer; every call returns when the broker has answered.

    Every call but the last two raises Refused.
    """

    async def start(self) -> None: ...

    async def begin(self) -> None: ...

    async def send(self, partition: int, value: str) -> None: ...

    async def end(self, *, committed: bool) -> None:
        """End the transaction; try again if the connection is lost."""

    async def give_up(self) -> None:
        """Stop waiting for an answer, and try again: what request.timeout.ms does."""

    async def crash(self) -> None:
        """Be gone without a word."""


class WireProducer:
    """See Producer; `begin` needs no request.

    Args:
        bumps_epoch: as a client of KIP-890 does.
    """

    def __init__(
        self, bootstrap: str, transactional_id: str, topic: str, *, bumps_epoch: bool
    ) -> None:
        self._bootstrap = bootstrap
        self._transactional_id = transactional_id
        self._topic = topic
        self._bumps_epoch = bumps_epoch
        self._client: WireClient | None = None
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[int, int] = {}
        self._added: set[int] = set()

    async def start(self) -> None:
        coordinator = request_entities(FIND_COORDINATOR, 4).FindCoordinatorRequest(
            key_type=TRANSACTION_KEY, coordinator_keys=(self._transactional_id,)
        )
        await self._ask(coordinator, lambda answer: answer.coordinators[0].error_code)
        answer = await self._ask(
            request_entities(INIT_PRODUCER_ID, 4).InitProducerIdRequest(
                transactional_id=self._transactional_id,
                transaction_timeout=milliseconds(TIMEOUT_MS),
                producer_id=-1,
                producer_epoch=-1,
            )
        )
        self._become(answer)

    async def begin(self) -> None:
        self._added.clear()

    async def send(self, partition: int, value: str) -> None:
        if not self._bumps_epoch and partition not in self._added:
            await self._add(partition)
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            [Record(offset_delta=0, value=value.encode())],
            attributes=TRANSACTIONAL,
            base_timestamp_ms=time.time_ns() // 10**6,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        request = produce_request(
            self._topic,
            batch,
            partition=partition,
            version=12 if self._bumps_epoch else 11,
            transactional_id=self._transactional_id,
        )
        await self._ask(
            request, lambda answer: answer.responses[0].partition_responses[0].error_code
        )
        self._sequences[partition] = sequence + 1

    async def end(self, *, committed: bool) -> None:
        request = request_entities(END_TXN, 5 if self._bumps_epoch else 3).EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        answer = await self._ask(request)
        if self._bumps_epoch:
            self._become(answer)

    async def give_up(self) -> None:
        if self._client is not None:
            await self._client.__aexit__()

    async def crash(self) -> None:
        await self.give_up()

    async def _add(self, partition: int) -> None:
        module = request_entities(ADD_PARTITIONS_TO_TXN, 3)
        topic = module.AddPartitionsToTxnTopic(name=self._topic, partitions=(partition,))
        request = module.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=(topic,),
        )

        def code_of(answer: Any) -> ErrorCode:
            (of_topic,) = answer.results_by_topic_v3_and_below
            code: ErrorCode = of_topic.results_by_partition[0].partition_error_code
            return code

        await self._ask(request, code_of)
        self._added.add(partition)

    def _become(self, answer: Any) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    async def _ask(
        self, request: Any, code_of: Callable[[Any], ErrorCode] = lambda answer: answer.error_code
    ) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._client is None:
                    self._client = await WireClient.connect(self._bootstrap)
                answer = await self._client.ask(request)
            except ConnectionEnded:
                self._client = None
                continue
            code = code_of(answer)
            if code is ErrorCode.none:
                return answer
            if code not in NOT_YET or time.monotonic() > deadline_s:
                raise Refused(f"{type(request).__name__}: {code.name}")
            await asyncio.sleep(AGAIN_S)
