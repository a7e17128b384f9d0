"""Which reads of a fetch are served now: what one of them may take is not without a bound.

A client names as many partitions as it likes, and some any number of times; a byte of each is a
block or a row that has to be held, a lookup and perhaps a hundred GETs. Who asks for more than this
comes again, and is soon served. It is drawn by lot where to begin: turns would be of all clients,
and one's always the same. What alone is too much is served when the lot falls on it.
"""

from collections.abc import Sequence
from random import randrange
from typing import Final

from storage.config import MiB
from storage.reading.block_cache import BlockCache
from storage.reading.read_plan import memory_of
from storage.reading.read_planner import ColdRead, Plan

ANSWER_BYTES: Final = 4 * MiB
"""What one fetch gets from the store.

Clients ask for 50 MiB by default, which would be in memory for each of them until it is sent.
"""

MAX_LOOKUPS: Final = 256
"""Each reads up to a hundred rows of the index."""

MAX_GETS: Final = 64
"""Others wait behind them for the places of storage/reading/cold_gets.py."""


def turn(count: int) -> list[int]:
    """Return which of so many reads are planned, from the one that was drawn by lot on."""
    first = randrange(count) if count else 0  # noqa: S311 (not a secret)
    return [(first + at) % count for at in range(min(count, MAX_LOOKUPS))]


def served_now(
    reads: Sequence[ColdRead], plans: Sequence[Plan], blocks: BlockCache, *, most_bytes: int
) -> list[int]:
    """Return which of the reads are served, in their order: the first, and what goes with it.

    Args:
        reads: from the one on that was drawn by lot; none asks for more than ANSWER_BYTES.
        plans: of each.
        blocks: where their pieces are, or come to.
        most_bytes: of memory for these, unless all of them are there.
    """
    fitting: list[int] = []
    left = ANSWER_BYTES
    for number, (read, plan) in enumerate(zip(reads, plans, strict=True)):
        size = min(sum([piece.length for piece in plan.needed]), read.max_bytes)
        if size <= left:
            fitting.append(number)
            left -= size
    pieces = [piece for number in fitting for piece in plans[number].needed]
    if all(map(blocks.is_here, pieces)):
        return fitting
    missing, known = blocks.gets(pieces)
    gets = [*missing, *known]
    get_of = {piece.key: at for at, pieces in enumerate(gets) for piece in pieces}
    taken: set[int] = set()
    memory_left, gets_left = most_bytes, MAX_GETS
    served: list[int] = []
    for number in fitting:
        keys = [piece.key for piece in plans[number].needed if piece.entry.inline is None]
        its = {get_of[key] for key in keys} - taken
        memory = sum([memory_of(gets[at]) for at in its])
        count = sum([at < len(missing) for at in its])
        if not its or not taken or (memory <= memory_left and count <= gets_left):
            taken |= its
            memory_left -= memory
            gets_left -= count
            served.append(number)
    return served
