"""Frames and garbage at a running broker, over many connections at once."""

import asyncio
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.request import urlopen

import psutil

from tests.fuzz.frames import some_frame
from tests.fuzz.values import pick
from tests.support.broker import BrokerProcess, running_broker
from tests.support.request_memory import held_bytes
from tests.support.wire import WireClient

TOPIC: Final = "fuzz-topic"
COMPACTED: Final = "fuzz-compacted"
BUG: Final = "bug in a"
ANSWERS_S: Final = 0.5
BURST: Final = 12

_SETTLE_S: Final = 120.0
_READ_BYTES: Final = 65_536
_CLEAN_SHARE: Final = 0.5
_GARBAGE: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    b"\0" * 4000,
    b"\xff" * 4000,
    struct.pack(">i", 100 * 2**20) + bytes(1000),
    struct.pack(">i", 2**31 - 1),
    b"SSH-2.0-OpenSSH_9.6\r\n",
)


@dataclass(slots=True)
class Attack:
    """What was sent, and what came back.

    Attributes:
        ended: connections that the broker closed.
        answered: bytes.
    """

    connections: int = 0
    frames: int = 0
    ended: int = 0
    answered: int = 0


async def attack(
    bootstrap: str, *, seconds: float, seed: int, connections: int, frames: int = 0
) -> Attack:
    """Send what some clients should not, each connection one burst.

    It ends when the time is over and at least so many frames have been sent, which takes longer
    where other processes want the processors, too.
    """
    host, _, port = bootstrap.rpartition(":")
    seen = Attack()
    end_s = time.monotonic() + seconds

    async def one(random: Random) -> None:
        while time.monotonic() < end_s or seen.frames < frames:
            await _burst(random, host, int(port), seen)

    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(one(Random(seed * 10_000 + number)))
    return seen


async def _burst(random: Random, host: str, port: int, seen: Attack) -> None:
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:  # refused, if the broker has too many: it is meant to
        await asyncio.sleep(ANSWERS_S)
        return
    seen.connections += 1
    try:
        if random.random() < 0.05:
            writer.write(pick(random, _GARBAGE))
        for _ in range(1 + int(random.random() * BURST)):
            if writer.transport.is_closing():
                break
            writer.write(some_frame(random, clean_share=_CLEAN_SHARE).data)
            await writer.drain()
            seen.frames += 1
        await _read(reader, seen)
    except ConnectionError:
        seen.ended += 1
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, seen: Attack) -> None:
    """Read until nothing comes for a while."""
    while True:
        try:
            async with asyncio.timeout(ANSWERS_S):
                data = await reader.read(_READ_BYTES)
        except TimeoutError:
            return
        if not data:
            seen.ended += 1
            return
        seen.answered += len(data)


async def prepare(bootstrap: str) -> None:
    """Create the topics that frames of the grammar may mean."""
    async with await WireClient.connect(bootstrap) as wire:
        await wire.create_topic(TOPIC, partitions=3)
        await wire.create_topic(COMPACTED, partitions=2, cleanup_policy="compact")


async def judge(broker: BrokerProcess, rss_before: int) -> list[str]:
    """Return what is wrong with a broker after an attack; it has a while to let go of all."""
    wrong = [line[:2000] for line in broker.log.read_text().splitlines() if BUG in line]
    if broker.process.poll() is not None:
        return [*wrong, "the broker ended"]
    deadline_s = time.monotonic() + _SETTLE_S
    while (held := held_bytes(broker)) and time.monotonic() < deadline_s:
        await asyncio.sleep(0.1)
    if held:
        wrong.append(f"{held:.0f} bytes of requests are still held")
    if "unknown_server_error" in metrics(broker):
        wrong.append("UNKNOWN_SERVER_ERROR was answered")
    grown = psutil.Process(broker.pid).memory_info().rss - rss_before
    if grown > 256 * 2**20:
        wrong.append(f"its memory grew by {grown} bytes")
    async with await WireClient.connect(broker.bootstrap) as wire:
        if not (await wire.describe(TOPIC)).brokers:
            wrong.append("it does not answer Metadata any more")
    return wrong


def metrics(broker: BrokerProcess) -> str:
    with urlopen(f"http://{broker.http}/metrics", timeout=60) as response:
        text: str = response.read().decode()
    return text


def main(seconds: float, seed: int, connections: int) -> int:
    """Start a broker, attack it, tell; return 1 if something is wrong with it."""
    with tempfile.TemporaryDirectory() as directory, running_broker(Path(directory)) as broker:
        wrong = asyncio.run(_main(broker, seconds, seed, connections))
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    return 1 if wrong else 0


async def _main(broker: BrokerProcess, seconds: float, seed: int, connections: int) -> list[str]:
    await prepare(broker.bootstrap)
    rss = psutil.Process(broker.pid).memory_info().rss
    seen = await attack(broker.bootstrap, seconds=seconds, seed=seed, connections=connections)
    grown = psutil.Process(broker.pid).memory_info().rss - rss
    sys.stdout.write(f"{seen}; its memory grew by {grown / 2**20:.0f} MiB\n")
    return await judge(broker, rss)
