"""Topics whose configs a later version of the broker has set."""

import time
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from storage.metadata.metadata_postgres import PostgresMetadata
from tests.broker.admin.questions import SET, UNSET, change, create, set_configs
from tests.broker.admin.wire import Wire
from tests.support.broker import start_broker
from tests.support.postgres import create_empty_database

SEEN_S: Final = 20.0


async def test_a_topic_that_cannot_be_read_whole_is_served(tmp_path: Path) -> None:
    # Given a broker, and a topic of a later version, with a value that the broker does not know
    dsn = await create_empty_database()
    objects = f"file://{tmp_path / 'objects'}"
    broker = start_broker(tmp_path, "--postgres", dsn, "--store", objects)
    wire = Wire("127.0.0.1", broker.port)
    later = await PostgresMetadata.open(dsn)
    configs = {"compression.type": "brotli", "retention.ms": "5"}
    for name in ("later", "last"):
        await later.create_topic(name, partition_count=1, replication_factor=1, configs=configs)
        configs = {}
    await later.close()

    # When the broker hears of it, then it goes on, with that topic, and with all others
    deadline_s = time.monotonic() + SEEN_S
    while change(wire, "last", ("segment.ms", SET, "7")).error_code is not ErrorCode.none:
        assert time.monotonic() < deadline_s, "the broker never hears of the last topic"
    assert create(wire, "here").error_code is ErrorCode.none
    assert set_configs(wire, "later") == {"compression.type": "brotli", "retention.ms": "5"}

    # And what it cannot read can be unset
    assert change(wire, "later", ("compression.type", UNSET, None)).error_code is ErrorCode.none
    assert set_configs(wire, "later") == {"retention.ms": "5"}
    assert broker.stop() == 0
