"""The write path (D5): batches of all partitions -> one object -> one PUT -> one commit.

    append -> open buffer -> sealed -> uploaded -> committed -> every batch's future is resolved

An object is sealed at once when none is under way, so a lone producer never waits for a batching
window; only producers who come back together are waited for (returns.py). Otherwise it is sealed
when it is full, when all before it are committed, or when `spacing` has passed since the last one:
a quarter of what a PUT takes at present, LEAST_SPACING_S at least.
For an object costs two milliseconds of processors, however small it is: more of them side by side
on a local disk would be nothing but slower. Uploads run in parallel; commits keep the sealed order,
so an idempotent producer's batches arrive in sequence.

What may fail on the way: durable_objects.py. Shutdown before an answer is CommitOutcomeUnknown,
which clients see as REQUEST_TIMED_OUT. So is what idempotent producers are told when other brokers
have taken over (`answer_idempotent`).

Limits: objects of `flush_bytes` (one batch may exceed it) and of MOST_BATCHES, whose answers hold
up the event loop for 40 ms; `max_uploads` of them in flight. What waits beyond is bounded by the
memory that connections may hold (broker/network/memory.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Final
from uuid import UUID

import structlog

from protocol.batch import BatchHeader
from storage.acknowledgements import Acknowledgements
from storage.config import WriterConfig
from storage.durable_objects import DurableObjects
from storage.errors import BufferClosed, CommitOutcomeUnknown, StorageError
from storage.known_ends import KnownEnds, check_appended, known_ends
from storage.metadata.port import BatchOutcome, MetadataStore, TransactionUse
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.port import ObjectStore
from storage.overtaken import OvertakenProducers
from storage.partition_log import PartitionLog
from storage.pending_object import BufferedBatch, PendingObject, Seal
from storage.returns import Returns
from storage.tail import TailCache
from storage.telling import Telling
from storage.untold import Told, Untold
from storage.wal_index import UNKNOWN_OFFSET

LEAST_SPACING_S: Final = 0.01
MOST_BATCHES: Final = 1024
_LOG: Final = attrgetter("log")

log = structlog.get_logger()


class Writer:
    """Gathers batches into objects and makes them durable; see the module's docstring.

    Attributes:
        tail: where it keeps what is committed.
        telling: of what its objects do not say already.
    """

    def __init__(
        self,
        *,
        objects: ObjectStore,
        metadata: MetadataStore,
        paths: ReservedPaths,
        tail: TailCache,
        config: WriterConfig,
        metrics: StorageMetrics,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        writer_id: UUID,
        name_of: Callable[[UUID], str],
    ) -> None:
        """Wire it; `writer_id` is nobody else's, `name_of` returns the name of a topic."""
        self._durable = DurableObjects(
            objects=objects,
            metadata=metadata,
            paths=paths,
            metrics=metrics,
            clock=clock,
            name_of=name_of,
        )
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._now_ms = now_ms
        self._writer_id = writer_id
        self._sequence = 0  # of the next object
        self._open: PendingObject | None = None
        self._full: deque[PendingObject] = deque()
        self._in_flight: deque[PendingObject] = deque()  # in sealed order, which is commit order
        self._arrival: asyncio.Future[None] | None = (
            None  # of an object, which the committer awaits
        )
        self._returns = Returns()
        self._overtaken = OvertakenProducers(clock)
        self._acknowledgements = Acknowledgements(tail, self._overtaken, metrics)
        self._untold = Untold(clock)
        self.tail = tail
        self.telling = Telling(self._untold, self._store_told)
        self._check: asyncio.Handle | None = None
        self._closed = False
        self._drained = asyncio.Event()
        self._drained.set()
        self._uploads = asyncio.TaskGroup()

    async def run(self) -> None:
        """Upload and commit until cancelled; any exception must end the broker.

        Raises:
            MetadataWentBack: nothing that is known here holds any more. All else is a bug.
        """
        async with self._uploads:
            try:
                while True:
                    if not self._in_flight:
                        self._arrival = asyncio.get_running_loop().create_future()
                        await self._arrival
                    pending = self._in_flight[0]
                    await pending.uploaded
                    began = self._clock()
                    known = known_ends(map(_LOG, pending.batches))
                    outcomes = await self._durable.commit(pending)
                    self._metrics.commit_seconds.observe(self._clock() - began)
                    self._in_flight.popleft()
                    self._answer(pending, outcomes, known)
                    pending.let_go.set_result(None)
            finally:  # nobody would commit what comes now
                self._closed = True
                self.telling.close()
                if self._check is not None:
                    self._check.cancel()

    def append(
        self,
        partition_log: PartitionLog,
        data: memoryview,
        header: BatchHeader,
        *,
        transaction: TransactionUse,
        transactional_id: str | None,
        leader_epoch: int,
        client_id: str,
    ) -> asyncio.Future[BatchOutcome]:
        """Take a verified batch of a client; the future tells what became of it.

        Raises:
            BufferClosed: the broker is shutting down.
        """
        if self._closed:
            raise BufferClosed("the broker is shutting down")
        loop = asyncio.get_running_loop()
        if self._open is None:
            self._open = PendingObject(loop.create_future())
            self._drained.clear()
        outcome: asyncio.Future[BatchOutcome] = loop.create_future()
        expected = partition_log.log_end_offset if partition_log.is_end_known else UNKNOWN_OFFSET
        self._open.batches.append(
            BufferedBatch(
                partition_log,
                data,
                header,
                transaction,
                transactional_id,
                leader_epoch,
                expected,
                outcome,
                client_id,
            )
        )
        self._open.size += len(data)
        partition_log.buffered_records += header.record_count
        if self._open.size >= self._config.flush_bytes or len(self._open.batches) >= MOST_BATCHES:
            self._full.append(self._open)
            self._open = None
            self._seal_soon()
        elif self._is_last_to_return() or self._check is None:
            self._seal_soon()
        return outcome

    def note_refused(self, partition_log: PartitionLog, header: BatchHeader) -> None:
        """Take note of a batch that is refused because another broker leads (overtaken.py)."""
        self._overtaken.remember(partition_log.partition, header)

    def answer_idempotent(self) -> list[PendingObject]:
        """Say of all batches of idempotent producers that what becomes of them is not known yet.

        Their clients send them again, to another broker, and neither copy is taken twice. One of
        another producer may be, so that waits for its outcome as long as its client does.

        Returns:
            the objects that they are in, which go on their way all the same.
        """
        unanswered = self._unanswered()
        for pending in unanswered:
            for batch in pending.batches:
                if batch.header.producer_id >= 0 and not batch.outcome.done():
                    batch.outcome.set_exception(CommitOutcomeUnknown("cut off from Postgres"))
        return unanswered

    async def close(self, deadline_s: float) -> None:
        """Make durable and answer what was appended; what is not by the deadline is unknown."""
        self._closed = True
        self._seal_soon()
        try:
            async with asyncio.timeout(deadline_s):
                await self._drained.wait()
        except TimeoutError:
            unanswered = self._unanswered()
            log.warning("shutdown before an answer", objects=len(unanswered))
            for pending in unanswered:
                self._acknowledgements.fail(
                    pending, CommitOutcomeUnknown("the broker is shutting down")
                )

    def _unanswered(self) -> list[PendingObject]:
        return [*self._in_flight, *self._full, *([self._open] if self._open else [])]

    def _is_last_to_return(self) -> bool:
        return self._returns.missing > 0 and self._returns.arrived(self._clock())

    def _wait_s(self, now_s: float) -> float:
        """Return for how long the open object may wait for more."""
        if not self._in_flight:
            return self._returns.wait_s(now_s)
        spacing_s = min(max(self._durable.put_s / 4, LEAST_SPACING_S), self._config.flush_ms / 1000)
        return self._in_flight[-1].sealed_at + spacing_s - now_s

    def _seal_soon(self) -> None:
        """Look at the buffer after this turn of the event loop: its arrivals go together."""
        if self._check is not None:
            self._check.cancel()
        self._check = asyncio.get_running_loop().call_soon(self._seal)

    def _seal(self) -> None:
        """Start as many uploads as the rules in the module's docstring allow now."""
        self._check = None
        while len(self._in_flight) < self._config.max_uploads:
            if self._full:
                pending = self._full.popleft()
                self._upload_soon(pending, self._untold.take(pending.batches))
                continue
            if self._open is None:
                return
            now_s = self._clock()
            wait_s = self._wait_s(now_s)
            if wait_s > 0 and not self._closed:
                self._check = asyncio.get_running_loop().call_later(wait_s, self._seal)
                return
            self._returns.sealed(now_s)
            pending, self._open = self._open, None
            self._upload_soon(pending, self._untold.take(pending.batches))

    def _upload_soon(self, pending: PendingObject, told: Told) -> asyncio.Task[None]:
        pending.sealed_at = self._clock()
        seal = Seal(
            writer_id=self._writer_id,
            sequence=self._sequence,
            written_ms=self._now_ms(),
            told=told,
        )
        self._sequence += 1
        if pending.batches:
            self._in_flight.append(pending)
            if self._arrival is not None and not self._arrival.done():
                self._arrival.set_result(None)
            self._metrics.object_bytes.observe(pending.size)
        return self._uploads.create_task(self._durable.upload(pending, seal))

    def _store_told(self, told: Told) -> asyncio.Task[None]:
        """Store an object without batches; nothing is committed."""
        pending = PendingObject(asyncio.get_running_loop().create_future())
        return self._upload_soon(pending, told)

    def _answer(
        self, pending: PendingObject, outcomes: list[BatchOutcome] | StorageError, known: KnownEnds
    ) -> None:
        assert pending.seal is not None
        if isinstance(outcomes, StorageError):
            self._acknowledgements.fail(pending, outcomes)
            self._untold.lost(pending.seal, pending.batches)
        else:
            answers = pending.answers(outcomes)
            check_appended(known, pending.batches, answers)
            for batch, outcome in zip(pending.batches, answers, strict=True):
                self._acknowledgements.settle(batch, outcome)
            self._untold.answered(pending.seal, pending.batches, answers)
            now_s = self._clock()
            self._returns.answered(len(pending.batches), now_s - pending.sealed_at, now_s)
        if self._untold.since_s:
            self.telling.begin()
        if self._open is None and not self._full and not self._in_flight:
            self._drained.set()
        else:
            self._seal_soon()
