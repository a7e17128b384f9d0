"""The topics in a ConsumerProtocolSubscription, the metadata of protocol type "consumer".

Only the fields of version 0, which all versions begin with: version, topic names. So nothing here
depends on versions that clients invent later.
"""

CONSUMER_PROTOCOL = "consumer"
VERSION_BYTES = 2
COUNT_BYTES = 4
LENGTH_BYTES = 2


class UnreadableSubscription(Exception):
    """The metadata is not what protocol type "consumer" says it is; Kafka carries it anyway."""


def read_subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topic names; work and memory are bounded by the size of the metadata.

    Raises:
        UnreadableSubscription: a name does not fit into the bytes, or is no UTF-8.
    """
    start = VERSION_BYTES + COUNT_BYTES
    if len(metadata) < start:
        raise UnreadableSubscription(f"{len(metadata)} bytes")
    count = int.from_bytes(metadata[VERSION_BYTES:start], signed=True)
    if int.from_bytes(metadata[:VERSION_BYTES], signed=True) < 0 or count < 0:
        raise UnreadableSubscription("negative version or number of topics")
    topics = set()
    for _ in range(count):  # each round uses up bytes or raises
        name, start = _read_name(metadata, start)
        topics.add(name)
    return frozenset(topics)


def _read_name(metadata: bytes, start: int) -> tuple[str, int]:
    """Return the name that starts at a byte, and the byte after it."""
    begin = start + LENGTH_BYTES
    length = int.from_bytes(metadata[start:begin], signed=True)
    if length < 0 or begin + length > len(metadata):
        raise UnreadableSubscription(f"a topic name of {length} bytes at byte {start}")
    try:
        return metadata[begin : begin + length].decode(), begin + length
    except UnicodeDecodeError as error:
        raise UnreadableSubscription(f"a topic name at byte {start} is no UTF-8") from error
