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
from tests.abuse import bombs
from tests.abuse.attack_process import AttackProcess, Plan
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
GOOD_TOPIC: Final = "good"
_LARGE_BATCHES: Final = 220


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
            own_imports=True,  # its memory is measured
        )
        try:
            target = Target(address=_address(broker.bootstrap.split(",")[0]))
            target.tls, target.sasl = _address(tls), _address(sasl)
            return asyncio.run(_attacked(broker, target, plan, limits, say))
        finally:
            broker.stop()


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
    outcome, watch, attackers = Outcome(), Watch(broker), AttackProcess()
    async with _good_clients(broker, plan) as good, _watching(watch), attackers.started():
        await asyncio.sleep(WARM_UP_S)
        say(f"good clients alone, {plan.alone_s:.0f} s")
        good.phase(ALONE)
        alone_s = time.monotonic()
        await asyncio.sleep(plan.alone_s)
        before, quiet = metrics(broker), watch.since(alone_s)
        say(f"attack, {plan.seconds:.0f} s")
        good.phase(BESIDE)
        began_s = time.monotonic()
        done = await attackers.attack(target, plan, made)
        after, abused = await asyncio.to_thread(metrics, broker), watch.since(began_s)
        good.phase(AFTER)
        say("waiting for the broker to settle")
        await _settled(broker, quiet[-1].files)
        judge_processes(outcome, limits, quiet, abused, watch.sample())
        outcome.hold("loop lag p99, ms", lag_p99_ms(before, after), limits.lag_p99_ms)
    judge_clients(outcome, limits, good.result)
    judge_end(outcome, broker)
    outcome.figures["attackers"] = dict(sorted(done.items()))
    return outcome


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
        [*command, str(plan.records_per_s), str(plan.linger_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    good = _Good(process)
    try:
        yield good
        output, _ = await asyncio.to_thread(process.communicate, timeout=180)
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
        if held < 2**20 and watch.sample().files <= files + FILES_LEFT:
            return
        await asyncio.sleep(0.5)
