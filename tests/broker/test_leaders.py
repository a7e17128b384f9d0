"""Who leads what: in equal shares, alike everywhere, and no new partition moves an old one."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import pytest

from broker import leaders as leaders_module
from broker.broker_set import BrokerSet
from broker.leaders import Leaders, Ranked, rank
from protocol.ids import Partition
from storage.metadata.brokers import BrokerRecord, Membership

TOPICS: Final = [UUID(int=random.Random(number).getrandbits(128)) for number in range(100)]


def brokers(count: int, racks: Sequence[str | None] = (None,)) -> list[BrokerRecord]:
    return [
        BrokerRecord(node_id=at, addresses=(f"h:{at}",), rack=racks[at % len(racks)])
        for at in range(count)
    ]


def leaders(
    topic_id: UUID, partitions: int, of: Sequence[BrokerRecord], dead: Sequence[BrokerRecord] = ()
) -> list[int]:
    known = Leaders(of, dead)
    return [known.ranked(Partition(topic_id, index))[0].node_id for index in range(partitions)]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("partitions", [1, 2, 6, 7, 100])
def test_each_broker_leads_as_many_partitions_as_any_other_give_or_take_one(
    count: int, partitions: int
) -> None:
    for topic_id in TOPICS:
        led = Counter(leaders(topic_id, partitions, brokers(count)))
        assert led.total() == partitions
        shares = [led[node_id] for node_id in range(count)]
        assert max(shares) - min(shares) <= 1


def test_topics_of_one_partition_are_spread_too() -> None:
    led = Counter(leaders(topic_id, 1, brokers(3))[0] for topic_id in TOPICS)
    assert min(led[node_id] for node_id in range(3)) > 20


def test_every_broker_names_the_same_in_whatever_order_it_knows_the_others() -> None:
    for topic_id in TOPICS:
        assert leaders(topic_id, 12, brokers(5)) == leaders(topic_id, 12, brokers(5)[::-1])


@pytest.mark.parametrize("count", [2, 3, 10])
def test_when_a_broker_goes_only_what_it_led_moves_and_to_all_others(count: int) -> None:
    everybody, heirs = brokers(count), Counter[int]()
    for topic_id in TOPICS:
        before = leaders(topic_id, 12, everybody)
        for gone in everybody:
            others = [one for one in everybody if one is not gone]
            after = leaders(topic_id, 12, others, [gone])
            for was, now in zip(before, after, strict=True):
                assert now == was or (was == gone.node_id and now != gone.node_id)
            heirs.update(now for was, now in zip(before, after, strict=True) if now != was)
    assert min(heirs[one.node_id] for one in everybody) > heirs.total() / count / 2


def test_new_partitions_move_no_old_ones() -> None:
    for topic_id in TOPICS:
        assert leaders(topic_id, 30, brokers(4))[:7] == leaders(topic_id, 7, brokers(4))


def dealt_as_a_whole(
    topic_id: UUID, block: int, live: Sequence[BrokerRecord], dead: Sequence[BrokerRecord]
) -> list[int]:
    """Deal a block as brokers of before do, which may work beside these: return who leads."""
    known, led = [*live, *dead], []
    free = list(known)
    for index in range(block * len(known), (block + 1) * len(known)):
        liked = rank(topic_id.bytes + index.to_bytes(4, "big"), known)
        dealt = next(one for one in liked if one in free)
        free.remove(dealt)
        led.append(next(one.node_id for one in (dealt, *liked) if one in live))
    return led


@pytest.mark.parametrize(("alive", "gone"), [(1, 0), (3, 0), (3, 4), (5, 11), (2, 30)])
def test_leaders_do_not_depend_on_which_partition_is_asked_for_first(alive: int, gone: int) -> None:
    everybody = brokers(alive + gone)
    live, dead = everybody[:alive], everybody[alive:]
    for topic_id in TOPICS[:20]:
        expected = [
            leader for at in range(3) for leader in dealt_as_a_whole(topic_id, at, live, dead)
        ]
        known = Leaders(live, dead)
        asked = list(enumerate(expected))
        random.Random(topic_id.int).shuffle(asked)
        for index, leader in asked:
            assert known.ranked(Partition(topic_id, index))[0].node_id == leader


def test_what_is_not_asked_for_is_not_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given three brokers, and hundreds that have been
    ranked = list[bytes]()

    def counted(key: bytes, known: Sequence[BrokerRecord]) -> Ranked:
        ranked.append(key)
        return rank(key, known)

    monkeypatch.setattr(leaders_module, "rank", counted)
    everybody = brokers(303)
    known = Leaders(everybody[:3], everybody[3:])

    # When a topic has one partition, then no other one is dealt
    known.ranked(Partition(TOPICS[0], 0))
    assert len(ranked) == 1

    # And of one that is asked for later those before it, each once
    known.ranked(Partition(TOPICS[0], 9))
    known.ranked(Partition(TOPICS[0], 5))
    assert len(ranked) == 10


def test_what_is_forgotten_is_dealt_again_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    before = leaders(TOPICS[0], 20, brokers(6))
    monkeypatch.setattr(leaders_module, "MOST_REMEMBERED", 4)
    assert leaders(TOPICS[0], 20, brokers(6)) == before


def test_all_that_are_alive_are_ranked() -> None:
    known = Leaders(brokers(3), brokers(4)[3:])
    for index in (0, 5, 10_000):
        ranked = known.ranked(Partition(TOPICS[0], index))
        assert sorted(one.node_id for one in ranked) == [0, 1, 2]


@pytest.mark.parametrize("racks", [(None,), ("a", "b"), ("a", None)])
def test_each_partition_is_served_by_its_leader_and_by_one_broker_in_each_other_rack(
    racks: Sequence[str | None],
) -> None:
    everybody = brokers(6, racks)
    known = [
        BrokerSet(Membership(node_id=one.node_id, generation=1, brokers=everybody))
        for one in everybody
    ]
    for index in range(12):
        partition = Partition(TOPICS[0], index)
        assert sum(one.leads(partition) for one in known) == 1
        leader = known[0].owner(partition)
        others = set(racks) - {None, leader.rack}
        assert sum(one.serves(partition) for one in known) == 1 + len(others)
        for rack in set(racks) - {None}:
            owner = known[0].owner(partition, rack)
            assert owner.rack == rack
            assert owner == leader or leader.rack != rack


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("racks", [(None,), ("a", "b")])
def test_as_many_replicas_are_shown_when_brokers_go(
    racks: Sequence[str | None], factor: int
) -> None:
    # Given four brokers, two of which go
    everybody = brokers(4, racks)
    before = BrokerSet(Membership(node_id=0, generation=1, brokers=everybody))
    after = BrokerSet(
        Membership(node_id=0, generation=2, brokers=everybody[:2], dead=everybody[2:])
    )
    for index in range(8):
        partition = Partition(TOPICS[0], index)

        # Then each partition keeps its number of replicas, those that are gone behind the others
        replicas = after.replicas(partition, factor, None)
        assert len(set(replicas)) == len(replicas) == min(max(factor, len(racks)), 4)
        assert len(before.replicas(partition, factor, None)) == len(replicas)
        assert replicas[0] == after.owner(partition).node_id
        assert (set(replicas[:2]) | {0, 1}, set(replicas[2:]) | {2, 3}) == ({0, 1}, {2, 3})


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_as_many_replicas_are_shown_when_a_rack_goes(factor: int) -> None:
    everybody = brokers(3, ("a", "b", "c"))
    after = BrokerSet(
        Membership(node_id=0, generation=2, brokers=everybody[:2], dead=everybody[2:])
    )
    assert set(after.replicas(Partition(TOPICS[0], 0), factor, None)) == {0, 1, 2}


def test_in_a_rack_all_its_brokers_own_partitions_that_are_led_elsewhere() -> None:
    everybody = BrokerSet(Membership(node_id=0, generation=1, brokers=brokers(6, ("a", "b"))))
    owned = Counter(
        everybody.owner(Partition(TOPICS[0], index), "b").node_id for index in range(60)
    )
    assert set(owned) == {1, 3, 5}
    assert min(owned.values()) > 10
