"""The process of the attackers, who have machines of their own.

Here they must not take the broker's processors: they have a session that gives way to all others.
"""

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from broker.upkeep.giving_way import give_way
from tests.abuse import bombs, floods, slow
from tests.abuse.attacker import Target

NICENESS: Final = 19

_spawn = multiprocessing.get_context("spawn")


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
        linger_ms: of the good producer; librdkafka's default. With 1 ms it spins meanwhile, and
            takes a fifth of a processor from the broker, which it shares the machine with.
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
    linger_ms: float = 5.0
    seed: int = 1
    kinds: str = ""


class AttackProcess:
    """The side of who has it attack."""

    def __init__(self) -> None:
        self._pipe, self._theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=_be_attackers, args=(self._theirs,), daemon=True)

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Have it ready, and end it."""
        await asyncio.to_thread(self._process.start)
        self._theirs.close()
        try:
            yield
        finally:
            self._process.kill()
            self._process.join()
            self._pipe.close()

    async def attack(self, target: Target, plan: Plan, made: list[bombs.Bomb]) -> Counter[str]:
        """Attack as planned; return what happened to the attackers.

        Raises:
            EOFError: they have failed, and said why on standard error.
        """
        await asyncio.to_thread(self._pipe.send, (target, plan, made))
        done: Counter[str] = await asyncio.to_thread(self._pipe.recv)
        return done


def _be_attackers(pipe: Connection) -> None:
    give_way(NICENESS)
    target, plan, made = pipe.recv()
    asyncio.run(_attack(target, plan, made))
    pipe.send(target.done)


async def _attack(target: Target, plan: Plan, made: list[bombs.Bomb]) -> None:
    """Attack with all that has a rate; one without is left out."""
    end_s = time.monotonic() + plan.seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(plan.seconds))
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
