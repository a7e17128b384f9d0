"""Many partitions that nobody asks for, many silent connections, many members of a group."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from typing import Any, Final

import uvloop

from bench import rebalance
from bench.closed_loop import Question, rate
from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed
from bench.versus.contenders import KAFKA, OURS
from bench.versus.part import Case, Scale
from bench.versus.running import Running
from tests.support.wire import WireClient, request_entities

PART: Final = "crowds"
CONTENDERS: Final = (KAFKA, OURS)
CONNECTIONS: Final = 8
ASKED: Final = 10
"""Partitions of the topic that is asked for, however many others there are."""

PER_TOPIC: Final = 1_000
STEPS: Final = ("start", "one_more_joins", "one_leaves")
API_VERSIONS: Final = 18
METADATA: Final = 3


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    idle = scale.pick(500, 50)
    measures = (
        (f"Metadata of {ASKED} partitions, {CONNECTIONS} connections", _metadata),
        (f"{idle} idle connections", partial(_idle, connections=idle)),
        ("group rebalance", _rebalance),
    )
    return [
        Case(part=PART, name=name, measure=partial(measure, scale), contenders=CONTENDERS)
        for name, measure in measures
    ]


def _metadata(scale: Scale, running: Running) -> Figures:
    """Ask for one topic again and again while the cluster grows by others."""
    figures: dict[str, float | str] = {}
    with Cluster(running.bootstrap).tidied() as cluster:
        topic = cluster.new_topic(ASKED)
        partitions = ASKED
        rates = []
        for size in scale.pick((ASKED, 1_000, 10_000), (ASKED, 100)):
            while partitions < size:
                step = min(PER_TOPIC, size - partitions)
                cluster.new_topic(step)
                partitions += step
            got = uvloop.run(_metadata_rate(running.bootstrap, topic, scale.pick(3.0, 0.5)))
            rates.append(float(got["per_s"]))
            figures[f"of_{size}_requests_per_s"] = rates[-1]
            figures[f"of_{size}_client_cores"] = got["client_cpu"]
    return {**figures, "largest_to_smallest_share": rates[-1] / rates[0]}


async def _metadata_rate(bootstrap: str, topic: str, duration_s: float) -> Figures:
    question = Question(
        address=bootstrap.split(",", maxsplit=1)[0],
        request=_metadata_request(topic),
        codes_of=lambda response: [one.error_code for one in response.topics],
    )
    return await rate([question] * CONNECTIONS, duration_s)


def _metadata_request(topic: str) -> Any:
    module = request_entities(METADATA, 12)
    return module.MetadataRequest(
        topics=(module.MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def _idle(scale: Scale, running: Running, connections: int) -> Figures:
    return asyncio.run(_idle_figures(running, connections, scale.pick(5.0, 0.5)))


async def _idle_figures(running: Running, connections: int, duration_s: float) -> Figures:
    """Compare a while without them to a while with them; all of them are asked once more then."""
    began = running.usage()
    await asyncio.sleep(duration_s)
    alone = running.usage().since(began)
    async with AsyncExitStack() as stack:
        opened_s = time.monotonic()
        clients = []
        for _ in range(connections):
            client = await stack.enter_async_context(await WireClient.connect(running.bootstrap))
            await _ask_versions(client)
            clients.append(client)
        took_s = time.monotonic() - opened_s
        before = running.usage()
        await asyncio.sleep(duration_s)
        beside = running.usage().since(before)
        for client in clients:
            await _ask_versions(client)
    return {
        "open_one_ms": took_s / connections * 1000,
        "idle_memory_mib": beside.broker_memory_mib - alone.broker_memory_mib,
        "idle_cpu_share": beside.broker_cpu_s / duration_s,
        "idle_cpu_alone_share": alone.broker_cpu_s / duration_s,
    }


async def _ask_versions(client: WireClient) -> None:
    module = request_entities(API_VERSIONS, 3)
    answer = await client.ask(
        module.ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    )
    if answer.error_code != 0:
        raise MeasurementFailed(f"ApiVersions: {answer.error_code!r}")


def _rebalance(scale: Scale, running: Running) -> Figures:
    """Return seconds by kind of group and step (bench/rebalance.py), one round of each."""
    config = scale.pick(
        rebalance.RebalanceConfig(rounds=1),
        rebalance.RebalanceConfig(members=4, partitions=8, rounds=1, processes=1),
    )
    with Cluster(running.bootstrap).tidied() as cluster:
        rows = rebalance.measure(cluster, config, lambda _: None)
    figures: dict[str, float | str] = {}
    for row, (kind, step) in zip(rows, product(rebalance.KINDS, STEPS), strict=True):
        name = f"{kind.protocol}_{kind.assignor.replace('-', '_')}_{step}_s"
        figures[name] = row.figures.get("median_s", row.figures.get("note", ""))
    return figures
