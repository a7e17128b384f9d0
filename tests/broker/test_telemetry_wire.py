"""GetTelemetrySubscriptions and PushTelemetry (KIP-714) of a real broker, byte by byte."""

import uuid
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from broker.telemetry.telemetry_wanted import kafka_text
from protocol.compression import Codec, compress
from tests.broker.test_http import get
from tests.support.broker import BrokerProcess
from tests.support.otlp import a_gauge, a_number, payload
from tests.support.wire import WireClient, request_entities

CLIENT_METRICS = 16
SET, DELETE = 0, 1
THROTTLING, UNKNOWN_SUBSCRIPTION, TOO_LARGE = 89, 117, 118
INVALID_REQUEST, UNSUPPORTED_COMPRESSION, INVALID_RECORD = 42, 76, 87
MAX_BYTES = 1_048_576


async def subscribe(wire: WireClient, name: str, operation: int = SET, **configs: str) -> None:
    module = request_entities(44, 1)
    resource = module.AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=tuple(
            module.AlterableConfig(
                name=key.replace("_", "."), config_operation=operation, value=value
            )
            for key, value in configs.items()
        ),
    )
    request = module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (response,) = (await wire.ask(request)).responses
    assert response.error_code == 0, response


async def say_software(wire: WireClient, name: str) -> None:
    module = request_entities(18, 3)
    request = module.ApiVersionsRequest(client_software_name=name, client_software_version="1.2.3")
    assert (await wire.ask(request)).error_code == 0


async def ask(wire: WireClient, instance_id: UUID | None = None) -> Any:
    module = request_entities(71, 0)
    return await wire.ask(module.GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))


async def push(wire: WireClient, wanted: Any, data: bytes, **fields: Any) -> int:
    """Push as `wanted` says, but for `fields`; return the error code."""
    module = request_entities(72, 0)
    values = {
        "client_instance_id": wanted.client_instance_id,
        "subscription_id": wanted.subscription_id,
        "terminating": False,
        "compression_type": int(Codec.NONE),
        "metrics": data,
        **fields,
    }
    return int((await wire.ask(module.PushTelemetryRequest(**values))).error_code)


@pytest.fixture
async def software(wire: WireClient) -> AsyncIterator[str]:
    """The name of a client's software that a subscription means, for all metrics, every minute."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await say_software(wire, name)
    await subscribe(
        wire, name, metrics="*", interval_ms="60000", match=f"client_software_name={name}"
    )
    yield name
    await subscribe(wire, name, DELETE, metrics="", interval_ms="", match="")


async def test_a_client_is_told_who_it_is_and_what_to_push(
    wire: WireClient, broker: BrokerProcess, software: str
) -> None:
    # When it asks for the first time, then it gets an id and what its subscription says
    wanted = await ask(wire)
    assert wanted.error_code == 0
    assert wanted.client_instance_id is not None
    assert wanted.requested_metrics == ("*",)
    assert wanted.push_interval.total_seconds() == 60
    assert wanted.accepted_compression_types == (4, 3, 1, 2)
    assert (wanted.telemetry_max_bytes, wanted.delta_temporality) == (MAX_BYTES, True)

    # When it pushes with each codec that it may use, as its last one, then /metrics has it
    for value, codec in enumerate(Codec):
        async with await WireClient.connect(broker.bootstrap) as other:
            await say_software(other, software)
            mine = await ask(other)
            data = compress(
                codec, payload(a_gauge("org.apache.kafka.test", a_number(float(value))))
            )
            fields = {"compression_type": int(codec), "terminating": True}
            assert await push(other, mine, data, **fields) == 0
        line = (
            f'org_apache_kafka_test{{client_id="test",'
            f'client_instance_id="{kafka_text(mine.client_instance_id)}",'
            f'client_software="{software} 1.2.3"}} {float(value)}'
        )
        assert line in get(broker, "/metrics").splitlines()


async def test_what_a_broker_refuses(wire: WireClient, software: str) -> None:
    data = payload(a_gauge("org.apache.kafka.test", a_number(1.0)))
    wanted = await ask(wire)
    for reserved in (None, UUID(int=1)):
        assert await push(wire, wanted, data, client_instance_id=reserved) == INVALID_REQUEST
    assert await push(wire, wanted, data, subscription_id=1) == UNKNOWN_SUBSCRIPTION
    assert await push(wire, wanted, data) == THROTTLING

    async def pushed(data: bytes, codec: int = Codec.NONE) -> int:
        """Push as a client of its own."""
        return await push(wire, await ask(wire), data, compression_type=int(codec))

    assert await pushed(data, codec=9) == UNSUPPORTED_COMPRESSION
    assert await pushed(bytes(MAX_BYTES + 1)) == TOO_LARGE
    assert await pushed(compress(Codec.ZSTD, bytes(64 * MAX_BYTES)), Codec.ZSTD) == TOO_LARGE
    assert await pushed(b"damaged", Codec.ZSTD) == INVALID_RECORD
    assert await pushed(data) == 0


async def test_a_client_that_nobody_asks_comes_back_in_five_minutes(wire: WireClient) -> None:
    wanted = await ask(wire)
    assert (wanted.requested_metrics, wanted.push_interval.total_seconds()) == ((), 300)
    assert (await ask(wire, wanted.client_instance_id)).error_code == THROTTLING
