"""A group whose limits and times change while it has members."""

from collections.abc import Sequence
from dataclasses import replace

from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.catalog import Catalog
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.effects import ArmTimer, Effect, Reply
from coordinator.events import ConsumerHeartbeat
from coordinator.group import Group
from coordinator.snapshots import GroupType

CONFIG = GroupConfig(classic=ClassicConfig(), consumer=ConsumerConfig(), new_uuid=lambda: "uuid")


def configured(session_timeout_ms: int, heartbeat_interval_ms: int) -> GroupConfig:
    consumer = replace(
        CONFIG.consumer,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )
    return replace(CONFIG, consumer=consumer)


def beat(epoch: int) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        token="token",
        member_id="m",
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        principal="ANONYMOUS",
        rebalance_timeout_ms=30_000 if epoch == 0 else -1,
        subscribed_topic_names=("t",) if epoch == 0 else None,
        subscribed_topic_regex=None,
        server_assignor=None,
        owned_partitions=() if epoch == 0 else None,
        catalog=Catalog(version=1, by_name={}),
    )


def times(effects: Sequence[Effect]) -> tuple[int, list[int | None]]:
    """Return the heartbeat interval that was answered, and the deadlines that were armed."""
    (answer,) = [one.answer for one in effects if isinstance(one, Reply)]
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    return answer.heartbeat_interval_ms, [
        one.deadline_ms for one in effects if isinstance(one, ArmTimer)
    ]


def test_times_count_from_the_next_heartbeat() -> None:
    # Given an empty group that is configured before anybody joins, as a consumer group
    group = Group("g", CONFIG)
    group.configure(configured(50_000, 6_000))
    assert times(group.handle(beat(0), now_ms=0)) == (6_000, [50_000])
    assert group.group_type is GroupType.CONSUMER

    # When it is configured again, then nothing happens before the member's next heartbeat
    group.configure(configured(1_000, 100))
    assert times(group.handle(beat(1), now_ms=10_000)) == (100, [11_000])
