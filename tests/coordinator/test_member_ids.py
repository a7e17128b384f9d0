"""Member ids begin with what clients are called, however long that is."""

from uuid import UUID

import pytest

from coordinator.answers import JoinAnswer
from coordinator.effects import Effect, Reply
from coordinator.events import ConsumerHeartbeat, Join, Protocol
from coordinator.group import Group
from tests.coordinator.classic_world import Runner
from tests.coordinator.consumer_simulation import catalog_of

METADATA = b"\0\0" + (1).to_bytes(4) + b"\0\2t1" + bytes(4)
CATALOG = catalog_of(1, {"t1": (UUID(int=1), 1)})


def heartbeat() -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        token=0,
        member_id="m",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        principal="ANONYMOUS",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t1"],
        subscribed_topic_regex=None,
        server_assignor=None,
        owned_partitions=[],
        catalog=CATALOG,
    )


def member_id(effects: list[Effect]) -> str:
    (answer,) = [effect.answer for effect in effects if isinstance(effect, Reply)]
    assert isinstance(answer, JoinAnswer)
    return answer.member_id


@pytest.mark.parametrize("is_consumer_group", [False, True])
@pytest.mark.parametrize("instance_id", [None, "i" * 32_767])
def test_a_long_name_is_cut(instance_id: str | None, *, is_consumer_group: bool) -> None:
    # Given a group, classic or with a member that speaks the new protocol
    runner = Runner(initial_rebalance_delay_ms=0, max_size=10)
    group = Group("g", runner.config)
    group.start(now_ms=0)
    if is_consumer_group:
        group.handle(heartbeat(), now_ms=0)

    # When a client with a long name joins
    event = Join(
        token=1,
        member_id="",
        instance_id=instance_id,
        client_id="c" * 32_767,
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Protocol(name="range", metadata=METADATA)],
        needs_member_id=instance_id is None,
        skips_assignment=True,
    )
    given = member_id(group.handle(event, now_ms=0))

    # Then its member id has the beginning of that
    name = "c" if instance_id is None else "i"
    assert given == name * 255 + "-1"
