"""Passes of the background work in processes of their own, which may end at any of their steps.

As a program it reads orders, one JSON object a line, and forks for each: a trial costs no start of
an interpreter. It answers with the child's exit code: 0, or -9 if it has ended itself.

A step is a call of a port or, in a directory of objects, a write of a file, a flush of a folder, a
removal of a file. The process sends itself SIGKILL before or after one, or while it is under way:
then Postgres may do what it was told by a process that is no more, and a file is half written.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, Final, NoReturn
from uuid import UUID

from broker.configs.broker_configs import read_broker_config
from broker.logs import configure_logs
from protocol.ids import Partition
from storage.config import PostgresConfig, UpkeepConfig
from storage.configs.topic_policies import TopicPolicies
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import MetadataStore
from storage.objects import durable_folders, object_put, objects_directory
from storage.objects.objects_directory import DirectoryStore
from storage.objects.port import Buffer, ObjectStore
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.retention import Retention
from storage.upkeep.sweeper import Sweeper

POOL: Final = PostgresConfig(pool_size=2, connect_timeout_s=60.0, command_timeout_s=120.0)
CONFIG: Final = UpkeepConfig(
    segment_bytes=2_500, segment_age_ms=0, key_map_bytes=1 << 20, abandoned_ms=0, delete_delay_ms=0
)
"""Everything is due at once, and many segments are needed."""

FOREVER_MS: Final = 1 << 40


class Moment(StrEnum):
    """When it ends, as seen from a step."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One trial.

    Attributes:
        page: where it writes the names of its steps, one a line, as they begin.
        step: the one at which it ends, from 0 on; -1: it lives.
        wait_s: how long a call is under way by then, if it ends during one.
    """

    dsn: str
    root: str
    page: str
    step: int = -1
    moment: Moment = Moment.BEFORE
    wait_s: float = 0.0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Order":
        values: dict[str, Any] = json.loads(line)
        return cls(**values | {"moment": Moment(values["moment"])})


class Steps:
    """Counts the steps of this process, and ends it at one."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._page = os.open(order.page, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = Lock()  # files are written in threads
        self._count = 0

    def begin(self, name: str) -> Moment | None:
        """Take note of a step; return when the process is to end, if it is at this one."""
        with self._lock:
            os.write(self._page, f"{name}\n".encode())
            is_the_one = self._count == self._order.step
            self._count += 1
        if not is_the_one:
            return None
        if self._order.moment is Moment.BEFORE:
            end_here()
        return self._order.moment

    async def call(self, name: str, call: Callable[[], Awaitable[object]]) -> object:
        moment = self.begin(name)
        if moment is Moment.DURING:
            await asyncio.wait([asyncio.ensure_future(call())], timeout=self._order.wait_s)
            end_here()
        result = await call()
        if moment is Moment.AFTER:
            end_here()
        return result

    def wrap(self, port: object) -> Any:
        return _Port(port, self)


@dataclass(frozen=True, slots=True)
class _Port:
    """All coroutines of a port, each of them a step."""

    port: object
    steps: Steps

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = getattr(self.port, name)
        return lambda *arguments, **named: self.steps.call(name, lambda: call(*arguments, **named))


def end_here() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(1)  # a thread may go on for a moment


def step_through_files(steps: Steps) -> None:
    """Make steps of what a directory of objects does with files."""
    puts: Any = object_put
    folders: Any = durable_folders
    store: Any = objects_directory
    write, delete = puts.write_durably, store._delete

    def stepped_write(path: Path, parts: Sequence[Buffer]) -> int:
        moment = steps.begin("write a file")
        if moment is Moment.DURING:
            whole = b"".join(parts)
            path.write_bytes(whole[: len(whole) // 2])
            end_here()
        file: int = write(path, parts)
        if moment is Moment.AFTER:
            end_here()
        return file

    def stepped(flush: Callable[[Any], None]) -> Callable[[Any], None]:
        def stepped_flush(folder: object) -> None:
            moment = steps.begin("flush a folder")
            flush(folder)
            if moment is not None:
                end_here()

        return stepped_flush

    def stepped_delete(root: Path, paths: Iterable[str]) -> dict[str, str]:
        refused: dict[str, str] = {}
        for path in paths:
            moment = steps.begin("remove a file")
            refused |= delete(root, [path])
            if moment is not None:
                end_here()
        return refused

    puts.write_durably, puts.flush_names = stepped_write, stepped(puts.flush_names)
    folders.flush_names = stepped(folders.flush_names)
    store._delete = stepped_delete


async def work(order: Order) -> None:
    """Do all of the background work once."""
    steps = Steps(order)
    postgres = await PostgresMetadata.open(order.dsn, POOL)
    directory = await DirectoryStore.open(Path(order.root))
    step_through_files(steps)
    metadata, objects = steps.wrap(postgres), steps.wrap(directory)
    policies = TopicPolicies(metadata, read_broker_config({}).topic_values)
    await policies.refresh()
    await _build(metadata, objects, policies)
    await _compact(metadata, objects, policies)
    await _expire(metadata, policies)
    await metadata.begin_round("sweep", 1)
    await Sweeper(metadata=metadata, objects=objects, config=CONFIG).run()
    await directory.close()
    await postgres.close()


async def _build(metadata: MetadataStore, objects: ObjectStore, policies: TopicPolicies) -> None:
    builder = Builder(
        metadata=metadata,
        objects=objects,
        config=CONFIG,
        policy_of=policies.get,
        clock=time.monotonic,
    )
    await metadata.begin_round("build", 1)
    await builder.plan()
    while await builder.work_once():
        pass
    assert not builder.counts.failed


async def _compact(metadata: MetadataStore, objects: ObjectStore, policies: TopicPolicies) -> None:
    compactor = Compactor(
        metadata=metadata,
        objects=objects,
        config=CONFIG,
        policy_of=policies.get,
        clock=time.monotonic,
    )
    compacted = [
        Partition(topic_id, index)
        for topic_id, policy in policies.all()
        if policy.compact
        for index in range(policy.partition_count)
    ]
    await metadata.begin_round("compact", 1)
    await compactor.plan(compacted)
    while await compactor.work_once():
        pass
    assert not compactor.counts.failed


async def _expire(metadata: MetadataStore, policies: TopicPolicies) -> None:
    await metadata.begin_round("retain", 1)

    async def all_policies() -> Iterable[tuple[UUID, TopicPolicy]]:
        return policies.all()

    await Retention(
        metadata=metadata,
        policies=all_policies,
        producer_unused_ms=lambda: FOREVER_MS,
    ).run()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def serve() -> None:
    """Fork for each order; nothing here has threads or an event loop yet."""
    configure_logs()
    for line in sys.stdin:
        order = Order.from_line(line)
        pid = os.fork()
        if not pid:
            asyncio.run(work(order))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
