"""DescribeQuorum: v0-2 (KIP-595). v1 times (KIP-836), v2 addresses and directories (KIP-853).

There is no Raft: the metadata is in Postgres, which every broker reads and writes. What tools show
of a quorum is true of the brokers all the same: the one that Metadata names controller is its
leader, the live ones are its voters, its epoch is their generation, its log's end is the version of
the metadata, and nobody lags. Voters have no directories, and cannot be added or removed.

ACLs: DESCRIBE on the cluster.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import Node
from broker.requests import Request

METADATA_TOPIC: Final = "__cluster_metadata"
LISTENER: Final = "BROKER"
_FIRST_NODES: Final = 2


async def handle(request: Request) -> Payload:
    """Describe the quorum, if that is what is asked for, and nothing else."""
    body = request.decode()
    asked = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in body.topics
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return await request.aside(_unknown, request, body)
    topics, types = request.services.topics, request.types
    await topics.refresh()
    return _response(
        request,
        types.TopicData(
            topic_name=METADATA_TOPIC, partitions=(_partition(request, topics.version),)
        ),
        nodes=request.services.cluster.live,
    )


def _response(request: Request, *topics: object, nodes: tuple[Node, ...]) -> Payload:
    types = request.types
    described = ()
    if request.version >= _FIRST_NODES:
        described = tuple(
            types.Node(
                node_id=node.node_id,
                listeners=(types.Listener(name=LISTENER, host=node.host, port=node.port),),
            )
            for node in nodes
        )
    response: Payload = types.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=topics, nodes=described
    )
    return response


def _partition(request: Request, end_offset: int) -> Any:
    services, types = request.services, request.types
    now_ms = services.now_ms()
    return types.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=services.cluster.controller.node_id,
        leader_epoch=services.cluster.generation,
        high_watermark=end_offset,
        current_voters=tuple(
            types.ReplicaState(
                replica_id=node.node_id,
                replica_directory_id=None,
                log_end_offset=end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for node in services.cluster.live
        ),
        observers=(),
    )


def _unknown(request: Request, body: Any) -> Payload:
    types = request.types
    topics = [
        types.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                types.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.unknown_topic_or_partition,
                    error_message=f"Only partition 0 of {METADATA_TOPIC} has a quorum.",
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=(),
                    observers=(),
                )
                for partition in topic.partitions
            ),
        )
        for topic in body.topics
    ]
    return _response(request, *topics, nodes=())
