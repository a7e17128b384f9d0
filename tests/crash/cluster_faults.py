"""Three brokers at addresses of their own, and what happens to them."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Final

from tests.crash.cluster_ledger import ClusterLedger, Pause, Trouble
from tests.crash.upkeep_faults import BUSY, BUSY_ROUNDS, await_upkeep, kill_upkeep, pause_upkeep
from tests.support.broker import BrokerProcess
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database
from tests.support.s3_server import S3Server
from tests.support.three_brokers import BUCKET, Trio

BROKERS: Final = 3
SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=100",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.heartbeat.interval.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    *BUSY_ROUNDS,
)
BUG: Final = (
    "bug in a handler",
    "Traceback",
    "stored records cannot be read",
)

KINDS: Final = ("kill", "stop", "pause", "upkeep killed", "upkeep paused")
WEIGHTS: Final = (6, 1, 2, 4, 1)
BOTH: Final = 0.25  # how often two brokers are hit at the same time
MOST_CALM_S: Final = 2.5
MOST_AWAY_S: Final = 4.0
PAUSE_S: Final = (2.5, 6.0)  # longer than a broker that is silent counts as alive
MEMBER_CALM_S: Final = 8.0
MEMBER_PAUSE_S: Final = (6.5, 9.0)  # longer than the session timeout


@contextmanager
def cluster(home: Path) -> Iterator[Trio]:
    """Run three brokers, on ports that clients which look for a dead broker do not take."""
    with S3Server.start(home / "s3") as s3, ThreadPoolExecutor() as pool:
        s3.create_bucket(BUCKET)
        dsn = pool.submit(asyncio.run, create_empty_database()).result()
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        trio = Trio(
            home=home,
            brokers=[],
            arguments=("--postgres", dsn, "--store", s3.store_url(BUCKET, "log"), *settings),
            environment={**os.environ, **s3.environment(), **BUSY},
        )
        try:
            trio.brokers += pool.map(lambda at: _start(trio, at), range(BROKERS))
            yield trio
        finally:
            for broker in trio.brokers:
                broker.kill()


def _start(trio: Trio, at: int) -> BrokerProcess:
    return trio.start(f"b{at + 1}", listen=f"127.0.0.1:{free_port()}")


class Faults:
    """Hits one broker or two at a time, so that one is always there, and waits until they serve."""

    def __init__(
        self,
        trio: Trio,
        members: Mapping[str, Sequence[int]],
        ledger: ClusterLedger,
        dice: random.Random,
    ) -> None:
        """Members are named by their pids, by group."""
        self._trio = trio
        self._members = members
        self._ledger = ledger
        self._dice = dice

    def run(self, seconds: float) -> None:
        """Go on for a while; all brokers serve and all members run when this returns.

        So do all upkeep processes.
        """
        deadline = time.monotonic() + seconds
        ended = Event()
        members_dice = random.Random(self._dice.random())
        with ThreadPoolExecutor(BROKERS + 1) as pool:
            pausing = pool.submit(self._pause_members, ended, members_dice)
            try:
                while time.monotonic() < deadline:
                    time.sleep(self._dice.uniform(0, MOST_CALM_S))  # the moment is not chosen
                    self._hit_some(pool)
            finally:
                ended.set()
            pausing.result()
        for broker in self._trio.brokers:
            await_upkeep(broker)

    def _hit_some(self, pool: ThreadPoolExecutor) -> None:
        count = 2 if self._dice.random() < BOTH else 1
        victims = self._dice.sample(range(BROKERS), count)
        kinds = self._dice.choices(KINDS, WEIGHTS, k=count)
        waits_s = [self._wait_s(kind) for kind in kinds]
        trouble = Trouble("+".join(sorted(kinds)), tuple(victims), time.monotonic())
        self._ledger.troubles.append(trouble)
        plans = zip(victims, kinds, waits_s, strict=True)
        for hit in [pool.submit(self._hit, *plan) for plan in plans]:
            hit.result()

    def _wait_s(self, kind: str) -> float:
        if "pause" in kind:
            return self._dice.uniform(*PAUSE_S)
        return self._dice.uniform(0, MOST_AWAY_S)

    def _hit(self, at: int, kind: str, wait_s: float) -> None:
        broker = self._trio.brokers[at]
        if kind == "upkeep killed":
            kill_upkeep(broker)
            return
        if kind == "upkeep paused":
            pause_upkeep(broker, wait_s)
            return
        if kind == "pause":
            broker.process.send_signal(signal.SIGSTOP)
            time.sleep(wait_s)  # a zombie-to-be
            broker.process.send_signal(signal.SIGCONT)
            return
        if kind == "stop":
            assert broker.stop() == 0, "a broker did not stop in good order"
        else:
            broker.kill()
        time.sleep(wait_s)  # how long it stays away
        self._trio.restart(at)

    def _pause_members(self, ended: Event, dice: random.Random) -> None:
        """Pause a member of one group after the other until the rest has what it owned."""
        for group in cycle(self._members):
            if ended.wait(dice.uniform(0, MEMBER_CALM_S)):
                return
            pid = dice.choice(self._members[group])
            began_s = time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            try:
                ended.wait(dice.uniform(*MEMBER_PAUSE_S))
            finally:
                os.kill(pid, signal.SIGCONT)
            self._ledger.pauses.append(Pause(group, began_s, time.monotonic()))


def bug_lines(trio: Trio) -> list[str]:
    """Return the lines of the brokers' logs that tell of a bug."""
    return [
        f"{log.parent.name}: {line}"
        for log in sorted(trio.home.glob("b*/broker.log"))
        for line in log.read_text().splitlines()
        if any(sign in line for sign in BUG)
    ]
