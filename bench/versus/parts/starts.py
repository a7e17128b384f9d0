"""How long a broker takes from the start of its process to the first acknowledged record.

The client is our own: it asks again every few milliseconds, where a library would pause. It asks
for a topic that is made by being asked for, and writes one record to it. Storage that has to be
formatted beforehand is, and that is not counted.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import uuid4

import psutil

from bench.backfill_clients import in_process, load
from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed
from bench.versus.contenders import CONTENDERS, KAFKA, OURS
from bench.versus.part import Case, Scale
from bench.versus.running import Running
from protocol.records import Record, build_batch
from tests.support.wire import ConnectionEnded, WireClient, request_entities

PART: Final = "starts"
PATIENCE_S: Final = 120.0
STOP_S: Final = 60.0
AGAIN_S: Final = 0.005
METADATA: Final = 3
PARTITIONS: Final = 6


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured; the broker that the others use is another one afterwards."""
    measures = (
        ("cold: an empty directory", _cold),
        ("warm: it was stopped before", _warm),
        ("after kill -9", _killed),
    )
    return [
        Case(part=PART, name=name, measure=partial(measure, scale), contenders=(KAFKA, OURS))
        for name, measure in measures
    ]


def _cold(_: Scale, running: Running) -> Figures:
    """Start one more of the same kind; the one that runs has nothing to do meanwhile."""
    home = running.home / "cold"
    home.mkdir()
    with CONTENDERS[running.name].running(home) as fresh:
        return {"first_ack_s": _first_ack_at_s(fresh.bootstrap) - fresh.began_s}


def _warm(scale: Scale, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        _write_some(scale, running, cluster)
        _stop(running)
        return _started_again(running)


def _killed(scale: Scale, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        _write_some(scale, running, cluster)
        running.kill_broker()
        return _started_again(running)


def _write_some(scale: Scale, running: Running, cluster: Cluster) -> None:
    topic = cluster.new_topic(PARTITIONS)
    total_bytes = scale.pick(200_000_000, 1_000_000)
    in_process(load, running.bootstrap, topic, PARTITIONS, total_bytes, 1_000).result()


def _stop(running: Running) -> None:
    """Ask it to stop, and wait for its end; what it has for Postgres and store ends with it."""
    process = psutil.Process(running.roots["broker"])
    process.terminate()
    deadline_s = time.monotonic() + STOP_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(f"not stopped in {STOP_S:.0f} s")
        time.sleep(AGAIN_S)
    running.kill_broker()  # there is nothing left of it but its exit code


def _started_again(running: Running) -> Figures:
    began_s = time.monotonic()
    running.start_again()
    try:
        return {"first_ack_s": _first_ack_at_s(running.bootstrap) - began_s}
    except MeasurementFailed:
        _ = running.roots  # if it has ended by now, this says why
        raise


def _first_ack_at_s(bootstrap: str) -> float:
    return asyncio.run(first_ack_at_s(bootstrap))


async def first_ack_at_s(bootstrap: str) -> float:
    """Return when (monotonic) the first record of a new topic was acknowledged.

    Raises:
        MeasurementFailed: none was in PATIENCE_S.
    """
    topic = f"bench-starts-{uuid4().hex[:8]}"
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            async with await WireClient.connect(bootstrap.split(",", maxsplit=1)[0]) as client:
                while time.monotonic() < deadline_s:
                    if await _acknowledged(client, topic):
                        return time.monotonic()
                    await asyncio.sleep(AGAIN_S)
        except (OSError, ConnectionEnded):
            await asyncio.sleep(AGAIN_S)
    raise MeasurementFailed(f"nothing acknowledged in {PATIENCE_S:.0f} s")


async def _acknowledged(client: WireClient, topic: str) -> bool:
    module = request_entities(METADATA, 12)
    request = module.MetadataRequest(
        topics=(module.MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    (described,) = (await client.ask(request)).topics
    if described.error_code != 0 or any(one.leader_id < 0 for one in described.partitions):
        return False
    record = Record(offset_delta=0, value=b"x" * 100)
    batch = build_batch([record], base_timestamp_ms=time.time_ns() // 1_000_000)
    return bool((await client.produce(topic, batch)).error_code == 0)
