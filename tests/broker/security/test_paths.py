"""No client's string reaches a file's path or an object's key, but topic names that are plain."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient, request_entities

PATIENCE_S: Final = 30.0
ALLOWED: Final = ("...", "..a", "a..", "-rf", "_", "x" * 249, "a.b_C-9")
REFUSED: Final = (
    *("", ".", "..", "../a", "a/../b", "/etc", "a/b", "a\\b", "%2e%2e", "..%2f..", "a%00"),
    *(
        "a\0",
        "\0",
        "a\n",
        "a b",
        "x" * 250,
        "~",
        "$HOME",
        "*",
        "a;b",
        "\uff0e\uff0e",
        "\u2024\u2024",
    ),
    *("caf\u00e9", "\u202egs.", "\u0430"),  # a Cyrillic letter that looks like an a
)
OTHER_NAMES: Final = ("../../outside", "/tmp/outside", "..", "a\0b", "%2e%2e/outside")


@pytest.fixture(scope="module", name="broker")
def building_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that builds a segment of every record at once; its data are in DIR/outer/data."""
    building = {
        "STREAMHOUSE_UPKEEP__ENABLED": "true",
        "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "100",
        "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": "1",
    }
    data = tmp_path_factory.mktemp("paths") / "outer" / "data"
    broker = start_broker(data, environment=os.environ | building)
    yield broker
    broker.stop()


def files(folder: Path) -> set[str]:
    """Return the paths of all files below, but for those of Postgres."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "postgres" not in path.relative_to(folder).parts[0]
    }


def test_names_that_are_allowed_are_folders_of_their_own(broker: BrokerProcess) -> None:
    # Given topics with the strangest names that Kafka allows
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic(name, 1, 1) for name in ALLOWED])
    for future in made.values():
        future.result(PATIENCE_S)

    # When a record is written to each by clients whose other names are hostile, too
    for name in OTHER_NAMES:
        settings = {"bootstrap.servers": broker.bootstrap, "client.id": name.replace("\0", "")}
        producer = Producer(settings)
        for topic in ALLOWED:
            producer.produce(topic, b"v")
        assert producer.flush(PATIENCE_S) == 0

    # Then each topic has segments in its own folder, and nothing lies anywhere else
    data = broker.log.parent
    folders = {f"objects/topics/{topic}/partitions/0/segments" for topic in ALLOWED}
    deadline = time.monotonic() + PATIENCE_S
    while not folders <= {str(Path(path).parent) for path in files(data)}:
        assert time.monotonic() < deadline, files(data)
        time.sleep(0.1)
    own = ("objects/wal/", "objects/.", "objects/streamhouse.json", "broker.log")
    for path in files(data):
        assert path.startswith(own) or str(Path(path).parent) in folders, path
    assert {path.name for path in data.parents[1].iterdir()} == {"outer"}
    assert {path.name for path in data.parent.iterdir()} == {"data"}


@pytest.mark.parametrize("name", [name for name in REFUSED if "\0" not in name])
def test_names_that_are_no_topics_are_refused(broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


async def test_names_that_are_no_topics_are_not_made_by_the_way(broker: BrokerProcess) -> None:
    # When Metadata asks for them, with automatic creation
    before = files(broker.log.parent)
    async with await WireClient.connect(broker.bootstrap) as wire:
        module = request_entities(3, 12)
        request = module.MetadataRequest(
            topics=tuple(module.MetadataRequestTopic(topic_id=None, name=name) for name in REFUSED),
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )
        answer = await asyncio.wait_for(wire.ask(request), PATIENCE_S)

    # Then each is refused for its name, and nothing was made
    assert {topic.name for topic in answer.topics} == set(REFUSED)
    codes = {topic.error_code for topic in answer.topics}
    assert codes <= {ErrorCode.invalid_topic_exception, ErrorCode.unknown_topic_or_partition}
    folders = {
        path.split("/")[2] for path in files(broker.log.parent) - before if "topics/" in path
    }
    assert folders <= set(ALLOWED)
