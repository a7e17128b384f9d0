"""A start whose Postgres breaks connections, wherever in the start that is."""

import asyncio
from pathlib import Path

from kio.schema.errors import ErrorCode

from storage.config import PostgresConfig
from storage.metadata.metadata_postgres import PostgresMetadata
from tests.support.broker import start_broker
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import create_empty_database, postgres_server, short_directory
from tests.support.wire import WireClient

FEWEST_PIECES, MOST_PIECES = 11, 18


async def test_a_broker_starts_whichever_connection_to_postgres_breaks(tmp_path: Path) -> None:
    # Given a Postgres whose connections break again and again, each time a little later
    server, dsn = postgres_server().directory, await create_empty_database()
    await (await PostgresMetadata.open(dsn, PostgresConfig(pool_size=1))).close()
    with short_directory() as directory:
        async with LossyProxy.between(directory, server) as proxy:
            proxy.cut_after(range(FEWEST_PIECES, MOST_PIECES))
            behind = dsn.replace(f"host={server}", f"host={directory}")
            store = f"file://{tmp_path / 'objects'}"

            # When a broker starts
            broker = await asyncio.to_thread(
                start_broker, tmp_path, "--postgres", behind, "--store", store
            )
            times_cut = proxy.times_cut
            proxy.cut_after(())

            # Then it has come to serve
            try:
                async with await WireClient.connect(broker.bootstrap) as client:
                    await client.create_topic("log")
                    described = await client.describe("log")
            finally:
                await asyncio.to_thread(broker.stop)
    assert times_cut > 5
    assert described.topics[0].error_code == ErrorCode.none
