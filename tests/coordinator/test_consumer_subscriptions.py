"""Patterns are bounded and matched as Kafka matches them; a new catalog is resolved at once."""

from collections.abc import Iterator, Mapping
from uuid import UUID

import pytest

from coordinator.catalog import Catalog, CatalogTopic
from coordinator.consumer_protocol import read_assignment, write_assignment
from coordinator.subscriptions import (
    MAX_PATTERN_BYTES,
    InvalidPattern,
    Subscription,
    Subscriptions,
    compile_pattern,
)
from protocol.ids import Partition


def catalog(version: int, **sizes: int) -> Catalog:
    topics = {
        name: CatalogTopic(
            topic_id=UUID(bytes=name.encode().rjust(16)), name=name, partition_count=size
        )
        for name, size in sizes.items()
    }
    return Catalog(version=version, by_name=topics)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a{1001}",
        r"(a)\1",
        "(?=a)",
        "a" * (MAX_PATTERN_BYTES + 1),
        "((a{99}){99}){99}",
        "\udcff",
    ],
)
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(pattern)


def test_a_pattern_matches_the_whole_name() -> None:
    subscriptions = Subscriptions()
    subscriptions.see(catalog(1, orders=1, reorders=1, __offsets=1))
    subscriptions.admit("orders|__.*")
    wanted = Subscription(frozenset({"missing"}), "orders|__.*")
    assert subscriptions.names(wanted) == {"missing", "orders", "__offsets"}
    assert len(subscriptions.topic_ids(wanted)) == 2
    assert subscriptions.topic_ids(wanted) is subscriptions.topic_ids(wanted)


def test_topics_come_and_go() -> None:
    # Given a pattern that matches one topic
    subscriptions = Subscriptions()
    subscriptions.see(catalog(1, a1=1, b1=1))
    subscriptions.admit("a.*")
    wanted = Subscription(pattern="a.*")
    before = subscriptions.fingerprint([wanted])

    # When topics change that it does not match, or that it does
    subscriptions.see(catalog(2, a1=1, b2=1))
    unrelated = subscriptions.fingerprint([wanted])
    subscriptions.see(catalog(3, a2=1))

    # Then only the latter can be told
    assert unrelated == before
    assert subscriptions.fingerprint([wanted]) != before
    assert subscriptions.names(wanted) == {"a2"}


def test_more_partitions_and_a_topic_made_again_change_the_fingerprint() -> None:
    subscriptions = Subscriptions()
    wanted = [Subscription(frozenset({"a1"}))]
    prints = set()
    again = CatalogTopic(topic_id=UUID(int=1), name="a1", partition_count=2)
    for topics in (catalog(1, a1=1), catalog(2, a1=2), Catalog(version=3, by_name={"a1": again})):
        subscriptions.see(topics)
        prints.add(subscriptions.fingerprint(wanted))
    assert len(prints) == 3


def test_an_older_catalog_is_not_new() -> None:
    subscriptions = Subscriptions()
    assert subscriptions.is_new(catalog(0))
    subscriptions.see(catalog(2))
    assert not subscriptions.is_new(catalog(2))
    assert not subscriptions.is_new(catalog(1))


def test_patterns_that_nobody_uses_are_forgotten() -> None:
    subscriptions = Subscriptions()
    subscriptions.see(catalog(1, a1=1))
    subscriptions.admit("a.*")
    subscriptions.keep([])
    assert subscriptions.names(Subscription(pattern="a.*")) == set()


class LookedUp(Mapping[str, CatalogTopic]):
    """Topics of which each can be looked up; all of them are too many to go through."""

    def __init__(self, topics: Mapping[str, CatalogTopic]) -> None:
        self._topics = topics

    def __getitem__(self, name: str) -> CatalogTopic:
        return self._topics[name]

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all topics are gone through")


def test_who_names_topics_costs_the_same_however_many_there_are() -> None:
    # Given catalogs of which only single topics are looked up
    catalogs = [
        Catalog(
            version=version,
            by_name=LookedUp(topics.by_name),
            by_id={topic.topic_id: topic for topic in topics.by_name.values()},
        )
        for version, topics in enumerate((catalog(1, a1=1, b1=1), catalog(2, a1=2, b1=1, c1=1)))
    ]

    # When a group without patterns sees one after the other, then it knows its topics
    subscriptions, wanted = Subscriptions(), Subscription(frozenset({"a1", "missing"}))
    fingerprints = set[str]()
    for one in catalogs:
        subscriptions.see(one)
        a1 = one.by_name["a1"]
        assert subscriptions.sizes([wanted]) == {a1.topic_id: a1.partition_count}
        fingerprints.add(subscriptions.fingerprint([wanted]))
    assert len(fingerprints) == 2

    # And classic members are told of them
    held = [Partition(catalogs[1].by_name["a1"].topic_id, 1)]
    written = write_assignment(held, catalogs[1])
    assert read_assignment(written) == ({"a1": [1]}, b"")
