"""A client that speaks the wire protocol itself: any request, good or bad, byte by byte.

It encodes and decodes with the generic codec (kio), not with the broker's own.
"""

import asyncio
import datetime as dt
import io
import ssl
import struct
from collections.abc import Sequence
from typing import Any, Self
from uuid import UUID

from kio.index import load_payload_module, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

API_VERSIONS = 18
TIMEOUT_S = 45.0
"""Less than the minute that tests let requests wait: what is to end sooner must not end by that."""


class ConnectionEnded(Exception):
    """The broker closed the connection instead of answering."""


def milliseconds(value: int) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(milliseconds=value))


def request_entities(api_key: int, version: int) -> Any:
    """Return the module with the request classes of that version."""
    return load_payload_module(api_key, version, EntityType.request)


def build(module: Any, entity_name: str, /, **values: object) -> Any:
    """Make an entity, leaving out fields that its version lacks."""
    entity = getattr(module, entity_name)
    return entity(**{key: v for key, v in values.items() if key in entity.__dataclass_fields__})


def encode_frame(request: Any, correlation_id: int, client_id: bytes | None = b"test") -> bytes:
    """Return a whole request frame, size included."""
    body = io.BytesIO()
    length = -1 if client_id is None else len(client_id)
    body.write(
        struct.pack(">hhih", request.__api_key__, request.__version__, correlation_id, length)
    )
    body.write(client_id or b"")
    if request.__flexible__:
        body.write(b"\0")
    entity_writer(type(request))(body, request)
    return struct.pack(">i", body.tell()) + body.getvalue()


class WireClient:
    """One connection to a broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(
        cls,
        bootstrap: str,
        *,
        local_host: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect, from that address of this machine and with TLS if they are given."""
        host, _, port = bootstrap.rpartition(":")
        here = None if local_host is None else (local_host, 0)
        return cls(*await asyncio.open_connection(host, int(port), local_addr=here, ssl=tls))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return  # the broker was faster

    async def ask(self, request: Any) -> Any:
        """Send a request and return its response."""
        self._correlation_id += 1
        await self.send(encode_frame(request, self._correlation_id))
        correlation_id, response = await self.receive(request)
        assert correlation_id == self._correlation_id
        return response

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise ConnectionEnded from error

    async def receive(self, request: Any) -> tuple[int, Any]:
        """Return correlation id and response of the next frame, to the last byte."""
        frame = await self.receive_frame()
        kind: Any = load_response_schema(request.__api_key__, request.__version__)
        start = 5 if kind.__flexible__ and kind.__api_key__ != API_VERSIONS else 4
        response, size = entity_reader(kind)(frame, start)
        assert start + size == len(frame), "bytes are left over"
        return int.from_bytes(frame[:4]), response

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                size = int.from_bytes(await self._reader.readexactly(4))
                return await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise ConnectionEnded from error

    async def ended(self) -> bool:
        """Wait for the end of the connection; false if an answer comes first."""
        try:
            await self.receive_frame()
        except ConnectionEnded:
            return True
        return False

    # --- the requests that most tests need

    async def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, **configs: str
    ) -> None:
        module = request_entities(19, 7)
        request = module.CreateTopicsRequest(
            topics=(
                module.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=(),
                    configs=tuple(
                        module.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ),
                ),
            ),
            timeout=milliseconds(10_000),
            validate_only=False,
        )
        (result,) = (await self.ask(request)).topics
        assert result.error_code == 0, result

    async def describe(self, topic: str) -> Any:
        """Return the answer to Metadata."""
        module = request_entities(3, 12)
        return await self.ask(
            module.MetadataRequest(
                topics=(module.MetadataRequestTopic(topic_id=None, name=topic),),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )

    async def topic_id(self, name: str) -> UUID:
        module = request_entities(3, 12)
        response = await self.ask(
            module.MetadataRequest(
                topics=(module.MetadataRequestTopic(topic_id=None, name=name),),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )
        found: UUID = response.topics[0].topic_id
        return found

    async def produce(
        self,
        topic: str,
        batch: bytes | None,
        *,
        partition: int = 0,
        version: int = 9,
        acks: int = -1,
    ) -> Any:
        """Return the partition's part of the response (None for acks=0)."""
        request = produce_request(topic, batch, partition=partition, version=version, acks=acks)
        if acks == 0:
            await self.send(encode_frame(request, 0))
            return None
        return (await self.ask(request)).responses[0].partition_responses[0]

    async def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = 12,
        max_wait_ms: int = 100,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> Any:
        """Return the partition's part of the response."""
        request = fetch_request(
            [(topic, partition, offset)],
            version=version,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            leader_epoch=leader_epoch,
        )
        return (await self.ask(request)).responses[0].partitions[0]

    async def list_offset(self, topic: str, timestamp: int, *, version: int = 7) -> Any:
        """Return the first partition's part of the response."""
        request = list_offset_request(topic, timestamp, version=version)
        return (await self.ask(request)).topics[0].partitions[0]


def list_offset_request(topic: str, timestamp: int, *, version: int = 7) -> Any:
    module = request_entities(2, version)
    partition = build(
        module,
        "ListOffsetsPartition",
        partition_index=0,
        current_leader_epoch=-1,
        timestamp=timestamp,
    )
    return build(
        module,
        "ListOffsetsRequest",
        replica_id=-1,
        isolation_level=0,
        topics=(module.ListOffsetsTopic(name=topic, partitions=(partition,)),),
        timeout=milliseconds(1000),
    )


def produce_request(
    topic: str | UUID,
    batch: bytes | None,
    *,
    partition: int = 0,
    version: int = 9,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> Any:
    module = request_entities(0, version)
    data = build(
        module,
        "TopicProduceData",
        name=topic,
        topic_id=topic,
        partition_data=(module.PartitionProduceData(index=partition, records=batch),),
    )
    return build(
        module,
        "ProduceRequest",
        transactional_id=transactional_id,
        acks=acks,
        timeout=milliseconds(timeout_ms),
        topic_data=(data,),
    )


def fetch_request(
    wanted: list[tuple[str | UUID, int, int]],
    *,
    version: int = 12,
    max_wait_ms: int = 100,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: Sequence[tuple[str | UUID, int]] = (),
    rack: str = "",
) -> Any:
    module = request_entities(1, version)
    topics = tuple(
        build(
            module,
            "FetchTopic",
            topic=topic,
            topic_id=topic,
            partitions=(
                build(
                    module,
                    "FetchPartition",
                    partition=partition,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=partition_max_bytes,
                ),
            ),
        )
        for topic, partition, offset in wanted
    )
    return build(
        module,
        "FetchRequest",
        replica_id=-1,
        max_wait=milliseconds(max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=tuple(
            build(module, "ForgottenTopic", topic=topic, topic_id=topic, partitions=(partition,))
            for topic, partition in forgotten
        ),
        rack_id=rack,
    )


def leader_of(described: Any) -> str | None:
    """Return the address of the first partition's leader; None as long as the broker has none."""
    partitions = described.topics[0].partitions
    leaders = [
        one for one in described.brokers if partitions and one.node_id == partitions[0].leader_id
    ]
    return f"{leaders[0].host}:{leaders[0].port}" if leaders else None
