"""WriteTxnMarkers: v1-2 (KIP-664: the tools' way to abort a transaction). v1 flexible, v2 KIP-890.

Kafka's coordinators end transactions with it, partition by partition; here they need no request for
that, and a marker in one partition alone would tear a transaction. So an abort is done for all of
the open transaction that the partition is part of, and fences its producer; a commit is refused.

A partition that is not part of the producer's open transaction gets no marker, and no error: there
is nothing that a marker could end. (Kafka appends one, which changes nothing for its readers.)

ACLs: ALTER on the cluster, or CLUSTER_ACTION, as Kafka's brokers have it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.offset_requests import AskedTopic, look_up_topics
from broker.requests import Request
from broker.transactions.transaction_requests import code_of_verdict
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.errors import MetadataUnavailable

Codes = Mapping[Partition, ErrorCode] | ErrorCode
"""What answers each partition that exists, or all of them."""


async def handle(request: Request) -> Payload:
    """Do what each marker is for; each partition answers for itself."""
    body = request.decode()
    is_allowed = request.allows(
        Operation.ALTER, ResourceType.CLUSTER, audit=False
    ) or request.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    result = _result if is_allowed else _denied
    results = [await result(request, marker) for marker in body.markers]
    response: Payload = request.types.WriteTxnMarkersResponse(markers=tuple(results))
    return response


async def _result(request: Request, marker: Any) -> Any:
    try:
        topics = await look_up_topics(request, marker.topics, None)
        codes = await _codes(request, marker, topics)
    except MetadataUnavailable:  # tools look for the leader, and ask again
        return _coded(request, marker, _unknown(marker), ErrorCode.broker_not_available)
    return _coded(request, marker, topics, codes)


async def _denied(request: Request, marker: Any) -> Any:
    code = ErrorCode.cluster_authorization_failed
    return _coded(request, marker, _unknown(marker), code)


def _unknown(marker: Any) -> Sequence[AskedTopic]:
    return [AskedTopic(asked, None) for asked in marker.topics]


def _coded(request: Request, marker: Any, topics: Sequence[AskedTopic], codes: Codes) -> Any:
    types = request.types
    return types.WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            types.WritableTxnMarkerTopicResult(
                name=topic.asked.name,
                partitions=tuple(
                    types.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=_code_of(topic.partition(index), codes)
                    )
                    for index in topic.asked.partition_indexes
                ),
            )
            for topic in topics
        ),
    )


async def _codes(request: Request, marker: Any, topics: Sequence[AskedTopic]) -> Codes:
    lines = (topic.partition(index) for topic in topics for index in topic.asked.partition_indexes)
    partitions = [line for line in lines if isinstance(line, Partition)]
    verdicts = await request.services.transactions.mark(
        partitions,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
    )
    return {one: code_of_verdict(verdict, says_fenced=False) for one, verdict in verdicts.items()}


def _code_of(line: Partition | ErrorCode, codes: Codes) -> ErrorCode:
    if isinstance(codes, ErrorCode):
        return codes
    return line if isinstance(line, ErrorCode) else codes[line]
