"""`--workers 2` against one: requests that cost the client little and a broker much.

One in flight on each connection, to the leader of its partitions: so many connections that writes
are under way while others are flushed and committed, and what is fetched is of many partitions.
`cores` is what the client and all processes of the broker took together. One worker's threads and
its Postgres take more than one core, so on two cores two workers cannot reach twice of one, but 2
divided by the `cores` of one; `broker_cpu_us` should be the same with both.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import uvloop

from bench.closed_loop import WARM_S, Question, rate
from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed
from bench.versus.contenders import OURS, OURS_2
from bench.versus.part import Case, Scale
from bench.versus.running import Running
from protocol.records import Record, build_batch
from tests.support.wire import WireClient, fetch_request, produce_request

PART: Final = "workers"
CONTENDERS: Final = (OURS, OURS_2)
PARTITIONS: Final = 32
"""Either worker leads half of them."""

PRODUCERS: Final = 16
"""Connections that write to the same partition."""

FETCHED: Final = 16
"""Partitions that a Fetch asks for: as many as each of two workers leads.

A record of 1 KiB of each: to take an answer of 64 KiB costs the client a quarter of what it costs
the broker, and then two workers get no more than 1.54 times what one gets of two cores.
"""

HEARD_S: Final = 1.5
"""Until every worker has heard of a new topic."""

RECORD_BYTES: Final = 1_024
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11

Questions = Callable[[str, Mapping[int, str]], list[Question]]
"""Of a topic and the addresses of its partitions' leaders: what is asked."""


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    kinds: Sequence[tuple[str, Questions]] = (
        (f"Produce of 1 KiB, acks=all, {PRODUCERS * PARTITIONS} connections", produce_questions),
        (f"Fetch of {FETCHED} times 1 KiB, {PARTITIONS} connections", fetch_questions),
    )
    return [
        Case(
            part=PART,
            name=name,
            measure=partial(_measure, scale, questions),
            contenders=CONTENDERS,
        )
        for name, questions in kinds
    ]


def _measure(scale: Scale, questions: Questions, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        topic = cluster.new_topic(PARTITIONS)
        time.sleep(HEARD_S)
        asked = questions(topic, cluster.leaders(topic))
        duration_s = scale.pick(5.0, 0.5)
        before = running.usage()
        got = uvloop.run(rate(asked, duration_s))
        used = running.usage().since(before)
    requests_per_s = float(got["per_s"])
    cpu_s = used.broker_cpu_s / (requests_per_s * (WARM_S + duration_s))
    return {
        "requests_per_s": requests_per_s,
        "p50_ms": got["p50_ms"],
        "p99_ms": got["p99_ms"],
        "cores": float(got["client_cpu"]) + cpu_s * requests_per_s,
        "client_cores": got["client_cpu"],
        "broker_cpu_us": cpu_s * 1e6,
    }


def produce_questions(topic: str, leaders: Mapping[int, str]) -> list[Question]:
    """Write batches of one record to each partition, again and again."""
    batch = _batch(RECORD_BYTES)
    # array of topics, name, array of partitions, index, and then the error code
    code_at = 4 + 2 + len(topic) + 4 + 4
    code = slice(code_at, code_at + 2)
    return [
        Question(
            address=address,
            request=produce_request(topic, batch, partition=partition, version=PRODUCE_VERSION),
            codes_of=lambda response: [
                one.error_code for topic in response.responses for one in topic.partition_responses
            ],
            is_fine=lambda body: body[code] == b"\0\0",
        )
        for partition, address in leaders.items()
        for _ in range(PRODUCERS)
    ]


def fetch_questions(topic: str, leaders: Mapping[int, str]) -> list[Question]:
    """Fetch a batch of each of some partitions of one leader, again and again.

    They are written now, so still in memory.
    """
    asyncio.run(_write_one_each(topic, leaders))
    led: dict[str, list[tuple[str | UUID, int, int]]] = defaultdict(list)
    for partition, address in leaders.items():
        led[address].append((topic, partition, 0))
    return [
        Question(
            address=address,
            request=fetch_request(led[address][:FETCHED], version=FETCH_VERSION),
            codes_of=lambda response: [
                one.error_code for topic in response.responses for one in topic.partitions
            ],
        )
        for address in leaders.values()
    ]


async def _write_one_each(topic: str, leaders: Mapping[int, str]) -> None:
    batch = _batch(RECORD_BYTES)
    for partition, address in leaders.items():
        async with await WireClient.connect(address) as client:
            answer = await client.produce(topic, batch, partition=partition)
            if answer.error_code != 0:
                raise MeasurementFailed(f"Produce: {answer.error_code!r}")


def _batch(size: int) -> bytes:
    record = Record(offset_delta=0, value=b"x" * size)
    return build_batch([record], base_timestamp_ms=time.time_ns() // 1_000_000)
