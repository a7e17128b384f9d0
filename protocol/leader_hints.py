"""Who leads a partition and where that is, in the answer of a broker that does not (KIP-951).

Tagged fields of Produce from v10 and of Fetch from v16 on: the client asks the leader at once, with
neither a Metadata request nor a pause in between. Tests hold this against the generic codec.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.codec import write_uvarint
from protocol.metadata_response import BrokerAnswer

NO_TAGS: Final = b"\x00"

_LEADER: Final = struct.Struct(">BBBiiB")  # one field, its tag and size; id, epoch; no tags in it
_LEADER_BYTES: Final = 9
_NODE_ENDPOINTS: Final = 0
_INT32: Final = struct.Struct(">i")


class CurrentLeader(NamedTuple):
    """The leader of a partition, and the epoch in which it is."""

    leader_id: int
    leader_epoch: int


def leader_tags(leader: CurrentLeader, tag: int) -> bytes:
    """Return a partition's tagged fields: its leader, under a tag that differs between APIs."""
    return _LEADER.pack(1, tag, _LEADER_BYTES, *leader, 0)


def node_tags(nodes: Sequence[BrokerAnswer]) -> bytes:
    """Return a response's tagged fields: where the leaders that it names are."""
    field = bytearray(write_uvarint(len(nodes) + 1))
    for node in nodes:
        host = node.host.encode()
        field += _INT32.pack(node.node_id) + write_uvarint(len(host) + 1) + host
        rack = b"" if node.rack is None else node.rack.encode()
        field += _INT32.pack(node.port)
        field += write_uvarint(0 if node.rack is None else len(rack) + 1) + rack + NO_TAGS
    return b"\x01" + write_uvarint(_NODE_ENDPOINTS) + write_uvarint(len(field)) + bytes(field)
