"""Appends that first wait for somebody else, in order for each connection and partition.

The connection's other requests go on meanwhile, so a slow answer holds up nothing but the batches
that need it and those of the same producer behind them: an idempotent producer's batches must reach
the log in the order of their sequence numbers. For the same reason those behind a batch that has
to be repeated are to be repeated, too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

from broker.refusals import CONDITIONS, Refusal
from protocol.ids import Partition
from storage.metadata.port import BatchOutcome

Append = Callable[[], Awaitable[asyncio.Future[BatchOutcome]]]
"""Puts a batch into the write buffer, or raises why not; the future tells what became of it."""


class RepeatLater(Refusal):
    """Nothing was appended, because somebody else did not answer."""


class LaterAppends:
    """Runs appends one after the other where they are of one connection and partition.

    Attributes:
        last: the one begun last, where any is under way.
    """

    def __init__(self) -> None:
        self.last: dict[tuple[str, Partition], asyncio.Future[RepeatLater | None]] = {}

    def waiting(self, peer: str, topic_id: UUID, index: int) -> bool:
        """Return whether one is under way, so that the partition's next must wait for its turn."""
        return (peer, Partition(topic_id, index)) in self.last

    def begin(self, peer: str, partition: Partition, append: Append) -> asyncio.Task[BatchOutcome]:
        """Run `append` when those before it are in the write buffer, or refused.

        Returns:
            What becomes of the batch; it raises what `append` raises, or a RepeatLater of the batch
            before it.
        """
        key = (peer, partition)
        before = self.last.get(key)
        placed = self.last[key] = asyncio.get_running_loop().create_future()

        async def in_turn() -> BatchOutcome:
            repeat: RepeatLater | None = None
            try:
                if before is not None:
                    await asyncio.wait((before,))
                    if (first := before.result()) is not None:
                        raise first
                outcome = await append()
            except RepeatLater as refusal:
                repeat = refusal
                raise
            finally:
                placed.set_result(repeat)
                if self.last.get(key) is placed:
                    del self.last[key]
            return await outcome

        task = asyncio.create_task(in_turn())
        task.add_done_callback(_look_at)
        return task


def _look_at(task: asyncio.Task[BatchOutcome]) -> None:
    """Look at how it ended: the connection that wanted to know may be gone.

    The frames that a refusal was raised in have the batch, and this task. They are let go of: else
    a megabyte would be left to the garbage collector, which has little to do otherwise.
    """
    if task.cancelled():
        return
    refusal = task.exception()
    if isinstance(refusal, CONDITIONS):
        with suppress(*CONDITIONS):
            task.result()  # now they are the exception's only, not the task's as well
        refusal.with_traceback(None)
