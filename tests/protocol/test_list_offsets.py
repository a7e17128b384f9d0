"""Our ListOffsets responses against the generic codec, every version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from protocol.codec import encode_response, response_types
from protocol.list_offsets import OffsetAnswer, encode_list_offsets
from tests.support.wire import milliseconds

LIST_OFFSETS = 2
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ANSWERS = st.builds(OffsetAnswer, INT32, st.sampled_from(ErrorCode), INT64, INT64, INT32)
TOPICS = st.lists(st.tuples(st.text(max_size=12), st.lists(ANSWERS, max_size=300)), max_size=3)


@pytest.mark.parametrize("version", range(1, 12))
@given(topics=TOPICS, correlation_id=INT32)
def test_an_answer_is_the_generic_codecs(
    version: int, topics: list[tuple[str, list[OffsetAnswer]]], correlation_id: int
) -> None:
    types = response_types(LIST_OFFSETS, version)
    response = types.ListOffsetsResponse(
        throttle_time=milliseconds(0),
        topics=tuple(
            types.ListOffsetsTopicResponse(
                name=name,
                partitions=tuple(
                    types.ListOffsetsPartitionResponse(
                        partition_index=answer.partition,
                        error_code=ErrorCode(answer.error_code),
                        timestamp=answer.timestamp_ms,
                        offset=answer.offset,
                        leader_epoch=answer.leader_epoch,
                    )
                    for answer in answers
                ),
            )
            for name, answers in topics
        ),
    )
    encoded = encode_list_offsets(correlation_id, version, topics)
    assert encoded == encode_response(correlation_id, response)
