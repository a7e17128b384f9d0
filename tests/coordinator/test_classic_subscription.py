"""Member metadata comes from the wire: whatever it is, reading topics from it ends well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.classic_subscription import UnreadableSubscription, read_subscribed_topics
from tests.coordinator.classic_script import subscription

NAMES = st.lists(st.text(max_size=8), max_size=5)


@given(names=NAMES)
def test_topics_are_read_whatever_follows_them(names: list[str]) -> None:
    assert read_subscribed_topics(subscription(*names)) == frozenset(names)


@given(names=NAMES, version=st.integers(0, 2**15 - 1), rest=st.binary(max_size=20))
def test_versions_of_the_future_begin_alike(names: list[str], version: int, rest: bytes) -> None:
    metadata = version.to_bytes(2) + subscription(*names)[2:] + rest
    assert read_subscribed_topics(metadata) == frozenset(names)


@given(metadata=st.binary(max_size=40))
def test_no_bytes_do_harm(metadata: bytes) -> None:
    try:
        topics = read_subscribed_topics(metadata)
    except UnreadableSubscription:
        return
    assert all(isinstance(topic, str) for topic in topics)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\1\0\0\0",
        b"\xff\xff\0\0\0\0",
        b"\0\1\xff\xff\xff\xff",
        b"\0\1\x7f\xff\xff\xff",
        b"\0\1\0\0\0\1\0",
        b"\0\1\0\0\0\1\xff\xff",
        b"\0\1\0\0\0\1\0\5abc",
        b"\0\1\0\0\0\1\0\1\xff",
    ],
)
def test_unreadable_metadata_is_named_so(metadata: bytes) -> None:
    with pytest.raises(UnreadableSubscription):
        read_subscribed_topics(metadata)
