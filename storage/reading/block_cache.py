"""What was read from the object store lately, ready to be sent; one GET for all who wait for it.

The unit is a GET: its pieces (storage/reading/read_plan.py) share one buffer, which goes when all
of them go. GETs under way count as if they were here. A reader holds what it needs until it has it.
What is read ahead takes the place only of what was read already, and only while what is held, under
way or not read yet is less than half of the cache: else nothing is read ahead.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from storage.config import MiB
from storage.errors import CorruptObject
from storage.metrics import StorageMetrics
from storage.objects.port import ObjectStore
from storage.reading.block_get import BlockGet
from storage.reading.cold_gets import ColdGets
from storage.reading.cold_pace import ColdPace
from storage.reading.read_plan import Key, Piece, coalesce, memory_of, most_memory_of
from storage.reading.segment_indexes import SegmentIndexes
from storage.runs import Run

IN_THREAD_BYTES: Final = 2 * MiB
"""Larger pieces are checked in a thread; one of 1 MiB takes a fraction of a millisecond."""


class BlockCache:
    """One of each broker.

    Attributes:
        clock: in s.
        answers: of the store, to all GETs of this and of `indexes`.
        indexes: of the segments that pieces lie in; they do not count here.
        pace: readers ask it before they take much.
    """

    def __init__(
        self,
        objects: ObjectStore,
        *,
        max_bytes: int,
        metrics: StorageMetrics,
        clock: Callable[[], float],
    ) -> None:
        self.max_bytes = max_bytes
        self.clock = clock
        self._cold_gets = ColdGets(objects, metrics=metrics, clock=clock)
        self.answers = self._cold_gets.answers
        self.indexes = SegmentIndexes(self._cold_gets)
        self.pace = ColdPace(clock)
        self._get_of: dict[Key, BlockGet] = {}
        self._gets: OrderedDict[BlockGet, None] = OrderedDict()  # least recently used first
        self._size = 0
        self._kept = 0

    def is_here(self, piece: Piece) -> bool:
        """Return whether `loaded` would return it."""
        get = self._get_of.get(piece.key)
        return piece.entry.inline is not None or (get is not None and get.done)

    def loaded(self, piece: Piece) -> Run | None:
        """Return a piece if it is here; nobody is waited for."""
        if piece.entry.inline is not None:
            return piece.parse(memoryview(bytearray(piece.entry.inline)))
        get = self._get_of.get(piece.key)
        if get is None or not get.done:
            return None
        self._use(get)
        return get.runs[piece.key].result()

    async def close(self) -> None:
        tasks = [get.task for get in self._gets if get.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.indexes.close()

    def gets(self, needed: Iterable[Piece]) -> tuple[list[Sequence[Piece]], list[Sequence[Piece]]]:
        """Return the GETs that bring these pieces: what each brings, in the order of bytes.

        Returns:
            those that are still to be made; those that were, or are on their way.
        """
        missing: dict[Key, Piece] = {}
        known: dict[BlockGet, None] = {}
        for piece in needed:
            if piece.entry.inline is None:
                if (get := self._get_of.get(piece.key)) is None:
                    missing[piece.key] = piece
                else:
                    known[get] = None
        return [*coalesce(missing.values())], [get.pieces for get in known]

    def load(
        self, needed: Iterable[Piece], ahead: Iterable[Sequence[Piece]]
    ) -> tuple[list[BlockGet], int]:
        """Begin to fetch what is not here.

        Args:
            needed: pieces that somebody waits for.
            ahead: groups of pieces that will be needed soon; each is fetched as a whole or not at
                all, up to the first that finds no place.

        Returns:
            the gets that the needed pieces are of, held until `release`; and how many bytes of
            `ahead` are here, or will be.
        """
        wanted: dict[Key, Piece] = {}
        held: dict[BlockGet, None] = {}
        for piece in needed:
            if piece.entry.inline is not None:
                continue
            get = self._get_of.get(piece.key)
            if get is None:
                wanted[piece.key] = piece
            elif get not in held:
                held[get] = None
                self._use(get)
                self._change(get, holds=1)
        missing = set(wanted)
        needed_bytes = sum(map(memory_of, coalesce(wanted.values())))
        soon, ahead_bytes = self._affordable(ahead, needed_bytes)
        wanted.update(soon)
        for pieces in coalesce(wanted.values()):
            is_needed = any(piece.key in missing for piece in pieces)
            get = self._start(pieces, unread=not is_needed)
            if is_needed:
                self._change(get, holds=1)
                held[get] = None
        self._make_room(for_needed=bool(missing))
        return list(held), ahead_bytes

    def release(self, gets: Iterable[BlockGet]) -> None:
        """Let go of what `load` returned."""
        for get in gets:
            self._change(get, holds=-1)
        self._make_room(for_needed=True)

    def _affordable(
        self, ahead: Iterable[Sequence[Piece]], needed_bytes: int
    ) -> tuple[list[tuple[Key, Piece]], int]:
        """Return what is to be read ahead, is not here, and finds a place; and bytes of all."""
        taken: list[tuple[Key, Piece]] = []
        size, ahead_bytes = 0, 0
        for group in ahead:
            missing = [
                (piece.key, piece)
                for piece in group
                if piece.key not in self._get_of and piece.entry.inline is None
            ]
            if missing:
                size += most_memory_of(piece for _, piece in missing)
                if self._kept + needed_bytes + size > self.max_bytes // 2:
                    break
                taken += missing
            ahead_bytes += sum([piece.length for piece in group])
        return taken, ahead_bytes

    def _start(self, pieces: Sequence[Piece], *, unread: bool) -> BlockGet:
        loop = asyncio.get_running_loop()
        runs: dict[Key, asyncio.Future[Run]] = {one.key: loop.create_future() for one in pieces}
        get = BlockGet(pieces, memory_of(pieces), runs, unread)
        self._get_of.update((piece.key, get) for piece in pieces)
        self._gets[get] = None
        self._size += get.size
        self._kept += get.size
        get.task = asyncio.create_task(self._bring(get))
        get.task.add_done_callback(lambda task: self._ended(get, task))
        return get

    async def _bring(self, get: BlockGet) -> None:
        first, last = get.pieces[0], get.pieces[-1]
        length = last.start + last.length - first.start
        data = await self._cold_gets.get(first.entry.path, first.start, length, ahead=get.unread)
        view = memoryview(data)
        for piece in get.pieces:
            at = piece.start - first.start
            part = view[at : at + piece.length]
            run = get.runs[piece.key]
            is_large = piece.length > IN_THREAD_BYTES
            try:
                run.set_result(
                    await asyncio.to_thread(piece.parse, part) if is_large else piece.parse(part)
                )
            except CorruptObject as error:
                self._give_up(get, piece.key, error)
            if piece is not last:
                await asyncio.sleep(0)  # others have their turn between two pieces

    def _ended(self, get: BlockGet, task: "asyncio.Task[None]") -> None:
        get.task = None  # what was fetched may stay for long
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            for key, run in get.runs.items():
                if not run.done():
                    self._give_up(get, key, error)
        self._change(get, done=True)
        if not any(self._get_of.get(key) is get for key in get.runs):
            self._drop(get)
        self._make_room(for_needed=True)

    def _give_up(self, get: BlockGet, key: Key, error: BaseException) -> None:
        """Tell who waits for a piece; the next reader tries again."""
        run = get.runs[key]
        if isinstance(error, asyncio.CancelledError):
            run.cancel()
        else:
            run.set_exception(error)
            run.exception()  # perhaps nobody waits
        if self._get_of.get(key) is get:
            del self._get_of[key]

    def _use(self, get: BlockGet) -> None:
        self._gets.move_to_end(get)
        if get.unread:
            self._change(get, read=True)

    def _change(
        self, get: BlockGet, *, holds: int = 0, read: bool = False, done: bool = False
    ) -> None:
        if get not in self._gets:  # dropped, and still held
            return
        self._kept -= get.kept
        get.holds += holds
        if read:
            get.unread = False
        get.done = get.done or done
        self._kept += get.kept

    def _make_room(self, *, for_needed: bool) -> None:
        """Drop what was not used for longest; what nobody has read yet only `for_needed`."""
        while self._size > self.max_bytes:
            droppable = (
                one
                for one in self._gets
                if one.done and not one.holds and (for_needed or not one.unread)
            )
            if (victim := next(droppable, None)) is None:
                return
            self._drop(victim)

    def _drop(self, get: BlockGet) -> None:
        self._kept -= get.kept
        self._size -= get.size
        del self._gets[get]
        for key in get.runs:
            if self._get_of.get(key) is get:
                del self._get_of[key]
