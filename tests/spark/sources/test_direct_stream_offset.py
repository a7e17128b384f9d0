"""What a checkpoint holds of a streaming query, and how batches follow each other."""

import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from spark.sources.cut import Range, TopicPartition
from spark.sources.stream_offset import Positions, StreamOffset, batch_ranges, limited

IDS = [UUID(int=number) for number in (1, 2)]
ORDERS = [TopicPartition(topic="orders", partition=n, topic_id=IDS[0]) for n in range(12)]
PAYMENTS = [TopicPartition(topic="payments", partition=n, topic_id=IDS[1]) for n in range(2)]

positions = st.dictionaries(st.sampled_from([*ORDERS, *PAYMENTS]), st.integers(0, 2**62))


def told(offset: StreamOffset) -> StreamOffset:
    """What Spark gives back of an offset."""
    return StreamOffset.of(json.loads(json.dumps(offset.to_json())))


@given(positions, positions)
def test_a_checkpoint_tells_what_it_was_told(begin: Positions, end: Positions) -> None:
    # When offsets go through a checkpoint, then they are what they were
    initial = StreamOffset(positions=begin, is_initial=True)
    first = initial.following(end)
    for offset in (initial, first, StreamOffset(positions=end)):
        assert told(offset) == offset
        assert json.dumps(told(offset).to_json()) == json.dumps(offset.to_json())


def test_a_checkpoint_is_in_the_words_of_the_kafka_source() -> None:
    # When an offset is written down, then partitions are in the order of their numbers
    offset = StreamOffset(positions=dict.fromkeys([ORDERS[10], ORDERS[2], *PAYMENTS], 7))
    assert json.dumps(offset.to_json()["offsets"]) == (
        '{"orders": {"2": 7, "10": 7}, "payments": {"0": 7, "1": 7}}'
    )


def test_nothing_new_is_the_same_offset() -> None:
    # Given the end of a first batch, which tells where that began
    initial = StreamOffset(positions={ORDERS[0]: 3}, is_initial=True)
    first = initial.following({ORDERS[0]: 5})

    # When nothing comes, then the next one is that one: Spark makes no batch
    assert first.following({ORDERS[0]: 5}) is first
    # and when something comes, then where the query began is told no more
    assert first.following({ORDERS[0]: 6}) == StreamOffset(positions={ORDERS[0]: 6})


def test_a_first_batch_that_is_repeated_begins_where_it_began() -> None:
    # Given a first batch, and a query that is told another beginning when it is started again
    end = StreamOffset(positions={ORDERS[0]: 3}, is_initial=True).following({ORDERS[0]: 5})
    later = StreamOffset(positions={ORDERS[0]: 9}, is_initial=True)

    # When the batch is planned again, then it is what it was
    assert batch_ranges(told(later), told(end)) == {ORDERS[0]: Range(start=3, end=5)}
    # and a checkpoint's offset is never overruled
    kept = StreamOffset(positions={ORDERS[0]: 4})
    assert batch_ranges(kept, told(end)) == {ORDERS[0]: Range(start=4, end=5)}


def test_a_partition_that_came_is_read_from_its_beginning() -> None:
    # When a batch ends in a partition that the one before did not know, then that begins at 0
    start = StreamOffset(positions={ORDERS[0]: 4, PAYMENTS[0]: 2})
    end = StreamOffset(positions={ORDERS[0]: 4, ORDERS[1]: 8})
    assert batch_ranges(start, end) == {ORDERS[1]: Range(start=0, end=8)}


@given(positions, st.integers(1, 10**6))
def test_a_limit_is_divided_and_starves_nobody(ends: Positions, most: int) -> None:
    # When ends are limited, then none is passed, all that lag move on, and few go beyond the limit
    begins = {each: end // 2 for each, end in ends.items()}
    found = limited(begins, ends, most)
    assert found.keys() == ends.keys()
    for each, end in ends.items():
        assert begins[each] <= found[each] <= end
        assert found[each] > begins[each] or end == begins[each]
    assert sum(found[each] - begins[each] for each in found) <= most + len(ends)
    assert limited(begins, ends, None) == ends
