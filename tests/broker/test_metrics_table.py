"""The tables of metrics in docs/, against what a broker exports: names, kinds and labels."""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from broker.config import Settings
from broker.configs.broker_configs import read_broker_config
from broker.http.exposition import family_pieces
from broker.node import Broker
from broker.parts import Parts
from broker.upkeep.upkeep_order import UpkeepOrder
from protocol.records import Record, build_batch
from storage.config import PostgresConfig, UpkeepConfig
from storage.objects.store_traffic import StoreTraffic
from tests.broker.telemetry_world import Client, World
from tests.broker.test_http import get
from tests.support.broker import start_broker
from tests.support.certificates import make_authority
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore
from tests.support.otlp import a_gauge, a_number, payload
from tests.support.wire import WireClient

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
HEADING: Final = "| metric (`streamhouse_…`)"
PREFIX: Final = "streamhouse_"
FAMILIES: Final = ("cluster_", "partition_log_", "partition_high_", "partition_last_")
UPKEEP: Final = "upkeep_…"
ANSWERED: Final = {"cluster_group_lag", "cluster_topic_bytes", "cluster_group_members"}
"""One of each question to Postgres, whose answers may come with different scrapes."""
SOON_S: Final = 60.0
GLANCE_S: Final = 0.05

Values = frozenset[str]
Exported = dict[str, tuple[str, frozenset[str]]]
"""Kind and labels of each metric, by its name as the table has it."""


def cells() -> Iterator[tuple[str, str]]:
    """Yield each metric of the tables, and what they say of its labels."""
    for below in PAGE.read_text().split(HEADING)[1:]:
        for row in below.partition("\n\n")[0].splitlines()[2:]:
            names, labels = (cell.strip() for cell in row.split("|")[1:3])
            yield from ((metric, labels) for metric in re.findall(r"`([\w…]+)`", names))


def documented() -> Exported:
    kinds = PAGE.read_text().partition(" are histograms")[0].rpartition("only grows;")[2]
    histograms = set(re.findall(r"`(\w+)`", kinds))
    assert histograms
    found: Exported = {}
    for metric, labels in cells():
        assert metric not in found
        kind = "histogram" if metric in histograms else kind_by_name(metric)
        found[metric] = kind, frozenset(re.findall(r"`(\w+)`", labels.partition("=")[0]))
    assert histograms <= found.keys()
    return found


def documented_values() -> dict[str, Values]:
    """Return the values of the one label that a metric has, where a table lists them."""
    return {
        metric: frozenset(re.findall(r"`(\w+)`", labels.partition("=")[2]))
        for metric, labels in cells()
        if "=" in labels
    }


def kind_by_name(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def registered(home: Path) -> CollectorRegistry:
    """Return the registry of a broker that has all that it can have: TLS, SASL, the upkeep."""
    make_authority().issue().write_keystore(home / "keystore.pem")
    config = {"ssl.keystore.location": str(home / "keystore.pem")}
    settings = Settings(listen=("SSL://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"))
    parts = Parts(
        settings=settings,
        config=read_broker_config(config),
        metadata=MemoryMetadata(Random(1)),
        objects=MemoryStore(),
        traffic=StoreTraffic(),
    )
    order = UpkeepOrder(dsn="", store_url="", pool=PostgresConfig(), upkeep=UpkeepConfig(), set={})
    return Broker(settings, parts, order).parts.registry


def of_the_registry(registry: CollectorRegistry) -> Exported:
    found: Exported = {}
    for collector in registry._collector_to_names:
        for metric in collector.collect():
            name = metric.name + ("_total" if metric.type == "counter" else "")
            labels = getattr(collector, "_labelnames", ()) or getattr(metric, "_labelnames", ())
            found[name.removeprefix(PREFIX)] = metric.type, frozenset(labels)
    upkeep = {name: found.pop(name) for name in list(found) if name.startswith("upkeep_")}
    found[UPKEEP] = "gauge", frozenset().union(*(labels for _, labels in upkeep.values()))
    return found


def exported(text: str) -> Exported:
    """Return the metrics of a broker's answer that have samples."""
    return {
        family.name.removeprefix(PREFIX): (family.type, frozenset(family.samples[0].labels))
        for family in text_string_to_metric_families(text)
        if family.samples and family.name.startswith(PREFIX)
    }


async def of_partitions_and_groups(home: Path) -> Exported:
    """Return what a broker exports of partitions that it uses, and of the whole cluster."""
    often = {"STREAMHOUSE_METRICS__CLUSTER_INTERVAL_MS": "100"}
    broker = start_broker(home, environment=os.environ | often)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic("t")
            batch = build_batch([Record(offset_delta=0, value=b"v")], base_timestamp_ms=1)
            await wire.produce("t", batch)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        consumer.close()
        deadline = time.monotonic() + SOON_S
        while True:
            found = exported(get(broker, "/metrics"))
            if found.keys() >= ANSWERED:
                return {
                    name: what
                    for name, what in found.items()
                    if name.startswith(FAMILIES) and not name.endswith("_created")
                }
            assert time.monotonic() < deadline, found.keys()
            await asyncio.sleep(GLANCE_S)
    finally:
        broker.stop()


async def of_pushing_clients() -> Exported:
    """Return what a broker exports of a client that pushes metrics of its own."""
    world = World()
    await world.subscribe("all", metrics="*")
    client = Client(world)
    client.ask()
    await client.push(payload(a_gauge("org.apache.kafka.g", a_number(1.0))))
    text = b"".join(family_pieces(await world.series.families())).decode()
    return exported(text)


async def test_the_tables_name_every_metric_with_its_kind_and_labels(tmp_path: Path) -> None:
    found = of_the_registry(registered(tmp_path))
    found |= await of_partitions_and_groups(tmp_path / "data")
    found |= await of_pushing_clients()
    assert documented() == found


async def test_the_values_that_the_tables_list_are_those_exported(tmp_path: Path) -> None:
    metrics = {metric.name: metric for metric in registered(tmp_path).collect()}
    for name, values in documented_values().items():
        samples = metrics[PREFIX + name.removesuffix("_total")].samples
        assert {value for sample in samples for value in sample.labels.values()} == values, name
