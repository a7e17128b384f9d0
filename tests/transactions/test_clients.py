"""Transactions as stock clients use them; each client's output is read by another library.

The Java client speaks the second version of the protocol (KIP-890) by itself where the broker has
it; the other libraries speak the first.
"""

from collections.abc import Sequence
from typing import Final

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.transactions.client import (
    CALL_S,
    Fenced,
    Library,
    MustAbort,
    Read,
    TooLate,
    Writer,
    read_when_there,
    within,
)
from tests.transactions.conftest import NewTopic

PARTITIONS: Final = 3
MANY_PARTITIONS: Final = 24
RECORDS: Final = 1_000
SHORT_MS: Final = 5_000  # in which a busy machine has written three records
LATE_S: Final = 5.0  # a transaction is aborted no later than this after its timeout


def started(library: Library, transactional_id: str) -> Writer:
    """Return a writer that is ready for its first transaction."""
    writer = library.writer(transactional_id)
    writer.init()
    return writer


def spread(values: Sequence[str], partition_count: int = PARTITIONS) -> list[tuple[int, str]]:
    """Deal values out to partitions."""
    return [(number % partition_count, value) for number, value in enumerate(values)]


def values_of(reads: Sequence[Read]) -> list[str]:
    return sorted(one.value for one in reads)


