"""What the flights add up to, in plain Python: the results that Spark's have to be equal to."""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from tests.clients.flights import Flight
from tests.clients.records import ConsumedRecord

LATE_MIN: Final = 15  # what American statistics of airlines call a delay

Row = tuple[Any, ...]


def delays(flights: Iterable[Flight]) -> list[Row]:
    """Return one row of each carrier and month, as flights_tables.DELAYS describes it."""
    groups: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for flight in flights:
        values = json.loads(flight.value)
        groups[values["carrier"], values["month"]].append(values)
    return sorted((*group, *_totals(members)) for group, members in groups.items())


def _totals(flights: list[dict[str, Any]]) -> Row:
    departures = [one["dep_delay"] for one in flights if one["dep_delay"] is not None]
    arrivals = [one["arr_delay"] for one in flights if one["arr_delay"] is not None]
    return (
        len(flights),
        sum(one["dep_time"] is None for one in flights),
        sum(delay > LATE_MIN for delay in departures),
        sum(departures),
        max(departures, default=None),
        sum(arrivals),
        sum(one["distance"] for one in flights),
        len({one["dest"] for one in flights}),
    )


def contents(records: Iterable[ConsumedRecord]) -> list[Row]:
    """Return one row of each partition, as flights_tables.CONTENTS describes it.

    Sums of checksums of single records: no reader can leave one out, repeat or change one without
    being seen, wherever in the partition.
    """
    groups: defaultdict[int, list[ConsumedRecord]] = defaultdict(list)
    for record in records:
        groups[record.partition].append(record)
    return sorted(
        (
            partition,
            len(members),
            min(one.offset for one in members),
            max(one.offset for one in members),
            sum(one.timestamp_ms for one in members),
            sum(zlib.crc32(one.key or b"") ^ one.offset for one in members),
            sum(zlib.crc32(one.value or b"") ^ one.offset for one in members),
        )
        for partition, members in groups.items()
    )
