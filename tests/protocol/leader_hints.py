"""Leaders and their addresses in answers (KIP-951): what may be told, and what kio reads of it."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from protocol.leader_hints import CurrentLeader
from protocol.metadata_response import BrokerAnswer

INT32: Final = st.integers(0, 2**31 - 1)
LEADERS: Final = st.none() | st.builds(CurrentLeader, INT32, INT32)
NODES: Final = st.lists(
    st.builds(
        BrokerAnswer,
        node_id=INT32,
        host=st.text(max_size=200),
        port=INT32,
        rack=st.none() | st.text(max_size=9),
    ),
    max_size=3,
)


def whole(answer: bytes | Sequence[bytes | memoryview]) -> bytes:
    """Return an encoded answer as one buffer."""
    return answer if isinstance(answer, bytes) else b"".join(answer)


def read_leader(partition: Any) -> CurrentLeader | None:
    """Return whom a partition of a decoded response names."""
    found = CurrentLeader(partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    return None if found == (-1, -1) else found


def read_nodes(response: Any) -> list[BrokerAnswer]:
    """Return the addresses that a decoded response has."""
    return [
        BrokerAnswer(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in response.node_endpoints
    ]
