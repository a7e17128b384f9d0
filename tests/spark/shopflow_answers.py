"""What the pipelines have to find in a log of order events, in plain Python, a record at a time."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from spark.tables.late import Patience
from spark.tables.windows import Lengths
from tests.spark.shopflow import Event

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final = Decimal(0)

Window = tuple[str, str | None, datetime, datetime]  # kind, key, start, end
Amounts = tuple[Decimal, int]  # revenue, payments


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """Of each event, by partition and offset.

    Attributes:
        late_by_ms: of late events.
        low: the watermark of the partition that is furthest behind.
    """

    of: dict[tuple[int, int], str] = field(default_factory=dict)
    late_by_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    low: datetime | None = None


def verdicts(events: Sequence[Event], patience: Patience) -> Verdicts:
    """Judge a log from its beginning."""
    found = Verdicts()
    latest: dict[int, datetime] = {}
    seen: dict[tuple[int, str], datetime] = {}
    for event in events:
        place = (event.partition, event.offset)
        watermark = None
        if event.partition in latest:
            watermark = latest[event.partition] - patience.delay
        found.of[place] = _verdict(event, watermark, seen.get((event.partition, event.event_id)))
        if found.of[place] == "late":
            assert watermark is not None
            behind = watermark - event.event_time
            found.late_by_ms[place] = -(-behind // timedelta(milliseconds=1))
        if found.of[place] in {"counted", "late", "duplicate"}:
            seen[event.partition, event.event_id] = event.event_time
        if event.is_event:
            so_far = latest.get(event.partition, event.event_time)
            latest[event.partition] = max(so_far, event.event_time)
    if latest:
        found.low = min(latest.values()) - patience.delay
    return found


def _verdict(event: Event, watermark: datetime | None, seen: datetime | None) -> str:
    """Judge an event; ids are remembered for as long as these logs are."""
    if not event.is_event or (event.event_type == "paid" and event.amount is None):
        return "unreadable"
    if event.event_type != "paid":
        return "other"
    if seen is not None:
        return "duplicate"
    if watermark is not None and event.event_time < watermark:
        return "late"
    return "counted"


def running(
    events: Sequence[Event], found: Verdicts
) -> dict[tuple[int, int], tuple[Decimal, Decimal]]:
    """Return for each payment what its partition and its key had paid with it."""
    by_partition: defaultdict[int, Decimal] = defaultdict(Decimal)
    by_key: defaultdict[str, Decimal] = defaultdict(Decimal)
    totals = {}
    for event in events:
        if found.of[event.partition, event.offset] in {"counted", "late"}:
            assert event.amount is not None
            by_partition[event.partition] += event.amount
            by_key[event.key] += event.amount
            place = (event.partition, event.offset)
            totals[place] = (by_partition[event.partition], by_key[event.key])
    return totals


def windows(events: Iterable[Event], found: Verdicts, lengths: Lengths) -> dict[Window, Amounts]:
    """Return revenue and payments of all windows of the payments in time."""
    counted = [each for each in events if found.of[each.partition, each.offset] == "counted"]
    sums: defaultdict[Window, list[Decimal]] = defaultdict(list)
    for event in counted:
        assert event.amount is not None
        start = _floor(event.event_time, lengths.tumbling)
        sums["tumbling", None, start, start + lengths.tumbling].append(event.amount)
        start = _floor(event.event_time, lengths.slide)
        while start + lengths.sliding > event.event_time:
            sums["sliding", None, start, start + lengths.sliding].append(event.amount)
            start -= lengths.slide
    of_keys: defaultdict[str, list[Event]] = defaultdict(list)
    for event in counted:
        of_keys[event.key].append(event)
    for key, theirs in of_keys.items():
        for window, amounts in _sessions(key, theirs, lengths.gap):
            sums[window] = amounts
    return {window: (sum(amounts, NOTHING), len(amounts)) for window, amounts in sums.items()}


def _sessions(key: str, events: list[Event], gap: timedelta) -> list[tuple[Window, list[Decimal]]]:
    sessions: list[tuple[datetime, datetime, list[Decimal]]] = []
    for event in sorted(events, key=lambda each: each.event_time):
        assert event.amount is not None
        if sessions and event.event_time <= sessions[-1][1]:
            start, _, amounts = sessions.pop()
        else:
            start, amounts = event.event_time, []
        sessions.append((start, event.event_time + gap, [*amounts, event.amount]))
    return [(("session", key, start, end), amounts) for start, end, amounts in sessions]


def _floor(time: datetime, length: timedelta) -> datetime:
    return time - (time - EPOCH) % length
