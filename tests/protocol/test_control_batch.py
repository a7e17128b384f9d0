"""The control batch that ends a transaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import CONTROL_BIT, TRANSACTIONAL_BIT, batch_extents, read_header
from protocol.control_batch import EndMarker, build_end_marker, read_end_marker
from protocol.errors import CorruptBatch, InvalidRecords
from protocol.records import Record, build_batch

CONTROL = TRANSACTIONAL_BIT | CONTROL_BIT


@given(
    marker=st.builds(
        EndMarker,
        producer_id=st.integers(0, 2**63 - 1),
        producer_epoch=st.integers(0, 2**15 - 1),
        committed=st.booleans(),
        timestamp_ms=st.integers(0, 2**63 - 1),
        coordinator_epoch=st.integers(0, 2**31 - 1),
    ),
    leader_epoch=st.integers(0, 2**31 - 1),
)
def test_what_is_written_is_read_back(marker: EndMarker, leader_epoch: int) -> None:
    batch = build_end_marker(marker, leader_epoch=leader_epoch)
    assert read_end_marker(batch) == marker
    header = read_header(batch)
    assert header.leader_epoch == leader_epoch
    assert header.attributes == CONTROL
    assert header.base_sequence == -1
    assert list(batch_extents(memoryview(batch))) == [(0, len(batch), 1)]


def test_the_bytes_are_those_of_kafka() -> None:
    """KIP-98 fixes them: a client reads key and value of the control record byte by byte."""
    marker = EndMarker(producer_id=4711, producer_epoch=3, committed=True, timestamp_ms=1)
    batch = build_end_marker(marker, leader_epoch=0)
    record = batch[61:]
    key, value = bytes.fromhex("00000001"), bytes.fromhex("000000000000")
    assert record == b"\x20\0\0\0" + b"\x08" + key + b"\x0c" + value + b"\0"


@pytest.mark.parametrize(
    ("attributes", "records"),
    [
        (TRANSACTIONAL_BIT, [Record(offset_delta=0, key=bytes(4), value=bytes(6))]),
        (CONTROL_BIT, [Record(offset_delta=0, key=bytes(4), value=bytes(6))]),
        (CONTROL, []),
        (CONTROL, [Record(offset_delta=at, key=bytes(4), value=bytes(6)) for at in range(2)]),
        (CONTROL, [Record(offset_delta=0, key=bytes(3), value=bytes(6))]),
        (CONTROL, [Record(offset_delta=0, key=bytes(4), value=bytes(5))]),
        (CONTROL, [Record(offset_delta=0, key=None, value=None)]),
        (CONTROL, [Record(offset_delta=0, key=b"\0\0\0\x02", value=bytes(6))]),
        (CONTROL | 1, [Record(offset_delta=0, key=bytes(4), value=bytes(6))]),
    ],
)
def test_anything_else_is_refused(attributes: int, records: list[Record]) -> None:
    with pytest.raises(InvalidRecords):
        read_end_marker(build_batch(records, attributes=attributes))


def test_a_piece_of_a_batch_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        read_end_marker(bytes(60))
