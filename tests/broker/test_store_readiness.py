"""/health/ready and /metrics of a broker whose object store is not at its best."""

import json

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from broker.http.http_port import HttpServer
from storage.metrics import StoreCollector
from storage.objects.store_health import UNAVAILABLE_FAILURES, StoreState
from storage.objects.store_traffic import StoreTraffic


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (StoreState.OK, 200),
        (StoreState.SLOW, 200),
        (StoreState.THROTTLED, 200),
        (StoreState.UNAVAILABLE, 503),
    ],
)
async def test_only_an_unavailable_store_makes_a_broker_not_ready(
    state: StoreState, status: int
) -> None:
    # Given a broker whose store is in this state
    traffic = StoreTraffic()
    match state:
        case StoreState.SLOW:
            traffic.health.failed("GET")
        case StoreState.THROTTLED:
            traffic.health.throttled("GET")
        case StoreState.UNAVAILABLE:
            for _ in range(UNAVAILABLE_FAILURES):
                traffic.health.failed("GET")
        case StoreState.OK:
            pass

    async def check() -> StoreState:
        return traffic.health.state

    registry = CollectorRegistry()
    registry.register(StoreCollector(traffic))
    server = HttpServer(registry, {"object store": check})
    server.serving = True
    port = await server.listen("127.0.0.1", 0)

    # When a probe and Prometheus ask
    async with ClientSession(f"http://127.0.0.1:{port}") as client:
        async with client.get("/health/ready") as answer:
            ready, found = answer.status, json.loads(await answer.read())
        async with client.get("/metrics") as answer:
            metrics = (await answer.read()).decode()
    await server.close()

    # Then both are told the state, and only the last one is not ready
    assert ready == status
    assert found["checks"]["object store"] == state
    samples = {
        sample.labels["state"]: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "streamhouse_store_health"
    }
    assert samples == {one: float(one is state) for one in StoreState}
