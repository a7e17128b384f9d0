"""What many members cost that join together; scenarios/large_consumer has what they are told."""

from uuid import UUID

from coordinator.snapshots import GroupState
from tests.coordinator.consumer_simulation import Cluster, Consumer


def joined(cluster: Cluster, number: int) -> None:
    consumer = Consumer(f"m{number}", None, ("t1",), None)
    cluster.send(consumer.request(number, cluster.catalog))


def test_a_crowd_that_joins_a_large_group_costs_two_assignments() -> None:
    # Given a topic with many partitions
    cluster = Cluster()
    cluster.set_topic("t1", UUID(int=1), 5_000)

    # When a hundred members join within a moment
    for number in range(100):
        cluster.pass_time(number % 2)
        joined(cluster, number)

    # Then the first of them was assigned, and then, before long, all of them at once
    described = cluster.described()
    assert (described.group_epoch, described.assignment_epoch) == (100, 1)
    cluster.pass_time(100)
    described = cluster.described()
    assert (described.group_epoch, described.assignment_epoch) == (100, 100)
    assert {len(member.target_assignment) for member in described.members} == {50}


def test_a_small_group_does_not_rest() -> None:
    cluster = Cluster()
    cluster.set_topic("t1", UUID(int=1), 40)
    for number in range(8):
        joined(cluster, number)
        assert cluster.group.state is not GroupState.ASSIGNING
