"""What must hold of a topic that a job has written, as a stock consumer reads it."""

from collections import defaultdict

from tests.clients.confluent import Confluent
from tests.clients.records import check_dense_offsets
from tests.spark.crash.judge import disordered, violations
from tests.spark.crash.keyed_input import KeyedInput, number_of


def check_copy(confluent: Confluent, topic: str, given: KeyedInput) -> None:
    """Every visible record is there once, each key in one partition, in the order sent.

    Raises:
        AssertionError: something is lost, there twice, invisible, or in another place or order.
    """
    found = confluent.consume(topic)
    check_dense_offsets(found)  # no transactions in between: all offsets are records
    expected = ((sent.key, sent.value) for sent in given.visible)
    wrong = violations(
        expected,
        ((record.key, record.value) for record in found),
        lambda one: number_of(one[1]) in given.invisible,
    )
    assert not wrong, "; ".join(wrong)
    numbers: defaultdict[bytes, list[int]] = defaultdict(list)
    partitions: defaultdict[bytes, set[int]] = defaultdict(set)
    for record in found:
        assert record.key is not None
        numbers[record.key].append(number_of(record.value))
        partitions[record.key].add(record.partition)
    assert {key: some for key, some in partitions.items() if len(some) > 1} == {}
    assert disordered(given.of_key(), numbers) == []
