"""WriteTxnMarkers: v1-2 (KIP-664: the tools' way to abort a transaction). v1 flexible, v2 KIP-890.

Kafka's coordinators end transactions with it, partition by partition; here they need no request for
that, and a marker in one partition alone would tear a transaction. So an abort is done for all of
the open transaction that the partition is part of, and fences its producer; a commit is refused.

A partition that is not part of the producer's open transaction gets no marker, and no error: there
is nothing that a marker could end. (Kafka appends one, which changes nothing for its readers.)

ACLs: ALTER on the cluster, or CLUSTER_ACTION, as Kafka's brokers have it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.offset_requests import AskedTopic, look_up_topics
from broker.requests import Request
from broker.transactions.transaction_requests import code_of_verdict
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import Verdict

Outcome = Mapping[Partition, Verdict] | ErrorCode
"""What became of each partition that exists, or what answers all of them."""


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
        verdicts = await _marked(request, marker, topics)
    except MetadataUnavailable:  # tools look for the leader, and ask again
        return await request.aside(_refused, request, marker, ErrorCode.broker_not_available)
    return await request.aside(_coded, request, marker, topics, verdicts)


async def _denied(request: Request, marker: Any) -> Any:
    code = ErrorCode.cluster_authorization_failed
    return await request.aside(_refused, request, marker, code)


def _refused(request: Request, marker: Any, code: ErrorCode) -> Any:
    topics = [AskedTopic(asked, None) for asked in marker.topics]
    return _coded(request, marker, topics, code)


def _coded(request: Request, marker: Any, topics: Iterable[AskedTopic], outcome: Outcome) -> Any:
    types = request.types
    return types.WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            types.WritableTxnMarkerTopicResult(
                name=topic.asked.name,
                partitions=tuple(
                    types.WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=_code_of(topic.partition(index), outcome),
                    )
                    for index in topic.asked.partition_indexes
                ),
            )
            for topic in topics
        ),
    )


async def _marked(
    request: Request, marker: Any, topics: Iterable[AskedTopic]
) -> Mapping[Partition, Verdict]:
    return await request.services.transactions.mark(
        await request.aside(_partitions, topics),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
    )


def _partitions(topics: Iterable[AskedTopic]) -> list[Partition]:
    """Return each of those that exist once."""
    lines = (topic.partition(index) for topic in topics for index in topic.asked.partition_indexes)
    return list(dict.fromkeys(line for line in lines if isinstance(line, Partition)))


def _code_of(line: Partition | ErrorCode, outcome: Outcome) -> ErrorCode:
    if isinstance(outcome, ErrorCode):
        return outcome
    if isinstance(line, ErrorCode):
        return line
    return code_of_verdict(outcome[line], says_fenced=False)
