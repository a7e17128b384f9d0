"""Requests of transactional producers with plain values, in any version; a producer made of them.

Nothing is retried and nothing is hidden: each step answers with the error code that came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from protocol.batch import TRANSACTIONAL_BIT, batch_extents, read_header
from protocol.control_batch import read_end_marker
from protocol.records import Record, build_batch, decode_records
from tests.support.wire import WireClient, build, fetch_request, milliseconds, produce_request
from tests.support.wire import request_entities as entities

INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27

READ_COMMITTED: Final = 1
COMMIT: Final = "commit"
ABORT: Final = "abort"

LogEntry = tuple[int, bytes | str]
"""An offset, and the value of the record there, or COMMIT or ABORT."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a request says to come from."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_request(
    transactional_id: str | None,
    *,
    timeout_ms: int = 60_000,
    producer_id: int = -1,
    epoch: int = -1,
    version: int = 5,
) -> Any:
    return build(
        entities(INIT_PRODUCER_ID, version),
        "InitProducerIdRequest",
        transactional_id=transactional_id,
        transaction_timeout=milliseconds(timeout_ms),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add_partitions_request(
    who: Identity, topics: Mapping[str, Sequence[int]], *, version: int = 3
) -> Any:
    """Return a request as clients send it."""
    module = entities(ADD_PARTITIONS_TO_TXN, version)
    return module.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who.transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=_txn_topics(module, topics),
    )


def add_several_request(
    *transactions: tuple[Identity, Mapping[str, Sequence[int]]],
    verify_only: bool = False,
    version: int = 5,
) -> Any:
    """Return a request as brokers send it (v4 or later)."""
    module = entities(ADD_PARTITIONS_TO_TXN, version)
    return module.AddPartitionsToTxnRequest(
        transactions=tuple(
            module.AddPartitionsToTxnTransaction(
                transactional_id=who.transactional_id,
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                verify_only=verify_only,
                topics=_txn_topics(module, topics),
            )
            for who, topics in transactions
        )
    )


def _txn_topics(module: Any, topics: Mapping[str, Sequence[int]]) -> tuple[Any, ...]:
    return tuple(
        module.AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


def added(topic_results: Any) -> dict[tuple[str, int], ErrorCode]:
    """Return the error code of each partition, by topic and partition."""
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in topic_results
        for one in topic.results_by_partition
    }


def add_offsets_request(who: Identity, group: str, *, version: int = 4) -> Any:
    return entities(ADD_OFFSETS_TO_TXN, version).AddOffsetsToTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=group,
    )


def end_request(who: Identity, *, committed: bool, version: int = 5) -> Any:
    return entities(END_TXN, version).EndTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        committed=committed,
    )


def markers_request(
    producer_id: int,
    epoch: int,
    topics: Mapping[str, Sequence[int]],
    *,
    committed: bool = False,
    version: int = 2,
) -> Any:
    module = entities(WRITE_TXN_MARKERS, version)
    marker = build(
        module,
        "WritableTxnMarker",
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=tuple(
            module.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(partitions))
            for name, partitions in topics.items()
        ),
        coordinator_epoch=0,
        transaction_version=0,
    )
    return module.WriteTxnMarkersRequest(markers=(marker,))


def marked(response: Any) -> dict[tuple[str, int], ErrorCode]:
    """Return what answers each partition of the only marker."""
    (marker,) = response.markers
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in marker.topics
        for one in topic.partitions
    }


@dataclass(slots=True)
class TransactionalProducer:
    """A producer that does what it is told, and remembers only what a client has to.

    Attributes:
        transaction_version: 1 adds partitions before it writes to them; 2 (KIP-890) does not, and
            gets a new epoch from every end.
    """

    wire: WireClient
    transactional_id: str
    transaction_version: int = 2
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        return Identity(self.transactional_id, self.producer_id, self.epoch)

    async def init(self, *, as_new: bool = False) -> ErrorCode:
        """Get an epoch; a producer that has one names it (KIP-360), unless it starts `as_new`."""
        known = {} if as_new else {"producer_id": self.producer_id, "epoch": self.epoch}
        request = init_request(self.transactional_id, timeout_ms=self.timeout_ms, **known)
        response = await self.wire.ask(request)
        if response.error_code is ErrorCode.none:
            self._become(response)
        return ErrorCode(response.error_code)

    async def add(self, topic: str, *partitions: int) -> ErrorCode:
        """Add partitions that all get the same answer; return that."""
        request = add_partitions_request(self.identity, {topic: partitions})
        response = await self.wire.ask(request)
        (code,) = set(added(response.results_by_topic_v3_and_below).values())
        return code

    async def add_group(self, group: str) -> ErrorCode:
        response = await self.wire.ask(add_offsets_request(self.identity, group))
        return ErrorCode(response.error_code)

    async def produce(self, topic: str, *values: bytes, partition: int = 0) -> Any:
        """Write one batch; return the partition's part of the response."""
        sequence = self.sequences.get((topic, partition), 0)
        response = await self.wire.ask(self.produce_request(topic, *values, partition=partition))
        answer = response.responses[0].partition_responses[0]
        if answer.error_code is ErrorCode.none:
            self.sequences[topic, partition] = sequence + len(values)
        return answer

    def produce_request(self, topic: str, *values: bytes, partition: int = 0) -> Any:
        batch = build_batch(
            [Record(offset_delta=at, value=value) for at, value in enumerate(values)],
            attributes=TRANSACTIONAL_BIT,
            base_timestamp_ms=1,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
        )
        return produce_request(
            topic,
            batch,
            partition=partition,
            version=12 if self.transaction_version == 2 else 11,
            transactional_id=self.transactional_id,
        )

    async def end(self, *, committed: bool) -> ErrorCode:
        response = await self.wire.ask(self.end_request(committed=committed))
        if self.transaction_version == 2 and response.error_code is ErrorCode.none:
            self._become(response)
        return ErrorCode(response.error_code)

    def end_request(self, *, committed: bool) -> Any:
        version = 5 if self.transaction_version == 2 else 4
        return end_request(self.identity, committed=committed, version=version)

    def _become(self, response: Any) -> None:
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequences.clear()


async def fetch(
    wire: WireClient,
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    committed: bool = False,
    max_wait_ms: int = 100,
) -> Any:
    """Return the partition's part of the answer to a fetch, of committed records only or of all."""
    request = fetch_request([(topic, partition, offset)], max_wait_ms=max_wait_ms)
    if committed:
        request = replace(request, isolation_level=i8(READ_COMMITTED))
    return (await wire.ask(request)).responses[0].partitions[0]


async def read_log(wire: WireClient, topic: str, *, partition: int = 0) -> list[LogEntry]:
    """Return all that is in a partition, markers too."""
    return entries(await fetch(wire, topic, partition=partition))


def entries(fetched: Any) -> list[LogEntry]:
    """Return all records of a fetched partition, markers too."""
    data, found = memoryview(fetched.records or b""), list[LogEntry]()
    for start, size, _ in batch_extents(data):
        batch, header = data[start : start + size], read_header(data, start)
        if header.is_control:
            committed = read_end_marker(batch).committed
            found.append((header.base_offset, COMMIT if committed else ABORT))
            continue
        payload = batch[61:]
        found += [
            (header.base_offset + record.offset_delta, record.value or b"")
            for record in decode_records(payload, header.record_count)
        ]
    return found
