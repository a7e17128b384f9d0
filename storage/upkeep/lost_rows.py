"""Rows of the writer's that cannot be read, in the way of those behind them.

One bad answer is none of them: who steps over a row does not come back to it.
"""

from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import Final

from storage.bad_answers import read_thrice
from storage.errors import BadObject
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_layout import UnreadableRow
from storage.upkeep.segment_rows import read_rows

MOST_TRIED: Final = 1000
"""Rows, one by one: where so many are lost, it may be the whole store."""


async def lost_rows(
    objects: ObjectStore, rows: Sequence[SegmentEntry], first: UnreadableRow
) -> list[UnreadableRow]:
    """Return the rows at the start that cannot be read; none if no object behind them can be.

    Bytes in the index itself are always there, and say nothing of the store: they end the answer,
    but not the search for an object.

    Args:
        objects: where their bytes should be.
        rows: adjacent, in offset order.
        first: the first of them, which was tried again (`read_patiently`).

    Raises:
        ObjectStoreUnavailable: no answer.
    """
    lost = [first]
    at_start = True
    for row in rows[1:]:
        if row.inline is not None:
            at_start = False
            continue
        failure = await _failure_of(row, _read(objects, row))
        failure = failure and await _failure_of(row, _read(objects, row))
        if failure is None:
            return lost
        if at_start:
            lost.append(failure)
    return []


async def read_patiently(objects: ObjectStore, row: SegmentEntry) -> UnreadableRow | None:
    """Read a row alone, again after a moment; return why it cannot be read, or None.

    Raises:
        ObjectStoreUnavailable: no answer.
    """
    return await _failure_of(row, read_thrice(lambda _: _read(objects, row), (BadObject,)))


async def _failure_of(row: SegmentEntry, reading: Awaitable[None]) -> UnreadableRow | None:
    try:
        await reading
    except BadObject as error:
        return UnreadableRow(row, str(error))
    return None


async def _read(objects: ObjectStore, row: SegmentEntry) -> None:
    async with aclosing(read_rows(objects, [row])) as parts:
        async for _ in parts:
            pass
