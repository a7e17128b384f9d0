"""Batches that the writer holds although they are answered: this broker was cut off from Postgres.

While it is, they do not count as memory of clients: it takes no others, and has to hear those whom
it sends away. Once it takes batches again they do; each time that it comes back and is cut off
again while a store is away would otherwise cost it as much memory as clients may have at all.
"""

import asyncio
from typing import Protocol

from broker.broker_set import BrokerSet
from broker.network.memory import REQUEST_BYTES, HeldMemory, MemoryBudget
from storage.pending_object import PendingObject


class IdempotentAnswers(Protocol):
    """The part of the writer that answers them."""

    def answer_idempotent(self) -> list[PendingObject]:
        """As the writer's."""


class AnsweredBatches:
    """Has them answered, and counts them when they are to count."""

    def __init__(self, writer: IdempotentAnswers, memory: MemoryBudget) -> None:
        self._writer = writer
        self._memory = memory
        self._held: list[tuple[int, asyncio.Future[None]]] = []  # bytes, and when they are let go
        self._counted: list[HeldMemory] = []

    def brokers_changed(self, brokers: BrokerSet) -> None:
        """Answer what has no answer, if this broker is cut off; count what it holds, if not."""
        if brokers.is_cut_off:
            for counted in self._counted:
                counted.give_back()
            self._counted = []
            pending = self._writer.answer_idempotent()
            self._held = [(_answered_bytes(one), one.let_go) for one in pending]
            return
        for size, let_go in self._held:
            if not let_go.done():
                self._count(size, let_go)
        self._held = []

    def _count(self, size: int, let_go: "asyncio.Future[None]") -> None:
        self._memory.take(size)
        counted = HeldMemory(self._memory, size)
        let_go.add_done_callback(lambda _: counted.give_back())
        self._counted.append(counted)


def _answered_bytes(pending: PendingObject) -> int:
    return sum(len(one.data) + REQUEST_BYTES for one in pending.batches if one.outcome.done())
