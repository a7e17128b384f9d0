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
            cluster = request.services.cluster
            await cluster.unless_cut_off(request.services.log.refresh(logs))
        if any(log.removed for log in logs):
            await _replace(request, known)
    except MetadataUnavailable as unavailable:
        if request.services.cluster.brokers.is_cut_off:
            return known, Refusal(ErrorCode.not_leader_or_follower)
        return known, unavailable
    return known, None


async def _replace(request: Request, known: dict[str, KnownTopic]) -> None:
    """Put topics that another broker has made again in the place of those that are gone.

    A client that names a topic by its name means the one that has it now.

    Raises:
        MetadataUnavailable: nobody knows.
    """
    topics = request.services.topics
    await topics.look_again()
    logs: list[PartitionLog] = []
    for name, gone in list(known.items()):
        now = topics.get(name)
        if now is not None and now.topic.topic_id != gone.topic.topic_id:
            known[name] = now
            logs += now.logs
    if logs:
        await request.services.log.refresh(logs)
