"""Where partitions begin and end, as Postgres has it now: for answers that must not be old news."""

from collections.abc import Collection, Iterable

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.refusals import Refusal
from broker.requests import Request
from broker.topics import KnownTopic
from storage.errors import MetadataUnavailable
from storage.partition_log import PartitionLog


async def refresh_topics(
    request: Request, asked: Iterable[tuple[str, Collection[int]]]
) -> tuple[dict[str, KnownTopic], MetadataUnavailable | Refusal | None]:
    """Return the topics that exist, with the offsets of the partitions up to date.

    One query for all of them. If Postgres does not answer, the error is returned for each partition
    to tell: the responses that need this have no error code but those of partitions. A broker that
    is cut off says that it leads none: others may.
    """
    known: dict[str, KnownTopic] = {}
    logs: list[PartitionLog] = []
    try:
        async for name, partitions in Gradually().each(asked):
            topic = await request.services.topics.find(name)
            if topic is None:
                continue
            known[name] = topic = await request.services.topics.grown(topic, partitions)
            found = (topic.log(index) for index in partitions)
            logs += [log for log in found if log is not None]
        if logs:
            await request.services.log.refresh(logs)
    except MetadataUnavailable as unavailable:
        if request.services.cluster.brokers.is_cut_off:
            return known, Refusal(ErrorCode.not_leader_or_follower)
        return known, unavailable
    return known, None
