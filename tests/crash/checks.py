"""What a history must not show: each check returns what is wrong, in words, or nothing.

Values are unique, so a value names a record wherever it turns up. tests/crash/test_checks.py plants
one history per check that must fail it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from tests.crash.ledger import FOREIGN, Ledger, Position

SHOWN: Final = 8


def unacknowledged(ledger: Ledger) -> list[str]:
    """Find records that were sent and, after everything was mended, never acknowledged."""
    return [
        f"{value} to partition {partition}: {ledger.refused.get(value, 'no delivery report')}"
        for value, partition in ledger.sent.items()
        if value not in ledger.acked
    ]


def lost(ledger: Ledger) -> list[str]:
    """Find acknowledged records that the final read did not see."""
    there = {read.value for read in ledger.final}
    return [
        f"{value} acked at {ack.position} is gone"
        for value, ack in ledger.acked.items()
        if value not in there
    ]


def gone(ledger: Ledger) -> list[str]:
    """Find records acknowledged without an offset that the final read did not see."""
    return [f"{value} is gone" for value in ledger.unplaced]


def moved(ledger: Ledger) -> list[str]:
    """Find acknowledged records that anybody read at another offset than the acknowledged one."""
    return [
        f"{read.value} acked at {ack.position}, read at {read.position}"
        for read in ledger.reads()
        if (ack := ledger.acked.get(read.value)) is not None and ack.position != read.position
    ]


def duplicated(ledger: Ledger) -> list[str]:
    """Find values that were read at more than one offset."""
    places: dict[int, set[Position]] = defaultdict(set)
    for read in ledger.reads():
        if read.value != FOREIGN:
            places[read.value].add(read.position)
    return [
        f"{value} at {sorted(positions)}"
        for value, positions in places.items()
        if len(positions) > 1
    ]


def inconsistent(ledger: Ledger) -> list[str]:
    """Find offsets that held, by all reads and acknowledgements, more than one value."""
    values: dict[Position, set[int]] = defaultdict(set)
    for read in ledger.reads():
        values[read.position].add(read.value)
    for value, ack in ledger.acked.items():
        values[ack.position].add(value)
    return [f"{position} had {sorted(held)}" for position, held in values.items() if len(held) > 1]


def phantoms(ledger: Ledger) -> list[str]:
    """Find records that nobody sent, or that were sent to another partition."""
    return [
        f"{read.value} at {read.position}"
        for read in ledger.reads()
        if ledger.sent.get(read.value) != read.position.partition
    ]


def vanished(ledger: Ledger) -> list[str]:
    """Find offsets that somebody read during the faults and that are not there at the end."""
    there = {read.position for read in ledger.final}
    return sorted(
        {
            f"{read.value} seen at {read.position} by {one.reader}"
            for one in ledger.passes
            for read in one
            if read.position not in there
        }
    )


def skipped(ledger: Ledger) -> list[str]:
    """Find where a reader, which asks for one offset after the other, did not get the next one.

    That is so for the first one, too, where it is known which was asked for.
    """
    found = []
    for one in (*ledger.passes, ledger.final):
        following = dict(one.starts)
        for read in one:
            partition, offset = read.position
            expected = following.get(partition, offset)
            if offset != expected:
                found.append(f"{one.reader}, partition {partition}: {offset}, not {expected}")
            following[partition] = offset + 1
    return found


def gaps(ledger: Ledger) -> list[str]:
    """Find final logs that are not dense from 0 to their end offsets."""
    offsets: dict[int, set[int]] = defaultdict(set)
    for read in ledger.final:
        offsets[read.position.partition].add(read.position.offset)
    found = []
    for partition, end_offset in ledger.final_end_offsets.items():
        missing = sorted(set(range(end_offset)) - offsets[partition])
        beyond = sorted(offsets[partition] - set(range(end_offset)))
        if missing or beyond:
            found.append(
                f"partition {partition}, end {end_offset}: {len(missing)} missing from "
                f"{missing[:SHOWN]}, {len(beyond)} beyond {beyond[:SHOWN]}"
            )
    return found


def reordered(ledger: Ledger) -> list[str]:
    """Find partitions whose final order is not the order in which the one producer sent."""
    by_partition: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for read in ledger.final:
        by_partition[read.position.partition].append((read.position.offset, read.value))
    rank = {value: number for number, value in enumerate(ledger.sent)}
    return [
        f"partition {partition}: {later} at {offset} behind {sooner}"
        for partition, records in by_partition.items()
        for (_, sooner), (offset, later) in pairwise(sorted(records))
        if rank.get(later, 0) < rank.get(sooner, 0)
    ]


def end_offset_behind(ledger: Ledger) -> list[str]:
    """Find end offsets asked for after a higher one, or a record above it, was known already."""
    known: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for ack in ledger.acked.values():
        known[ack.position.partition].append((ack.at_s, ack.position.offset + 1))
    for one in ledger.passes:
        for read in one:
            known[read.position.partition].append((read.at_s, read.position.offset + 1))
    for sample in ledger.end_offsets:
        known[sample.position.partition].append((sample.ended_s, sample.position.offset))
    highest = {partition: _running_maximum(events) for partition, events in known.items()}
    found = []
    for sample in ledger.end_offsets:
        times, ends = highest[sample.position.partition]
        before = bisect_left(times, sample.began_s)
        if before and ends[before - 1] > sample.position.offset:
            found.append(f"end {sample.position} after {ends[before - 1]} was known")
    return found


def _running_maximum(events: Iterable[tuple[float, int]]) -> tuple[list[float], list[int]]:
    times, ends, most = [], [], 0
    for at_s, end in sorted(events):
        most = max(most, end)
        times.append(at_s)
        ends.append(most)
    return times, ends


def complaints(ledger: Ledger) -> list[str]:
    """Return what clients were told that no fault excuses (OFFSET_OUT_OF_RANGE, fatal errors)."""
    return ledger.complaints


CHECKS: Final[tuple[Callable[[Ledger], list[str]], ...]] = (
    unacknowledged,
    lost,
    gone,
    moved,
    duplicated,
    inconsistent,
    phantoms,
    vanished,
    skipped,
    gaps,
    reordered,
    end_offset_behind,
    complaints,
)


def violations(ledger: Ledger) -> dict[str, list[str]]:
    """Return, by the name of the check, what is wrong; empty for a good history."""
    found = {check.__name__: check(ledger) for check in CHECKS}
    return {name: wrong for name, wrong in found.items() if wrong}


def report(found: dict[str, list[str]]) -> str:
    """Return a text of the counts and first examples of what is wrong."""
    return "\n".join(
        line
        for name, wrong in found.items()
        for line in (f"{name}: {len(wrong)}", *(f"    {example}" for example in wrong[:SHOWN]))
    )
