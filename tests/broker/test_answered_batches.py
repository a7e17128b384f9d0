"""What the writer holds of answered batches counts as memory of clients, but not while cut off."""

import asyncio

from broker.answered_batches import AnsweredBatches
from broker.broker_set import BrokerSet
from broker.network.memory import REQUEST_BYTES, MemoryBudget
from storage.errors import CommitOutcomeUnknown
from storage.metadata.brokers import Membership
from tests.storage.test_writer import Bench, running

MEMBERSHIP = Membership(node_id=0, generation=0, brokers=())


def cut_off(answered: AnsweredBatches) -> None:
    answered.brokers_changed(BrokerSet(MEMBERSHIP, is_cut_off=True))


def back(answered: AnsweredBatches) -> None:
    answered.brokers_changed(BrokerSet(MEMBERSHIP))


def counted(bench: Bench) -> tuple[MemoryBudget, AnsweredBatches]:
    memory = MemoryBudget(1 << 20)
    return memory, AnsweredBatches(bench.writer, memory)


async def test_what_is_answered_and_held_counts_once_batches_are_taken_again() -> None:
    async with running() as bench:
        # Given a store that is away, and a broker with a numbered batch and another one
        memory, answered = counted(bench)
        bench.objects.gate.clear()
        numbered, other = bench.append(sequence=0), bench.append(1)
        await asyncio.sleep(0)

        # When it is cut off, then the first is answered, and its client may be sent away
        cut_off(answered)
        assert isinstance(numbered.exception(), CommitOutcomeUnknown)
        assert not other.done()
        assert memory.used_bytes == 0

        # When it is back, then the first counts, as the writer holds it: once
        back(answered)
        back(answered)
        held_bytes = memory.used_bytes
        assert held_bytes > REQUEST_BYTES

        # And when that happens again, then all that is held counts
        second = bench.append(2, sequence=0)
        cut_off(answered)
        assert isinstance(second.exception(), CommitOutcomeUnknown)
        assert memory.used_bytes == 0
        back(answered)
        assert memory.used_bytes == 2 * held_bytes

        # Until the writer lets go of it
        bench.objects.gate.set()
        assert (await other).base_offset == 0
        while memory.used_bytes:
            await asyncio.sleep(0)
        assert await bench.high_watermark(2) == 1


async def test_what_was_let_go_meanwhile_does_not_count() -> None:
    async with running() as bench:
        # Given a batch that is answered and committed while the broker is cut off
        memory, answered = counted(bench)
        bench.objects.gate.clear()
        numbered = bench.append(sequence=0)
        cut_off(answered)
        assert numbered.exception() is not None
        bench.objects.gate.set()
        while not await bench.high_watermark():
            await asyncio.sleep(0)
        await bench.append(1)

        # When it is back, then nothing is held
        back(answered)
        assert memory.used_bytes == 0
