"""Ranges that conditions leave: never narrower than what the condition is true of."""

from hypothesis import given
from hypothesis import strategies as st

from spark.sources.wanted import Span, Wanted

limits = st.none() | st.integers(-20, 20)
spans = st.builds(Span, first=limits, last=limits)
wanted = st.builds(Wanted, partitions=spans, offsets=spans, timestamps_us=spans)
numbers = st.integers(-25, 25)
records = st.tuples(numbers, numbers, numbers)


def holds(one: Wanted, record: tuple[int, int, int]) -> bool:
    spans = (one.partitions, one.offsets, one.timestamps_us)
    return all(number in span for number, span in zip(record, spans, strict=True))


@given(wanted, wanted, records)
def test_both_is_what_is_in_both(one: Wanted, other: Wanted, record: tuple[int, int, int]) -> None:
    assert holds(one.both(other), record) == (holds(one, record) and holds(other, record))


@given(wanted, wanted, records)
def test_either_leaves_out_nothing_of_either(
    one: Wanted, other: Wanted, record: tuple[int, int, int]
) -> None:
    if holds(one, record) or holds(other, record):
        assert holds(one.either(other), record)


@given(wanted, records)
def test_nothing_is_in_what_is_empty(one: Wanted, record: tuple[int, int, int]) -> None:
    if one.is_empty:
        assert not holds(one, record)


@given(spans, st.integers(-100, 100))
def test_milliseconds_hold_all_microseconds(span: Span, milliseconds: int) -> None:
    # When microseconds are wanted, then a record of that millisecond is wanted just the same
    far = Span(
        first=None if span.first is None else span.first * 700,
        last=None if span.last is None else span.last * 700,
    )
    first, until = Wanted(timestamps_us=far).timestamps_ms()
    in_range = (first is None or first <= milliseconds) and (until is None or milliseconds < until)
    assert in_range == (milliseconds * 1000 in far)
