"""A broker, good clients at first alone and then beside attackers, and what that came to."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from protocol.records import Record, build_batch
from tests.abuse import bombs, floods, slow
from tests.abuse.attacker import Target
from tests.abuse.verdict import (
    AFTER,
    ALONE,
    BESIDE,
    FILES_LEFT,
    Limits,
    Outcome,
    judge_clients,
    judge_end,
    judge_processes,
)
from tests.abuse.watch import Watch, lag_p99_ms, metric, metrics
from tests.support.broker import BrokerProcess, start_broker
from tests.support.certificates import make_authority
from tests.support.fake_registry import fake_registry
from tests.support.ports import free_port
from tests.support.wire import WireClient

WARM_UP_S: Final = 15.0
"""Until clients have their connections and groups."""

SETTLE_S: Final = 45.0
ATTACKERS_NICE: Final = 19
"""Attackers have machines of their own; here they must not take the broker's processors."""

GOOD_TOPIC: Final = "good"
_LARGE_BATCHES: Final = 220


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An abuse run.

    Attributes:
        seconds: of the attack.
        alone_s: that the good clients have for themselves before.
        slow: connections held.
        bombs_per_s, garbage_per_s, connections_per_s, requests_per_s, logins_per_s: of the other
            attackers.
        records_per_s: of the good producer.
        kinds: text in the names of slow connections and of requests that are used; empty for all.
    """

    seconds: float = 600
    alone_s: float = 60
    slow: int = 2000
    bombs_per_s: float = 2
    garbage_per_s: float = 20
    connections_per_s: float = 20
    requests_per_s: float = 10
    logins_per_s: float = 10
    records_per_s: int = 1000
    seed: int = 1
    kinds: str = ""


def run(directory: Path, plan: Plan, limits: Limits, say: Callable[[str], None]) -> Outcome:
    """Start a broker and good clients, attack, judge."""
    tls, sasl = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    keystore = make_authority().issue().write_keystore(directory / "keystore.pem")
    with fake_registry() as registry:
        configs = {
            "confluent.schema.registry.url": registry.url,
            "ssl.keystore.location": str(keystore),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        }
        broker = start_broker(
            directory,
            *("--listen", f"SSL://{tls}", "--listen", f"SASL_PLAINTEXT://{sasl}"),
            *(word for name, value in configs.items() for word in ("--set", f"{name}={value}")),
            environment={**os.environ, "STREAMHOUSE_UPKEEP__ENABLED": "true"},
        )
        try:
            target = Target(address=_address(broker.bootstrap.split(",")[0]))
            target.tls, target.sasl = _address(tls), _address(sasl)
            return asyncio.run(_attacked(broker, target, plan, limits, say))
        finally:
            broker.stop(timeout_s=30)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def _attacked(
    broker: BrokerProcess,
    target: Target,
    plan: Plan,
    limits: Limits,
    say: Callable[[str], None],
) -> Outcome:
    await _prepare(broker, target)
    say("making bombs")
    made = await asyncio.to_thread(bombs.make_bombs)
    outcome, watch = Outcome(), Watch(broker)
    async with _good_clients(broker, plan) as good, _watching(watch):
        os.nice(ATTACKERS_NICE)  # this process attacks; those that it has started stay as they are
        await asyncio.sleep(WARM_UP_S)
        say(f"good clients alone, {plan.alone_s:.0f} s")
        good.phase(ALONE)
        alone_s = time.monotonic()
        await asyncio.sleep(plan.alone_s)
        before, quiet = metrics(broker), watch.since(alone_s)
        say(f"attack, {plan.seconds:.0f} s")
        good.phase(BESIDE)
        began_s = time.monotonic()
        await _attack(target, began_s + plan.seconds, plan, made)
        after, abused = await asyncio.to_thread(metrics, broker), watch.since(began_s)
        good.phase(AFTER)
        say("waiting for the broker to settle")
        await _settled(broker, quiet[-1].files)
        judge_processes(outcome, limits, quiet, abused, watch.sample())
        outcome.hold("loop lag p99, ms", lag_p99_ms(before, after), limits.lag_p99_ms)
    judge_clients(outcome, limits, good.result)
    judge_end(outcome, broker)
    outcome.figures["attackers"] = dict(sorted(target.done.items()))
    return outcome


async def _attack(target: Target, end_s: float, plan: Plan, made: list[bombs.Bomb]) -> None:
    """Attack with all that has a rate; one without is left out."""
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(end_s - time.monotonic()))
        if plan.slow:
            group.create_task(slow.attack(target, end_s, count=plan.slow, kinds=plan.kinds))
        if plan.bombs_per_s:
            group.create_task(bombs.attack(target, end_s, per_s=plan.bombs_per_s, bombs=made))
        if plan.garbage_per_s:
            pace = plan.garbage_per_s
            group.create_task(floods.garbage(target, end_s, per_s=pace, seed=plan.seed))
        if plan.connections_per_s:
            group.create_task(floods.connections(target, end_s, per_s=plan.connections_per_s))
        if plan.requests_per_s:
            pace = plan.requests_per_s
            group.create_task(floods.requests(target, end_s, per_s=pace, kinds=plan.kinds))
        if plan.logins_per_s:
            group.create_task(floods.logins(target, end_s, per_s=plan.logins_per_s))


async def _prepare(broker: BrokerProcess, target: Target) -> None:
    """Create the topics that are abused, and the good clients' own."""
    configs: dict[str, dict[str, str]] = {
        "compacted": {"cleanup_policy": "compact"},
        "validated": {"confluent_value_schema_validation": "true"},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
        "recompressed": {"compression_type": "gzip", "segment_bytes": "1048576"},
    }
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic(GOOD_TOPIC, partitions=1)
        await wire.create_topic("many", partitions=1000)
        await wire.create_topic("large")
        for name, values in configs.items():
            await wire.create_topic(name, 1, 1, **values)
        records = [Record(offset_delta=0, key=b"k", value=os.urandom(1_000_000))]
        large = build_batch(records, base_timestamp_ms=_now_ms())
        for _ in range(_LARGE_BATCHES):
            await wire.produce("large", large)
        for offset in range(_LARGE_BATCHES):  # caches are full now, as with any broker at work
            await wire.fetch("large", offset)
    target.topics = {name: name for name in (*configs, "large", "many")}


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class _Good:
    """The process of the good clients."""

    process: "subprocess.Popen[str]"
    result: dict[str, Any] = field(default_factory=dict)

    def phase(self, name: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()


@asynccontextmanager
async def _good_clients(broker: BrokerProcess, plan: Plan) -> AsyncIterator[_Good]:
    command = [sys.executable, "-m", "tests.abuse.good_clients", broker.bootstrap, GOOD_TOPIC]
    process = await asyncio.to_thread(
        subprocess.Popen,
        [*command, str(plan.records_per_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    good = _Good(process)
    try:
        yield good
        output, _ = await asyncio.to_thread(process.communicate, timeout=60)
        good.result = json.loads(output)
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def _watching(watch: Watch) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        task.cancel()


async def _settled(broker: BrokerProcess, files: int) -> None:
    """Wait until the broker has let go of its attackers."""
    end_s = time.monotonic() + SETTLE_S
    watch = Watch(broker)
    while time.monotonic() < end_s:
        held = metric(await asyncio.to_thread(metrics, broker), "streamhouse_request_memory_bytes")
        if 0 <= held < 2**20 and watch.sample().files <= files + FILES_LEFT:
            return
        await asyncio.sleep(0.5)
