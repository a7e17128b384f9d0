"""Brokers that were started with different settings of what is done for all of them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.configs import start_settings
from broker.configs.broker_configs import read_broker_config
from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.configs.entity_configs import EntityConfigs
from broker.configs.start_settings import compare_starts
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import BrokerRecord, Membership
from storage.metadata.entity_configs import Entity, EntityChange, EntityConfigValues, EntityKind
from tests.support.broker import running_broker
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.postgres import create_empty_database


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_settings, "SETTLE_S", 0.02)


PATIENCE_S = 20.0


async def start(
    metadata: MemoryMetadata, node_id: int, settings: Mapping[str, str], *, living: range
) -> list[Any]:
    """Let a broker compare; return what it logs."""
    with capture_logs() as logs:
        await compare(metadata, node_id, settings, living=living)
    return logs


async def compare(
    metadata: MemoryMetadata, node_id: int, settings: Mapping[str, str], *, living: range
) -> None:
    configs = EntityConfigs(metadata)
    await configs.refresh()
    alive = tuple(BrokerRecord(node_id=one, addresses=(), rack=None) for one in living)
    membership = Membership(node_id=node_id, generation=1, brokers=alive)
    await compare_starts(read_broker_config(settings), configs, lambda: membership)


async def test_who_is_started_otherwise_than_one_that_lives_says_so() -> None:
    # Given a broker that keeps records for ever, and one of an earlier version
    metadata = MemoryMetadata(Random(5))
    forever = {"log.retention.ms": "-1", "num.partitions": "3"}
    assert not await start(metadata, 0, forever, living=range(2))

    # When another one starts that does not, then it says so, and so does the first the next time
    otherwise = {"log.retention.hours": "24", "offsets.retention.minutes": "5"}
    (line,) = await start(metadata, 2, otherwise, living=range(3))
    assert line["broker"] == 0
    assert line["here"] == {"log.retention.ms": "86400000", "offsets.retention.minutes": "5"}
    assert line["there"] == {"log.retention.ms": "-1", "offsets.retention.minutes": "10080"}
    (line,) = await start(metadata, 0, forever, living=range(3))
    assert line["broker"] == 2

    # And it does not once it is started alike, or nobody else lives
    assert not await start(metadata, 2, {"log.retention.minutes": "-1"}, living=range(3))
    assert not await start(metadata, 2, otherwise, living=range(2, 3))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"log.retention.hours": "168"}),
        ({}, {"num.partitions": "5", "max.connections": "7"}),
        ({"log.retention.ms": "5"}, {}),
    ],
)
async def test_what_makes_no_difference_is_not_told(
    one: Mapping[str, str], other: Mapping[str, str]
) -> None:
    # Given a cluster whose retention is set of all brokers while they run
    metadata = MemoryMetadata(Random(5))
    of_all = Entity(EntityKind.BROKER, CLUSTER_WIDE)
    change = EntityChange(entity=of_all, changes={"log.retention.ms": "9"})
    await metadata.alter_entity_configs([change])

    # Then how long each was started to keep records is no matter, nor what is each broker's own
    assert not await start(metadata, 0, one, living=range(2))
    assert not await start(metadata, 1, other, living=range(2))


async def test_of_brokers_that_start_together_the_later_to_leave_its_settings_says_so() -> None:
    metadata = MemoryMetadata(Random(5))
    with capture_logs() as logs:
        await asyncio.gather(
            compare(metadata, 0, {}, living=range(2)),
            compare(metadata, 1, {"log.retention.ms": "-1"}, living=range(2)),
        )
    assert {line["broker"] for line in logs} == {0, 1}


async def test_a_database_that_does_not_answer_stops_no_broker() -> None:
    class Away(MemoryMetadata):
        async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
            raise MetadataUnavailable("no answer")

    (line,) = await start(Away(Random(5)), 0, {}, living=range(1))
    assert line["event"] == "not compared with how other brokers were started"


async def test_a_broker_tells_its_log(tmp_path: Path) -> None:
    # Given a broker that expires records after a week
    arguments = ("--postgres", await create_empty_database(), "--store", f"file://{tmp_path}/store")
    with running_broker(tmp_path / "one", *arguments):
        # When one starts beside it that keeps them
        keep = ("--set", "log.retention.ms=-1")
        with running_broker(tmp_path / "two", *arguments, *keep) as two:
            deadline = time.monotonic() + PATIENCE_S
            while "other settings" not in (told := two.log.read_text()):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)

        # Then that one's log says what the other does
        assert "another broker was started with other settings" in told
        assert '"there": {"log.retention.ms": "604800000"}' in told
