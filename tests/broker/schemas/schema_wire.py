"""Topics that take only values with schemas, records that name one, and a registry that has it."""

import asyncio
import itertools
import time
from urllib.request import urlopen

from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.fake_registry import FakeRegistry
from tests.support.wire import WireClient

INVALID, REFUSED = ErrorCode.invalid_record, ErrorCode.not_enough_replicas
LATEST = -1
DEADLINE_S = 20.0
TIMEOUT_MS = 3000
ids = itertools.count(1)


async def given_topic(
    wire: WireClient, name: str, *, partitions: int = 1, strategy: str = "TopicNameStrategy"
) -> None:
    """Create a topic whose values must have schemas."""
    await wire.create_topic(
        name,
        partitions,
        confluent_value_schema_validation="true",
        confluent_value_subject_name_strategy=strategy,
    )


async def metrics(broker: BrokerProcess) -> str:
    def read() -> str:
        with urlopen(f"http://{broker.http}/metrics") as response:
            text: str = response.read().decode()
            return text

    return await asyncio.to_thread(read)


def settings(url: str, *more: str) -> list[str]:
    """Return flags of a broker with a registry that is not waited for long."""
    timeout = f"confluent.schema.registry.request.timeout.ms={TIMEOUT_MS}"
    pairs = (f"confluent.schema.registry.url={url}", timeout, *more)
    return [word for pair in pairs for word in ("--set", pair)]


def new_schema(registry: FakeRegistry, *subjects: str, schema: str = "{}") -> int:
    registry.register(schema_id := next(ids), *subjects, schema=schema)
    return schema_id


def prefixed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + b"object"


def batch(*values: bytes | None, key: bytes | None = None, codec: int = 0) -> bytes:
    records = [Record(offset_delta=at, key=key, value=one) for at, one in enumerate(values)]
    return build_batch(records, attributes=codec, base_timestamp_ms=time.time_ns() // 1_000_000)


async def code(wire: WireClient, topic: str, *values: bytes | None, codec: int = 0) -> ErrorCode:
    answer = await wire.produce(topic, batch(*values, codec=codec))
    found: ErrorCode = answer.error_code
    return found


async def until_code(wire: WireClient, topic: str, wanted: ErrorCode, schema_id: int) -> None:
    """Produce with a schema until that is the answer."""
    async with asyncio.timeout(DEADLINE_S):
        while await code(wire, topic, prefixed(schema_id)) != wanted:
            await asyncio.sleep(0.05)


async def end_offset(wire: WireClient, topic: str) -> int:
    offset: int = (await wire.list_offset(topic, LATEST)).offset
    return offset