def committed_offset(bootstrap: str, group: str, topic: str) -> tuple[int, int | None]:
    """Return what a group has committed in partition 0, and the code that comes with it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    answered = admin.list_consumer_group_offsets(
        [asked], require_stable=True, request_timeout=CALL_S
    )
    (place,) = answered[group].result().topic_partitions or [TopicPartition(topic)]
    return place.offset, None if place.error is None else place.error.code()


def stable_offset(bootstrap: str, group: str, topic: str) -> int:
    """Return what a group has committed in partition 0, when no transaction changes it."""
    within(CALL_S, lambda: committed_offset(bootstrap, group, topic)[1] is None, "stable offset")
    return committed_offset(bootstrap, group, topic)[0]


def test_only_committed_transactions_are_read(
    library: Library, reader: Library, topic_of: NewTopic
) -> None:
    # Given a producer
    topic = topic_of(PARTITIONS)
    writer = started(library, topic)
    first, second, third = (spread([f"{word}-{n}" for n in range(9)]) for word in "abc")

    # When it commits a transaction, aborts one, and commits another
    writer.begin()
    writer.send(topic, first)
    while_open = reader.read(topic)
    writer.commit()
    writer.begin()
    writer.send(topic, second)
    writer.abort()
    writer.begin()
    writer.send(topic, third)
    writer.commit()

    # Then readers of committed records see just what was committed, in order, once it is
    assert while_open == []
    reads = read_when_there(reader, topic, len(first) + len(third))
    for partition in range(PARTITIONS):
        wanted = [value for place, value in (*first, *third) if place == partition]
        assert [one.value for one in reads if one.partition == partition] == wanted
    # and others see everything
    everything = [value for _, value in (*first, *second, *third)]
    assert values_of(reader.read(topic, committed=False)) == sorted(everything)
    writer.close()


def test_records_of_others_wait_for_an_open_transaction(
    library: Library, reader: Library, topic_of: NewTopic
) -> None:
    # Given an open transaction of one producer
    topic = topic_of(1)
    slow = started(library, f"{topic}-slow")
    slow.begin()
    slow.send(topic, [(0, "slow")])

    # When another producer begins later and commits
    quick = started(library, f"{topic}-quick")
    quick.begin()
    quick.send(topic, [(0, "quick")])
    quick.commit()

    # Then a reader of committed records gets neither, until the first has aborted
    assert reader.read(topic) == []
    slow.abort()
    assert values_of(read_when_there(reader, topic, 1)) == ["quick"]
    slow.close()
    quick.close()


def test_a_transaction_of_a_thousand_records_in_many_partitions(
    library: Library, reader: Library, topic_of: NewTopic
) -> None:
    # Given a topic of many partitions
    topic = topic_of(MANY_PARTITIONS)
    writer = started(library, topic)
    aborted = spread([f"aborted-{number}" for number in range(RECORDS)], MANY_PARTITIONS)
    committed = spread([f"{number:04}" for number in range(RECORDS)], MANY_PARTITIONS)

    # When a transaction writes a thousand records to all of them and aborts, and one commits
    writer.begin()
    writer.send(topic, aborted)
    writer.abort()
    writer.begin()
    writer.send(topic, committed)
    writer.commit()

    # Then the records of the second are read, each partition's in order
    reads = read_when_there(reader, topic, RECORDS)
    for partition in range(MANY_PARTITIONS):
        wanted = [value for place, value in committed if place == partition]
        assert [one.value for one in reads if one.partition == partition] == wanted
    assert len(reader.read(topic, committed=False)) == 2 * RECORDS
    writer.close()


def test_offsets_are_committed_with_the_transaction(
    library: Library, reader: Library, topic_of: NewTopic, bootstrap: str
) -> None:
    # Given a member of a group that has read two records
    source, target = topic_of(1), topic_of(1)
    writer = started(library, source)
    writer.begin()
    writer.send(source, [(0, "one"), (0, "two")])
    writer.commit()
    member = library.member(source, source, 2)

    # When a transaction with its offsets aborts
    writer.begin()
    writer.send(target, [(0, "aborted")])
    writer.send_offsets(source, {0: 2}, member)
    writer.abort()
    after_abort = stable_offset(bootstrap, source, source)
    # and another one has them
    writer.begin()
    writer.send(target, [(0, "committed")])
    writer.send_offsets(source, {0: 1}, member)
    while_open = committed_offset(bootstrap, source, source)
    writer.commit()

    # Then they are committed when it is; before, who asks for stable ones is told to wait
    assert after_abort == OFFSET_INVALID
    assert while_open == (OFFSET_INVALID, KafkaError.UNSTABLE_OFFSET_COMMIT)
    assert stable_offset(bootstrap, source, source) == 1
    assert values_of(read_when_there(reader, target, 1)) == ["committed"]
    member.leave()
    writer.close()


def test_offsets_of_a_member_that_is_gone_are_refused(
    libraries: dict[str, Library], topic_of: NewTopic, bootstrap: str
) -> None:
    for library in libraries.values():
        if not library.tells_group_metadata:
            continue
        # Given a producer with the metadata of a member that has left its group (KIP-447)
        topic = topic_of(1)
        writer = started(library, topic)
        writer.begin()
        writer.send(topic, [(0, "one")])
        writer.commit()
        member = library.member(topic, topic, 1)
        member.leave()

        # When it sends offsets for that member
        writer.begin()
        with pytest.raises(MustAbort):
            writer.send_offsets(topic, {0: 1}, member)

        # Then it has to abort, and can go on
        writer.abort()
        assert stable_offset(bootstrap, topic, topic) == OFFSET_INVALID
        writer.begin()
        writer.send(topic, [(0, "two")])
        writer.commit()
        assert values_of(read_when_there(library, topic, 2)) == ["one", "two"]
        writer.close()


def test_a_second_instance_fences_the_first(
    library: Library, reader: Library, topic_of: NewTopic
) -> None:
    # Given a producer in a transaction
    topic = topic_of(PARTITIONS)
    first = started(library, topic)
    first.begin()
    first.send(topic, spread(["a", "b", "c"]))

    # When another one starts with the same transactional id
    second = started(library, topic)

    # Then the first can do nothing more, and its transaction is aborted
    with pytest.raises(Fenced):
        first.commit()
    second.begin()
    second.send(topic, spread(["d", "e", "f"]))
    second.commit()
    assert values_of(read_when_there(reader, topic, 3)) == ["d", "e", "f"]
    assert values_of(reader.read(topic, committed=False)) == list("abcdef")
    first.close()
    second.close()


def test_a_fenced_instance_cannot_write(library: Library, topic_of: NewTopic) -> None:
    # Given a producer that another one has fenced between two transactions
    topic = topic_of(1)
    first = started(library, topic)
    first.begin()
    first.send(topic, [(0, "a")])
    first.commit()
    second = started(library, topic)

    # When it writes
    first.begin()
    with pytest.raises((Fenced, MustAbort)):
        _send_and_commit(first, topic)

    # Then nobody sees that, not even those that read everything
    second.begin()
    second.send(topic, [(0, "b")])
    second.commit()
    assert values_of(library.read(topic, committed=False)) == ["a", "b"]
    first.close()
    second.close()


def _send_and_commit(writer: Writer, topic: str) -> None:
    writer.send(topic, [(0, "fenced")])
    writer.commit()


def test_a_transaction_that_takes_too_long_is_aborted(
    library: Library, reader: Library, topic_of: NewTopic
) -> None:
    # Given a transaction of a producer that does not end it
    topic = topic_of(PARTITIONS)
    writer = library.writer(topic, timeout_ms=SHORT_MS)
    writer.init()
    writer.begin()
    writer.send(topic, spread(["a", "b", "c"]))
    # and a later one of another producer
    other = started(library, f"{topic}-other")
    other.begin()
    other.send(topic, spread(["d", "e", "f"]))
    other.commit()

    # When its time is over
    within(
        SHORT_MS / 1000 + LATE_S,
        lambda: values_of(reader.read(topic)) == ["d", "e", "f"],
        "end of a transaction that takes too long",
    )

    # Then it cannot be committed any more
    with pytest.raises((Fenced, MustAbort, TooLate)):
        writer.commit()
    assert values_of(reader.read(topic)) == ["d", "e", "f"]
    # and a new instance writes as if nothing had been
    again = started(library, topic)
    again.begin()
    again.send(topic, spread(["g"]))
    again.commit()
    assert values_of(read_when_there(reader, topic, 4)) == ["d", "e", "f", "g"]
    for one in (writer, other, again):
        one.close()
