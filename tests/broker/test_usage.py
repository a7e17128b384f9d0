"""GET /usage of a real broker: what clients did over the wire, and who is charged."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from aiohttp.test_utils import make_mocked_request

from broker.http.usage_page import UsagePage
from protocol.records import Record, build_batch
from storage.errors import MetadataUnavailable
from storage.metadata.usage import NO_TOPIC, StoredBytes, UsageCounts, UsageRow
from storage.usage_counter import UsageCounter
from tests.support.broker import BrokerProcess, start_broker
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.wire import WireClient

BATCH = build_batch([Record(offset_delta=at, value=b"v" * 1000) for at in range(10)])
NOW_MS = 1000
CLIENT = "test"  # tests/support/wire.py


def usage(broker: BrokerProcess, **asked: object) -> Any:
    with urlopen(f"http://{broker.http}/usage?{urlencode(asked)}", timeout=60) as response:
        return json.load(response)


def lines(broker: BrokerProcess, by: str) -> dict[str, Any]:
    return {line["key"]: line for line in usage(broker, by=by)["usage"]}


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that reads everything from the object store."""
    environment = {**os.environ, "STREAMHOUSE_CACHE__TAIL_BYTES": "0"}
    broker = start_broker(tmp_path / "data", environment=environment)
    yield broker
    broker.stop()


async def test_topics_and_clients_are_charged_for_what_they_do(forgetful: BrokerProcess) -> None:
    # Given a client that produces to two topics, to one of them twice, and reads it
    async with await WireClient.connect(forgetful.bootstrap) as wire:
        for topic in ("orders", "clicks"):
            await wire.create_topic(topic)
        for topic in ("orders", "clicks", "orders"):
            await wire.produce(topic, BATCH)
        fetched = await wire.fetch("orders", 0)
        assert len(fetched.records) == 2 * len(BATCH)

    # When usage is asked for
    by_topic, by_client = lines(forgetful, "topic"), lines(forgetful, "client")
    stored = usage(forgetful)["stored"]

    # Then each topic has its bytes and its requests, and the client has all of them
    orders, clicks, client = by_topic["orders"], by_topic["clicks"], by_client[CLIENT]
    assert (orders["produced_bytes"], clicks["produced_bytes"]) == (2 * len(BATCH), len(BATCH))
    assert (orders["fetched_bytes"], clicks["fetched_bytes"]) == (2 * len(BATCH), 0)
    assert orders["puts"] + clicks["puts"] == client["puts"] == 3
    assert orders["put_bytes"] + clicks["put_bytes"] == client["put_bytes"] > 3 * len(BATCH)
    assert orders["gets"] == client["gets"] >= 1
    assert orders["get_bytes"] == client["get_bytes"] >= 2 * len(BATCH)
    assert clicks["gets"] == 0
    assert stored["topics"] == {"orders": 2 * len(BATCH), "clicks": len(BATCH)}
    assert stored["total"] >= client["put_bytes"]


async def test_what_was_counted_outlives_the_broker(tmp_path: Path) -> None:
    # Given a client that has produced
    broker = start_broker(tmp_path / "data")
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic("orders")
        await wire.produce("orders", BATCH)

    # When the broker is stopped and started again
    assert broker.stop() == 0
    broker = start_broker(tmp_path / "data")

    # Then it is there
    try:
        assert lines(broker, "topic")["orders"]["produced_bytes"] == len(BATCH)
    finally:
        broker.stop()


async def test_usage_is_told_though_nobody_knows_what_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a store that has counted something, and does not come to the end of the index in time
    store = MemoryMetadata(Random(1), lambda: NOW_MS)
    counts = UsageCounts(puts=2.0)
    await store.add_usage([UsageRow(hour_ms=0, topic_id=NO_TOPIC, client_id="c", counts=counts)])

    async def too_late() -> StoredBytes:
        raise MetadataUnavailable("QueryCanceledError")

    monkeypatch.setattr(store, "stored_bytes", too_late)
    counter = UsageCounter(store, client_id="b", now_ms=lambda: NOW_MS)
    page = UsagePage(store, counter, now_ms=lambda: NOW_MS)

    # When usage is asked for
    response = await page.answer(make_mocked_request("GET", "/usage?by=client"))

    # Then it is told, and that the rest is not known
    assert response.status == 200
    assert response.text is not None
    told = json.loads(response.text)
    assert [(one["key"], one["puts"]) for one in told["usage"]] == [("c", 2.0)]
    assert told["stored"] is None


def test_a_range_of_hours_may_be_asked_for(broker: BrokerProcess) -> None:
    # Given a broker that was asked whether it is ready, for which it reads the store
    with urlopen(f"http://{broker.http}/health/ready", timeout=10) as response:
        assert response.status == 200
    now_ms = int(time.time() * 1000)

    # When a day is asked for by days, then this hour is in it; when a day long ago is, nothing is
    found = usage(broker, by="day", since_ms=now_ms - 3_600_000)
    assert sum(line["gets"] for line in found["usage"]) >= 1
    assert found["since_ms"] <= found["usage"][0]["first_hour_ms"] <= now_ms
    assert usage(broker, since_ms=0, until_ms=86_400_000)["usage"] == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("by=partition", "by is topic, client or day"),
        ("since_ms=yesterday", "since_ms is a number"),
        ("until_ms=-1", "until_ms is a number"),
        ("limit=99999999999999999999", "limit is a number"),
        ("since=7d", "unknown parameter since"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    broker: BrokerProcess, query: str, reason: str
) -> None:
    with pytest.raises(HTTPError) as refused:
        urlopen(f"http://{broker.http}/usage?{query}", timeout=10)
    with refused.value as answer:
        assert answer.code == 400
        assert reason in json.load(answer)["error"]
