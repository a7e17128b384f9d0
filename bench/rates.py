"""Commits and heartbeats per second, on raw connections to the coordinators."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import uvloop

from bench.closed_loop import COUNTER, Question, rate
from bench.cluster import Cluster, until_ready
from bench.results import Figures, MeasurementFailed, Row
from tests.support.group_members import Member
from tests.support.group_wire import codes, commit_request, heartbeat_request
from tests.support.wire import WireClient

COMMITS: Final = "commits"
HEARTBEATS: Final = "heartbeats"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateConfig:
    """How long each rate is measured, and on how many connections; each is a group of its own."""

    duration_s: float = 4.0
    commit_connections: Sequence[int] = (1, 16, 64)
    heartbeat_connections: Sequence[int] = (1, 16)


def measure_commits(cluster: Cluster, config: RateConfig, say: Callable[[str], None]) -> list[Row]:
    """Commit one partition at a time without being a member, each connection for its own group."""
    topic = cluster.new_topic(1)
    rows = []
    for count in config.commit_connections:
        say(f"commits: {count} groups")
        figures = _figures(_commits(cluster, topic, count, config.duration_s))
        rows.append(Row(part=COMMITS, case=f"groups: {count}", figures=figures))
    return rows


def measure_heartbeats(
    cluster: Cluster, config: RateConfig, say: Callable[[str], None]
) -> list[Row]:
    """Send classic heartbeats as fast as they are answered, each connection as its own member."""
    rows = []
    for count in config.heartbeat_connections:
        say(f"heartbeats: {count} connections")
        figures = _figures(_heartbeats(cluster, count, config.duration_s))
        rows.append(Row(part=HEARTBEATS, case=f"connections: {count}", figures=figures))
    return rows


def _figures(measurement: Coroutine[Any, Any, Figures]) -> Figures:
    try:
        return uvloop.run(measurement)
    except MeasurementFailed as error:
        return {"note": str(error)}


async def _commits(cluster: Cluster, topic: str, count: int, duration_s: float) -> Figures:
    async def question(group: str) -> Question:
        address = await cluster.coordinator(group)
        # the version of clients before topic ids; every broker of today takes it
        request = commit_request(group, {topic: {0: COUNTER}}, version=8)
        await until_ready(address, request, lambda response: codes(response)[0])
        return Question(address=address, request=request, codes_of=codes)

    groups = [cluster.new_group() for _ in range(count)]
    return await rate(await asyncio.gather(*map(question, groups)), duration_s)


async def _heartbeats(cluster: Cluster, count: int, duration_s: float) -> Figures:
    members = await asyncio.gather(*(_joined(cluster) for _ in range(count)))
    try:
        return await rate([question for _, question in members], duration_s)
    finally:
        for member, _ in members:
            await member.leave()
            await member.client.__aexit__()


async def _joined(cluster: Cluster) -> tuple[Member, Question]:
    """Return the only member of a new group, and its heartbeat."""
    group = cluster.new_group()
    address = await cluster.coordinator(group)
    member = Member(await WireClient.connect(address), group)
    joined = await member.join()
    synced = await member.sync({member.member_id: b""})
    if joined.error_code != 0 or synced.error_code != 0:
        raise MeasurementFailed(f"no member: {joined.error_code!r}, {synced.error_code!r}")
    request = heartbeat_request(group, member.member_id, member.generation_id)
    return member, Question(
        address=address, request=request, codes_of=lambda response: [int(response.error_code)]
    )
