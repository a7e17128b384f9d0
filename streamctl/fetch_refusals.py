"""What brokers answer to reads that bring no record: librdkafka repeats some of them in silence."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from confluent_kafka import KafkaError

from streamctl.connection import Connection
from streamctl.errors import Failure
from streamctl.wire import Wire, refused

_FETCH: Final = 1
_METADATA: Final = 3
_LEAST_BYTES: Final = 1  # one batch comes all the same (KIP-74)


def fetch_refusals(
    connection: Connection, topic: str, offsets: Mapping[int, int]
) -> dict[int, Failure]:
    """Read once from each partition's leader, and return what was refused.

    Args:
        connection: how the cluster is reached.
        topic: its name.
        offsets: where to read, by partition.

    Returns:
        By partition; those that can be read are not there.

    Raises:
        BrokerUnreachable: a broker did not answer.
        Failure: it cannot be asked like this.
    """
    subject = f"topic {topic!r}"
    with Wire.connect(connection) as wire:
        described = _describe(wire, topic)
        by_leader: dict[int, list[int]] = defaultdict(list)
        for one in described.partitions:
            if one.partition_index in offsets:
                by_leader[one.leader_id].append(one.partition_index)
        refusals: dict[int, Failure] = {}
        for leader, partitions in by_leader.items():
            if leader < 0:
                without_leader = refused(subject, KafkaError.LEADER_NOT_AVAILABLE, None)
                refusals |= dict.fromkeys(partitions, without_leader)
                continue
            with wire.to_broker(leader) as broker:
                codes = _fetch(broker, described, {at: offsets[at] for at in partitions})
            refusals |= {
                at: refused(subject, code, None, needs=f"read --topic {topic}")
                for at, code in codes.items()
                if code
            }
    return refusals


def _describe(wire: Wire, topic: str) -> Any:
    types = wire.types(_METADATA)
    named = _part(types.MetadataRequestTopic, name=topic, topic_id=None)
    answer = wire.ask(
        _METADATA,
        topics=(named,),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    (described,) = answer.topics
    if described.error_code:
        needs = f"read --topic {topic}"
        raise refused(f"topic {topic!r}", described.error_code, None, needs=needs)
    return described


def _fetch(broker: Wire, described: Any, offsets: Mapping[int, int]) -> dict[int, int]:
    """Return the error code of each partition; 0 where it can be read."""
    types = broker.types(_FETCH)
    partitions = tuple(
        types.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=_LEAST_BYTES
        )
        for partition, offset in offsets.items()
    )
    wanted = _part(
        types.FetchTopic,
        topic=described.name,
        topic_id=getattr(described, "topic_id", None),
        partitions=partitions,
    )
    answer = broker.ask(
        _FETCH,
        max_wait=timedelta(0),
        min_bytes=0,
        topics=(wanted,),
        forgotten_topics_data=(),
    )
    topics: Sequence[Any] = answer.responses
    return {one.partition_index: one.error_code for of in topics for one in of.partitions}


def _part(kind: Any, **fields: object) -> Any:
    """Return a part of a request with those of the fields that its version has."""
    return kind(**{name: one for name, one in fields.items() if name in kind.__dataclass_fields__})
