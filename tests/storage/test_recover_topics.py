"""Which of the topics of one name is recovered."""

from uuid import UUID, uuid4

import pytest

from storage.recovery.recover_topics import FoundTopic, ToldTopics, live_topics
from storage.wal_index import WalIndex

OLD, NEW = uuid4(), uuid4()  # of one name


def telling(topic_id: UUID, name: str) -> WalIndex:
    """Return that of an object which tells of a topic, without records."""
    topics = ((topic_id, name),)
    return WalIndex(writer_id=uuid4(), sequence=0, written_ms=1, topics=topics, runs=())


@pytest.mark.parametrize(
    ("told", "live"),
    [
        pytest.param([(NEW, "", 1), (NEW, "orders", 50_000)], NEW, id="not known yet"),
        pytest.param([(NEW, "orders", 50_000), (NEW, "", 51_000)], NEW, id="known elsewhere"),
        pytest.param([(NEW, "", 50_000), (NEW, "orders", 50_000)], NEW, id="whole seconds"),
        pytest.param([(OLD, "orders", 90_000)], NEW, id="not heard of its deletion"),
        pytest.param([(NEW, "orders", 50_000), (NEW, "", 90_000)], OLD, id="deleted"),
    ],
)
def test_a_topic_is_deleted_only_if_that_is_sure(
    told: list[tuple[UUID, str, int]], live: UUID
) -> None:
    # Given topics of one name with records, of which brokers told later with or without a name
    topics = {
        NEW: FoundTopic(name="orders", seen_ms=50_000),
        OLD: FoundTopic(name="orders", seen_ms=10_000),
    }
    found = ToldTopics()
    for topic_id, name, stored_ms in told:
        found.take(telling(topic_id, name), stored_ms)

    # When one is chosen, then it is the one with the newest records, if that is not deleted
    found.add_to(topics)
    chosen, left_out = live_topics(topics)
    assert (list(chosen), len(left_out)) == ([live], 1)


def test_a_topic_without_records_does_not_take_the_place_of_one_that_has_some() -> None:
    # Given a topic that was told of behind the only object with records of another one
    topics = {NEW: FoundTopic(name="orders", seen_ms=50_000)}
    found = ToldTopics()
    found.take(telling(OLD, "orders"), 51_000)

    # When one is chosen, then it is the one with records
    found.add_to(topics)
    assert list(live_topics(topics)[0]) == [NEW]


def test_a_topic_of_which_a_segment_was_stored_since_was_not_deleted() -> None:
    # Given a topic of which a segment was stored just before a broker had no name for it
    topics = {
        NEW: FoundTopic(name="orders", seen_ms=50_000, configs_ms=50_000),
        OLD: FoundTopic(name="orders", seen_ms=10_000),
    }
    found = ToldTopics()
    found.take(telling(NEW, "orders"), 1000)
    found.take(telling(NEW, ""), 51_000)

    # When one is chosen, then it is that one
    found.add_to(topics)
    assert list(live_topics(topics)[0]) == [NEW]
