"""Trials in which an EndTxn arrives late: when its sender is in the next transaction already.

A trial is two transactions of one producer, each with a record in two partitions. The EndTxn of the
first is held by a proxy, until the client has given up on it and ended the transaction another way;
it arrives before, between or after the records of the second.
"""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kio.schema.errors import ErrorCode

from tests.transactions.delayed_end_clients import Producer, Refused
from tests.transactions.delayed_end_proxy import EndTxnProxy, Held

HELD_S: Final = 90.0


class Moment(Enum):
    """When the held EndTxn arrives, seen from the second transaction."""

    BEFORE = "before its first record"
    BETWEEN = "between its records"
    AFTER = "after its end"


class Outcome(Enum):
    """What the client was told of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What happens.

    Attributes:
        first_commits, second_commits: else they abort.
        restarts: the client crashes instead of asking again.
    """

    first_commits: bool
    second_commits: bool
    restarts: bool
    moment: Moment


@dataclass(slots=True)
class Transaction:
    """What a client wrote and was told.

    Attributes:
        end_s: when the client began to end it (monotonic time); infinite if it never did.
    """

    values: list[str]
    outcome: Outcome = Outcome.UNKNOWN
    end_s: float = float("inf")


@dataclass(slots=True)
class Report:
    """What came of some trials.

    Attributes:
        transactions: of each trial, the first and the second.
        late_answers: how often the broker answered a late EndTxn with which code.
        refusals: what clients were refused, how often.
    """

    transactions: list[tuple[Transaction, Transaction]] = field(default_factory=list)
    late_answers: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"late EndTxn answered {counts(self.late_answers)}; clients refused "
            f"{counts(self.refusals)}"
        )


def counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counter.items())) or "none"


KINDS: Final = tuple(
    Trial(first_commits=first, second_commits=second, restarts=restarts, moment=moment)
    for first, second, restarts, moment in itertools.product(
        (True, False), (True, False), (True, False), Moment
    )
)


def shuffled(kinds: Sequence[Trial], seed: int) -> Iterator[Trial]:
    """Yield trials for ever, each kind as often as any other, in an order that the seed gives."""
    order = random.Random(seed)
    while True:
        yield from order.sample(kinds, len(kinds))


MakeProducer = Callable[[], Producer]


class Lane:
    """One transactional id, its producer, and the two partitions that only it writes to."""

    def __init__(
        self,
        proxy: EndTxnProxy,
        transactional_id: str,
        partitions: tuple[int, int],
        make: MakeProducer,
    ) -> None:
        self._proxy = proxy
        self._transactional_id = transactional_id
        self._partitions = partitions
        self._make = make
        self._producer = make()

    async def run(self, trials: Sequence[Trial], report: Report) -> None:
        """Run trials one after the other."""
        try:
            await self._producer.start()
            for number, trial in enumerate(trials):
                name = f"{self._transactional_id}/{number}"
                first = Transaction([f"{name}/first/{at}" for at in range(2)])
                second = Transaction([f"{name}/second/{at}" for at in range(2)])
                report.transactions.append((first, second))
                await self._run(trial, first, second, report)
        finally:
            await self._producer.crash()

    async def _run(
        self, trial: Trial, first: Transaction, second: Transaction, report: Report
    ) -> None:
        await self._producer.begin()
        for at in range(2):
            await self._send(first, at)
        held = self._proxy.hold(self._transactional_id)
        try:
            await self._end_late(trial, first, held)
            await self._second(trial, second, held, report)
        except Refused as refused:
            report.refusals[str(refused)] += 1
            await self._restart()
        if not held.is_answered:
            await _deliver(held, report)

    async def _end_late(self, trial: Trial, first: Transaction, held: Held) -> None:
        """End the first transaction, though the request that asks for it is held."""
        ending = asyncio.create_task(self._end(first, committed=trial.first_commits))
        async with asyncio.timeout(HELD_S):
            await held.arrived.wait()
        if trial.restarts:
            ending.cancel()
            await asyncio.wait([ending])
            await self._restart()  # which aborts it
        else:
            await self._producer.give_up()
            await ending

    async def _restart(self) -> None:
        await self._producer.crash()
        self._producer = self._make()
        await self._producer.start()

    async def _second(self, trial: Trial, second: Transaction, held: Held, report: Report) -> None:
        await self._producer.begin()
        if trial.moment is Moment.BEFORE:
            await _deliver(held, report)
        await self._send(second, 0)
        if trial.moment is Moment.BETWEEN:
            await _deliver(held, report)
        await self._send(second, 1)
        await self._end(second, committed=trial.second_commits)

    async def _send(self, transaction: Transaction, at: int) -> None:
        await self._producer.send(self._partitions[at], transaction.values[at])

    async def _end(self, transaction: Transaction, *, committed: bool) -> None:
        transaction.end_s = time.monotonic()
        await self._producer.end(committed=committed)
        transaction.outcome = Outcome.COMMITTED if committed else Outcome.ABORTED


async def _deliver(held: Held, report: Report) -> None:
    code: ErrorCode = await held.deliver()
    report.late_answers[code.name] += 1
