"""What classic consumers and we tell each other in bytes, checked against kio's schemas."""

import io
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3 import data as assignment_v3
from kio.schema.consumer_protocol_subscription.v3 import data as subscription_v3
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from coordinator.catalog import Catalog, CatalogTopic
from coordinator.classic_subscription import UnreadableSubscription
from coordinator.consumer_protocol import (
    read_assignment,
    read_subscription,
    to_partitions,
    write_assignment,
)
from protocol.ids import Partition

T1 = CatalogTopic(topic_id=UUID(int=1), name="t1", partition_count=3)
CATALOG = Catalog(version=1, by_name={"t1": T1}, by_id={T1.topic_id: T1})


def test_an_assignment_is_read_as_it_was_written() -> None:
    held = {Partition(T1.topic_id, 2), Partition(T1.topic_id, 0)}
    gone = Partition(UUID(int=9), 0)
    by_name, assignor_data = read_assignment(write_assignment({*held, gone}, CATALOG))
    assert by_name == {"t1": [0, 2]}
    assert assignor_data == b""
    assert to_partitions(by_name, CATALOG) == held


def test_all_fields_of_a_subscription_are_read() -> None:
    claim = subscription_v3.TopicPartition(topic=TopicName("t1"), partitions=(i32(1), i32(2)))
    buffer = io.BytesIO()
    entity_writer(subscription_v3.ConsumerProtocolSubscription)(
        buffer,
        subscription_v3.ConsumerProtocolSubscription(
            topics=("t1", "t2"),
            user_data=b"sticky",
            owned_partitions=(claim,),
            generation_id=i32(7),
            rack_id="north",
        ),
    )
    for version in (3, 9):  # a version of the future reads as the newest known one
        says = read_subscription(version.to_bytes(2) + buffer.getvalue())
        assert says.topics == {"t1", "t2"}
        assert says.owned == {"t1": [1, 2]}
        assert says.rack_id == "north"


def test_an_assignment_is_written_as_clients_expect_it() -> None:
    part = assignment_v3.TopicPartition(topic=TopicName("t1"), partitions=(i32(0), i32(2)))
    buffer = io.BytesIO()
    entity_writer(assignment_v3.ConsumerProtocolAssignment)(
        buffer, assignment_v3.ConsumerProtocolAssignment(assigned_partitions=(part,))
    )
    held = [Partition(T1.topic_id, 0), Partition(T1.topic_id, 2)]
    assert write_assignment(held, CATALOG) == b"\0\3" + buffer.getvalue()


def test_what_does_not_exist_is_left_out() -> None:
    assert to_partitions({"t1": [-1, 0, 3], "t2": [0]}, CATALOG) == {Partition(T1.topic_id, 0)}


def test_nothing_is_an_empty_assignment() -> None:
    assert read_assignment(b"") == ({}, b"")


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0",
        b"\xff\xff\0\0\0\0",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\0\0\0\1\0\5ab",
        b"\0\0\0\0\0\1\xff\xff",
    ],
)
def test_broken_metadata_is_unreadable(metadata: bytes) -> None:
    with pytest.raises(UnreadableSubscription):
        read_subscription(metadata)


@given(metadata=st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_unreadable(metadata: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(metadata)
        except UnreadableSubscription:
            continue
