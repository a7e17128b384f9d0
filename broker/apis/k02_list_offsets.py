"""ListOffsets: v1-11.

-1 latest, -2 earliest, -3 maximum timestamp (KIP-734), -4 to -6 ends of local and tiered logs.
Latest is the high watermark, or the last stable offset for read_committed (v2 and later), always
asked of Postgres: an end offset asked for after an acknowledgement includes it, whichever broker
answers: a client need not ask the leader. For read_committed no record is found from the last
stable offset on. There are no tiers: -4 is the earliest offset, -5 and -6 are unknown (KIP-1005).
A partition that is named twice is refused, so that one request searches a log once. All searches of
a request together have as long as a read of old records; who asks again goes on from there.

ACLs: DESCRIBE on each topic.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from inspect import iscoroutine
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.cluster import LOG_EPOCH
from broker.fresh_offsets import refresh_topics
from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, code_of
from broker.requests import Request
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.fetch import READ_COMMITTED
from protocol.list_offsets import OffsetAnswer, encode_list_offsets
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from storage.partition_log import PartitionLog
from storage.reading.cold_patience import NOT_IN_TIME, PATIENCE_S, now_s

ANSWERED_AT_ONCE: Final = 500
"""Partitions that are answered in one turn of the event loop, which takes a millisecond."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_UNKNOWN: Final = -1
_DENIED: Final = ErrorCode.topic_authorization_failed
_REPEATED: Final = Refusal(ErrorCode.invalid_request)
_FIRST_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


class Found(NamedTuple):
    """Attributes: timestamp_ms is -1 unless a record was looked for."""

    offset: int
    timestamp_ms: int = _UNKNOWN
    leader_epoch: int = _UNKNOWN


async def handle(request: Request) -> bytes:
    """Answer each partition by itself."""
    body = request.decode()
    denied = {
        asked.name
        async for asked in Gradually().each(body.topics)
        if not request.allows(Operation.DESCRIBE, ResourceType.TOPIC, asked.name)
    }
    known, unavailable = await refresh_topics(
        request,
        (
            (asked.name, [one.partition_index for one in asked.partitions])
            for asked in body.topics
            if asked.name not in denied
        ),
    )
    times: Counter[tuple[str, int]] = Counter()
    async for asked in Gradually().each(body.topics):
        times.update((asked.name, one.partition_index) for one in asked.partitions)
    read_committed = getattr(body, "isolation_level", 0) == READ_COMMITTED
    until_s = now_s() + PATIENCE_S
    topics: list[tuple[str, list[OffsetAnswer]]] = []
    for asked in body.topics:
        topic = known.get(asked.name)
        refusal = Refusal(_DENIED) if asked.name in denied else unavailable
        found: list[OffsetAnswer] = []
        for start in range(0, len(asked.partitions), ANSWERED_AT_ONCE):
            request.check_is_awaited()  # each may have the store searched, as long as that takes
            answers = [
                _answer(
                    *(request, topic, partition),
                    refusal or (_REPEATED if count > 1 else None),
                    read_committed=read_committed,
                    until_s=until_s,
                )
                for partition in asked.partitions[start : start + ANSWERED_AT_ONCE]
                if (count := times.pop((asked.name, partition.partition_index), 0))
            ]
            # Most are known at once; a task for each would take longer than all the rest.
            looked_up = iter(await asyncio.gather(*(one for one in answers if iscoroutine(one))))
            found += [one if isinstance(one, OffsetAnswer) else next(looked_up) for one in answers]
            await asyncio.sleep(0)
        topics.append((asked.name, found))
    header = request.header
    return await request.aside(
        encode_list_offsets, header.correlation_id, header.api_version, topics
    )


def _answer(
    request: Request,
    topic: KnownTopic | None,
    asked: Any,
    refusal: MetadataUnavailable | Refusal | None,
    *,
    read_committed: bool,
    until_s: float,
) -> OffsetAnswer | Coroutine[Any, Any, OffsetAnswer]:
    """Return the partition's answer, or what waits for it if records have to be looked at."""
    if refusal is not None:  # raised for each partition, it and all these frames would stay
        return _response(asked, Found(_UNKNOWN), code_of(refusal))
    try:
        found = _find(request, topic, asked, read_committed=read_committed)
    except CONDITIONS as condition:
        return _response(asked, Found(_UNKNOWN), code_of(condition))
    if isinstance(found, Found):
        return _response(asked, found)
    return _look_up(request, found, asked, read_committed=read_committed, until_s=until_s)


def _response(asked: Any, found: Found, code: ErrorCode = ErrorCode.none) -> OffsetAnswer:
    return OffsetAnswer(
        asked.partition_index, code, found.timestamp_ms, found.offset, found.leader_epoch
    )


def _find(
    request: Request, topic: KnownTopic | None, asked: Any, *, read_committed: bool
) -> Found | PartitionLog:
    """Return what is asked for, or the log whose records have to be looked at for it."""
    log = None if topic is None else topic.log(asked.partition_index)
    if log is None or log.removed:
        raise Refusal(ErrorCode.unknown_topic_or_partition)
    if getattr(asked, "current_leader_epoch", _UNKNOWN) > request.services.cluster.generation:
        raise Refusal(ErrorCode.unknown_leader_epoch)
    timestamp_ms = asked.timestamp
    if timestamp_ms < 0 and request.version < _FIRST_VERSION.get(timestamp_ms, 2**15):
        raise Refusal(ErrorCode.unsupported_version, f"no special timestamp {timestamp_ms}")
    if timestamp_ms == LATEST:
        end_offset = log.last_stable_offset if read_committed else log.high_watermark
        return Found(end_offset, leader_epoch=LOG_EPOCH)
    if timestamp_ms in {EARLIEST, EARLIEST_LOCAL}:
        return Found(log.log_start_offset, leader_epoch=LOG_EPOCH)
    if timestamp_ms in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return Found(_UNKNOWN)
    return log


async def _look_up(
    request: Request, log: PartitionLog, asked: Any, *, read_committed: bool, until_s: float
) -> OffsetAnswer:
    try:
        found = await _look_up_in_time(request, log, asked.timestamp, until_s)
    except CONDITIONS as condition:
        request.services.read_failures.note(log, condition, timestamp_ms=asked.timestamp)
        return _response(asked, Found(_UNKNOWN), code_of(condition))
    if read_committed and found.offset >= log.last_stable_offset:
        found = Found(_UNKNOWN)
    return _response(asked, found)


async def _look_up_in_time(
    request: Request, log: PartitionLog, timestamp_ms: int, until_s: float
) -> Found:
    if now_s() < until_s:  # else nothing is asked at all
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                return await _look_up_record(request, log, timestamp_ms)
    raise ObjectStoreUnavailable(NOT_IN_TIME)


async def _look_up_record(request: Request, log: PartitionLog, timestamp_ms: int) -> Found:
    if timestamp_ms == MAX_TIMESTAMP:
        found = await request.services.log.offset_of_max_timestamp(log)
    else:
        found = await request.services.log.offset_for_timestamp(log, timestamp_ms)
    if found is None:
        return Found(_UNKNOWN)
    return Found(found.offset, found.timestamp_ms, LOG_EPOCH)
