"""Pages of DescribeTopicPartitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.topic_pages import Cursor, Page, page_of

COUNTS = st.dictionaries(st.text("ab.", min_size=1, max_size=3), st.integers(0, 5), max_size=8)


def spans(page: Page) -> dict[str, list[int]]:
    return {name: list(span) for name, span in page.spans.items()}


@given(counts=COUNTS, limit=st.integers(-1, 7))
def test_pages_put_together_are_all_partitions_in_order(counts: dict[str, int], limit: int) -> None:
    read: list[tuple[str, int]] = []
    topics: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = page_of(counts, cursor, limit=limit)
        on_page = [(name, index) for name, span in page.spans.items() for index in span]
        assert len(on_page) <= max(limit, 1)
        assert page.following is None or on_page
        read += on_page
        topics += page.spans
        cursor, pages = page.following, pages + 1
    assert read == [(name, index) for name in sorted(counts) for index in range(counts[name])]
    assert set(topics) == set(counts)


@pytest.mark.parametrize(
    ("cursor", "limit", "read", "following"),
    [
        (None, 2, {"a": [0, 1]}, Cursor("a", 2)),
        (None, 3, {"a": [0, 1, 2]}, Cursor("b", 0)),
        (Cursor("a", 2), 2, {"a": [2], "b": [0]}, Cursor("b", 1)),
        (Cursor("b", 0), 2, {"b": [0, 1]}, None),
        (Cursor("a", 9), 9, {"a": [], "b": [0, 1]}, None),
        (Cursor("aa", 1), 9, {"b": [0, 1]}, None),
        (Cursor("zz", 0), 9, {}, None),
    ],
)
def test_a_page_begins_at_its_cursor(
    cursor: Cursor | None, limit: int, read: dict[str, list[int]], following: Cursor | None
) -> None:
    page = page_of({"b": 2, "a": 3}, cursor, limit=limit)
    assert (spans(page), page.following) == (read, following)


def test_a_cursor_in_no_partition_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        page_of({"a": 3}, Cursor("a", -1), limit=2)
    assert refused.value.code is ErrorCode.invalid_request
