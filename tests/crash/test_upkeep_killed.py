"""kill -9 of the background work at its steps: the log stays what it is, and the work is done.

Each trial begins with the same log, on a real Postgres and a directory of objects: two thirds of it
built and compacted, a topic deleted and made again, uploads that nobody committed. A process does
all of the background work, and ends itself before, while, or after it does its n-th step; another
one then finishes. How many steps there are is found out. A run takes some of them; all with
STREAMHOUSE_TEST_ALL_STEPS=1. CRASH_SEED repeats which, and CRASH_ROUNDS makes more of them.
"""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from protocol.ids import Partition
from storage.postgres.postgres_connection import Connection
from tests.conftest import Tell
from tests.crash.upkeep_checks import reading
from tests.crash.upkeep_child import Moment, Order
from tests.crash.upkeep_log import COMPACTED, HOUR_MS, LogModel, WrittenLog
from tests.support.postgres import create_database, maintenance, postgres_server, until

ROOT: Final = Path(__file__).parents[2]
TRIALS: Final = 12
LIVES: Final = 8
MOST_WAIT_S: Final = 0.004
KILLED: Final = -9
RECOMPRESSED: Final = {"compression.type": "zstd", "retention.ms": "-1"}
LEASES_END: Final = "UPDATE streamhouse_internal.storage_tasks SET claimed_until = now()"
OTHERS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class Children:
    """Processes that do the background work, or a part of it."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self._server = server

    def run(self, order: Order) -> int:
        """Return the exit code of one that has ended."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(order.to_line())
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


@pytest.fixture
def children() -> Iterator[Children]:
    command = (sys.executable, "-m", "tests.crash.upkeep_child")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        yield Children(server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database and a directory of objects."""

    dsn: str
    root: Path

    def order(self) -> Order:
        """Return what lets a process do all of the work there."""
        page = self.root.with_suffix(".steps")
        page.unlink(missing_ok=True)
        return Order(dsn=self.dsn, root=str(self.root), page=str(page))

    def steps(self) -> list[str]:
        """Return the steps that the last process has begun there."""
        return self.root.with_suffix(".steps").read_text().split("\n")[:-1]

    async def rest(self) -> None:
        """Wait until Postgres has done what a process told it that is no more; leases end."""
        connection: Connection = await asyncpg.connect(self.dsn)

        async def are_gone() -> bool | None:
            return await connection.fetchval(OTHERS) == 0 or None

        try:
            await until(are_gone)
            await connection.execute(LEASES_END)
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What each trial begins with."""

    place: Place
    logs: Mapping[Partition, LogModel]

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[Place]:
        """Yield the same somewhere else, for as long as the block lasts."""
        server = postgres_server()
        name, template = "trial", self.place.dsn.partition("@/")[2].partition("?")[0]
        root = self.place.root.with_name(name)
        shutil.copytree(self.place.root, root, copy_function=os.link)
        async with maintenance(server) as connection:
            create = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
            await connection.execute(create)
            try:
                yield Place(dsn=server.database(name), root=root)
            finally:
                await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
                shutil.rmtree(root)


async def prepare(children: Children, home: Path, dice: random.Random) -> Prepared:
    """Write a log, let its background work be done, and write more."""
    place = Place(dsn=await create_database(), root=home / "prepared")
    async with WrittenLog.open(place.dsn, place.root, dice) as log:
        events = await log.create("events", 2, {"retention.ms": str(HOUR_MS)})
        users = await log.create("users", 2, COMPACTED)
        orders = await log.create("orders", 1, RECOMPRESSED)
        gone = await log.create("gone", 1, {})
        for turn in range(3):
            for part in range(4):
                old_ms = 2 * HOUR_MS if (turn, part) < (1, 2) else 0
                await log.write(sorted([*events, *events]), age_ms=old_ms)
                await log.write(sorted([*users, users[0], *orders, *gone]))
                await log.write(users, transaction="billing")
                await log.write(sorted([users[0], *orders]), transaction="shipping")
                await log.end("shipping", committed=part % 2 == 0)
            await log.write(events, transaction="billing")
            await log.end("billing", committed=turn == 1)
            if turn == 1:
                assert children.run(place.order()) == 0
        await log.delete_records(orders[0], log.logs[orders[0]].high_watermark // 3)
        await log.delete(gone)
        again = await log.create("gone", 1, {})
        await log.write(again)
        await log.write(sorted([users[1], *again]), transaction="never ends")
        await log.write(sorted([*users, *again]))
        await log.abandon(uploaded=False)
        await log.abandon(uploaded=True)
    return Prepared(place=place, logs=log.logs)


async def finish(children: Children, place: Place, prepared: Prepared) -> None:
    """Let another process do what is left, and see that it did."""
    await place.rest()
    assert children.run(place.order()) == 0
    async with reading(place.dsn, place.root, prepared.logs) as reader:
        await reader.check()
        await reader.check_all_is_done()


@contextmanager
def told(seed: int, order: Order, place: Place) -> Iterator[None]:
    """Add to a failure what it was about."""
    try:
        yield
    except AssertionError as error:
        steps = place.steps()
        at = f"{order.moment} step {order.step}, {steps[-1] if steps else 'none'}"
        error.add_note(f"CRASH_SEED={seed}: killed {at}, during a call after {order.wait_s} s")
        raise


async def test_a_kill_at_any_step_leaves_the_log_right(
    children: Children,
    tmp_path: Path,
    dice: random.Random,
    seed: int,
    rounds: int,
    tell: Tell,
) -> None:
    # Given a log, and how many steps its background work has
    prepared = await prepare(children, tmp_path, dice)
    async with prepared.copy() as place:
        assert children.run(place.order()) == 0
        steps = place.steps()
        await finish(children, place, prepared)
    trials = [(step, moment) for step in range(len(steps)) for moment in Moment]
    if not os.environ.get("STREAMHOUSE_TEST_ALL_STEPS"):
        trials = dice.sample(trials, min(TRIALS * rounds, len(trials)))

    for step, moment in trials:
        # When a process that does it ends there
        async with prepared.copy() as place:
            wait_s = dice.uniform(0, MOST_WAIT_S)
            order = replace(place.order(), step=step, moment=moment, wait_s=wait_s)
            with told(seed, order, place):
                code = children.run(order)
                # (Reads run ahead in no fixed order: there may be a step more or less)
                assert code == KILLED or (code == 0 and len(steps) - step < 5)
                await place.rest()

                # Then readers get what they shall, and another one finishes
                async with reading(place.dsn, place.root, prepared.logs) as reader:
                    await reader.check()
                await finish(children, place, prepared)
    tell(f"seed={seed} {len(trials)} of {3 * len(steps)} {Counter(steps)}")


async def test_work_that_is_killed_over_and_over_is_done_in_the_end(
    children: Children, tmp_path: Path, dice: random.Random, seed: int
) -> None:
    # Given a log
    prepared = await prepare(children, tmp_path, dice)
    async with prepared.copy() as place:
        # When one process after the other does a part of the work
        for _ in range(LIVES):
            moment, wait_s = dice.choice(list(Moment)), dice.uniform(0, MOST_WAIT_S)
            step = dice.randrange(40)
            order = replace(place.order(), step=step, moment=moment, wait_s=wait_s)
            with told(seed, order, place):
                assert children.run(order) in (KILLED, 0)
                await place.rest()
                # Then readers get what they shall all the time
                async with reading(place.dsn, place.root, prepared.logs) as reader:
                    await reader.check()
        # And one that lives finishes
        await finish(children, place, prepared)
