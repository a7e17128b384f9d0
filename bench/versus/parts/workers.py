"""`--workers 2` against one: requests that cost the client little and a broker much.

On two cores the client and Postgres take their part of both, so two workers cannot reach twice of
one. `client_cores` tells how much the client took; `broker_cpu_us` should be the same with both.
Requests go to the leaders of their partitions, one in flight on each connection.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

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
"""One connection for each; either worker leads half of them."""

HEARD_S: Final = 1.5
"""Until every worker has heard of a new topic."""

RECORD_BYTES: Final = 1_024
FETCH_BYTES: Final = 64 * 1_024
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11

Questions = Callable[[str, Mapping[int, str]], list[Question]]
"""Of a topic and the addresses of its partitions' leaders: what is asked."""


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    kinds: Sequence[tuple[str, Questions]] = (
        ("Produce of 1 KiB, acks=all", produce_questions),
        ("Fetch of 64 KiB", fetch_questions),
    )
    return [
        Case(
            part=PART,
            name=f"{name}, {PARTITIONS} connections",
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
    requests = float(got["per_s"]) * (WARM_S + duration_s)
    return {
        "requests_per_s": got["per_s"],
        "p50_ms": got["p50_ms"],
        "p99_ms": got["p99_ms"],
        "client_cores": got["client_cpu"],
        "broker_cpu_us": used.broker_cpu_s / requests * 1e6,
    }


def produce_questions(topic: str, leaders: Mapping[int, str]) -> list[Question]:
    """Write a batch of one record to each partition, again and again."""
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
    ]


def fetch_questions(topic: str, leaders: Mapping[int, str]) -> list[Question]:
    """Fetch one batch of each partition again and again; it is written now, so still in memory."""
    asyncio.run(_write_one_each(topic, leaders))
    return [
        Question(
            address=address,
            request=fetch_request([(topic, partition, 0)], version=FETCH_VERSION),
            codes_of=lambda response: [
                one.error_code for topic in response.responses for one in topic.partitions
            ],
        )
        for partition, address in leaders.items()
    ]


async def _write_one_each(topic: str, leaders: Mapping[int, str]) -> None:
    batch = _batch(FETCH_BYTES)
    for partition, address in leaders.items():
        async with await WireClient.connect(address) as client:
            answer = await client.produce(topic, batch, partition=partition)
            if answer.error_code != 0:
                raise MeasurementFailed(f"Produce: {answer.error_code!r}")


def _batch(size: int) -> bytes:
    record = Record(offset_delta=0, value=b"x" * size)
    return build_batch([record], base_timestamp_ms=time.time_ns() // 1_000_000)
