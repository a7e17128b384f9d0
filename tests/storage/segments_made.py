"""Batches with gaps, and segments of them, as hypothesis draws them."""

from uuid import UUID

from hypothesis import strategies as st

from protocol.batch import read_header
from protocol.records import Record, build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.segment_encoder import BuiltSegment, SegmentEncoder
from storage.upkeep.policies import TopicPolicy
from tests.support.policies import read_policy

TOPIC_ID = UUID("0190163d-8694-739b-aea5-966c26f8ad91")
PARTITION = 3
POLICY = read_policy("user-events", 6, {"cleanup.policy": "compact", "retention.ms": "2592000000"})


@st.composite
def batches_with_gaps(draw: st.DrawFn, *, max_batches: int = 12) -> list[bytes]:
    """Draw batches whose base offsets ascend; offsets are missing between them and in them."""
    offset = draw(st.integers(0, 2**40))
    batches = []
    for _ in range(draw(st.integers(0, max_batches))):
        offset += draw(st.integers(0, 5))
        deltas = sorted(draw(st.sets(st.integers(0, 20), max_size=4)))
        last = draw(st.integers(deltas[-1] if deltas else 0, 25))
        value = draw(st.binary(max_size=40))
        timestamp_ms = draw(st.integers(0, 2**41))
        batches.append(
            build_batch(
                [Record(offset_delta=delta, value=value) for delta in deltas],
                base_offset=offset,
                last_offset_delta=last,
                base_timestamp_ms=timestamp_ms,
                attributes=draw(st.integers(0, 4)),
            )
        )
        offset += last + 1
    return batches


def last_offset_of(batch: bytes) -> int:
    header = read_header(batch)
    return header.base_offset + header.last_offset_delta


def build_segment(
    batches: list[bytes],
    *,
    before: int = 0,
    behind: int = 0,
    aborted: tuple[AbortedTransaction, ...] = (),
    horizons: tuple[tuple[int, int], ...] = (),
    policy: TopicPolicy = POLICY,
) -> BuiltSegment:
    """Build one that covers as many offsets before its first batch and behind its last one."""
    start_offset = read_header(batches[0]).base_offset - before if batches else 0
    end_offset = last_offset_of(batches[-1]) + behind if batches else behind
    encoder = SegmentEncoder(
        topic_id=TOPIC_ID, partition=PARTITION, topic=policy, start_offset=start_offset
    )
    for batch in batches:
        encoder.add(batch)
    return encoder.finish(end_offset=end_offset, aborted=aborted, horizons=horizons)


def whole(built: BuiltSegment) -> bytearray:
    """Return the object's bytes."""
    return bytearray(b"".join(built.parts))
