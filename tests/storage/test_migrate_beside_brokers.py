"""Brokers of one version while another one migrates their database."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sql import query
from storage.config import PostgresConfig
from storage.errors import (
    BrokerDisplaced,
    DatabaseNotSupported,
    OlderBrokersAlive,
    TableInUse,
)
from storage.metadata.brokers import Membership
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.migrate import missing_migrations
from storage.postgres.postgres_connection import Connection
from tests.clients.confluent import CALL_TIMEOUT_S
from tests.storage.later_versions import ALONG, STOPPING, migrate_to
from tests.support.broker import start_broker
from tests.support.postgres import create_database, until
from tests.support.wire import WireClient

pytestmark = pytest.mark.usefixtures("patience")


async def test_a_version_that_stops_older_ones_waits_for_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a broker
    dsn = await create_database()
    arguments = ("--postgres", dsn, "--store", f"file://{tmp_path / 'objects'}")
    broker = await asyncio.to_thread(start_broker, tmp_path, *arguments)
    try:
        # When a later version comes that it could not work beside, then that one is told which
        # broker is to be stopped, and nothing has changed
        with pytest.raises(OlderBrokersAlive, match=rf"0 \({broker.bootstrap}\)\. Stop them all"):
            await migrate_to(STOPPING, dsn, monkeypatch)
        async with await WireClient.connect(broker.bootstrap) as client:
            await client.create_topic("log")
    finally:
        await asyncio.to_thread(broker.stop)

    # When the broker has been stopped, then the later version takes the database
    await sessions_have_ended(dsn)
    assert await migrate_to(STOPPING, dsn, monkeypatch) == [STOPPING.name]

    # And this one does not touch it any more, and says why
    with pytest.raises(DatabaseNotSupported, match=rf"newer.*{STOPPING.name}"):
        await PostgresMetadata.open(dsn)


async def sessions_have_ended(dsn: str) -> None:
    """Wait until the server has noticed that whoever used a database has gone."""
    connection: Connection = await asyncpg.connect(dsn)

    async def probe() -> bool:
        others: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return others == 0

    try:
        await until(probe)
    finally:
        await connection.close()


def copy_in_transactions(bootstrap: str, number: int) -> list[int | None]:
    """Write two records, the second with the first one's commit; return the offsets in a group."""
    topic = f"log-{number}"
    server: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(server)
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    reader = {"group.id": "g", "auto.offset.reset": "earliest"}
    producer, consumer = Producer({**server, "transactional.id": "t"}), Consumer(server | reader)
    consumer.subscribe([topic])
    producer.init_transactions(CALL_TIMEOUT_S)
    offsets = []
    for commits_offsets in (False, True):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        if commits_offsets:
            position = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(
                position, consumer.consumer_group_metadata(), CALL_TIMEOUT_S
            )
        producer.commit_transaction(CALL_TIMEOUT_S)
        record = consumer.poll(CALL_TIMEOUT_S)
        assert record is not None
        assert record.error() is None
        offsets.append(record.offset())
    consumer.close()
    return offsets


async def test_versions_work_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a broker with clients
    dsn = await create_database()
    arguments = ("--postgres", dsn, "--store", f"file://{tmp_path / 'objects'}")
    broker = await asyncio.to_thread(start_broker, tmp_path, *arguments)
    try:
        assert await asyncio.to_thread(copy_in_transactions, broker.bootstrap, 1) == [0, 2]

        # When a later version comes that it can work beside
        assert await migrate_to(ALONG, dsn, monkeypatch) == [ALONG.name]

        # Then it goes on
        assert await asyncio.to_thread(copy_in_transactions, broker.bootstrap, 2) == [0, 2]
    finally:
        await asyncio.to_thread(broker.stop)

    # And starts again: the later version may be taken back
    broker = await asyncio.to_thread(start_broker, tmp_path, *arguments)
    try:
        assert await asyncio.to_thread(copy_in_transactions, broker.bootstrap, 3) == [0, 2]
    finally:
        await asyncio.to_thread(broker.stop)
    assert await missing_migrations(dsn, PostgresConfig()) == []


async def register(store: PostgresMetadata, incarnation: UUID) -> Membership:
    return await store.register_broker(
        incarnation,
        ["broker:9092"],
        rack=None,
        preferred_node_id=0,
        alone=False,
        time_to_live_ms=1_000,
    )


async def grow_old(dsn: str) -> None:
    """Let more time pass since all heartbeats than a broker is waited for."""
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute(
        "UPDATE streamhouse_internal.brokers SET heartbeat_at = heartbeat_at - interval '11 s'"
    )
    await connection.close()


async def test_who_is_silent_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a broker that was silent for a while, and nobody who has noticed
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn)
    incarnation = uuid4()
    joined = await register(store, incarnation)
    await grow_old(dsn)

    # When a version comes that stops older ones, then it takes the database
    assert await migrate_to(STOPPING, dsn, monkeypatch) == [STOPPING.name]

    # And the broker ends if it was only paused, or Postgres was away
    with pytest.raises(BrokerDisplaced, match="newer version"):
        await store.broker_heartbeat(
            joined.node_id, incarnation, known_generation=joined.generation, time_to_live_ms=1_000
        )
    await store.close()


async def test_who_has_left_is_waited_for_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a broker that has left the cluster, and still commits what it was sent
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn)
    incarnation = uuid4()
    joined = await register(store, incarnation)
    await store.deregister_broker(joined.node_id, incarnation)

    # When a version comes that stops older ones, then it is told to wait
    with pytest.raises(OlderBrokersAlive, match=r"0 \(broker:9092\)"):
        await migrate_to(STOPPING, dsn, monkeypatch)

    # And does not wait longer than that
    await store.close()
    await sessions_have_ended(dsn)
    assert await migrate_to(STOPPING, dsn, monkeypatch) == [STOPPING.name]


async def test_who_is_about_to_join_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a broker that is being registered
    dsn = await create_database()
    connection: Connection = await asyncpg.connect(dsn)
    registering = connection.transaction()
    await registering.start()
    arguments = (uuid4(), ["broker:9092"], None, 0, False, 1_000)
    await connection.execute("SELECT FROM streamhouse_internal.cluster FOR UPDATE")
    await connection.fetch(query("broker_register"), *arguments)

    # When a version comes that stops older ones, then it changes nothing before it knows of that
    with pytest.raises(TableInUse):
        await migrate_to(STOPPING, dsn, monkeypatch)

    # And is told then
    await registering.commit()
    with pytest.raises(OlderBrokersAlive):
        await migrate_to(STOPPING, dsn, monkeypatch)
    await connection.close()


async def test_who_joins_too_late_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a broker that starts, and waits for its store
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn)

    # When a version comes meanwhile that stops older ones
    assert await migrate_to(STOPPING, dsn, monkeypatch) == [STOPPING.name]

    # Then the broker does not begin
    with pytest.raises(DatabaseNotSupported, match=rf"newer.*{STOPPING.name}"):
        await register(store, uuid4())
    await store.close()
