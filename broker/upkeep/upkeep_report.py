"""What the upkeep process tells the broker that started it, and how that is exported."""

import json
import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from storage.metadata.oldest_xmin import OldestXmin


class Work(StrEnum):
    """What the upkeep process does again and again."""

    BUILD = "build"
    COMPACT = "compact"
    RETAIN = "retain"
    SWEEP = "sweep"


class Count(StrEnum):
    """What it counts; the values are names of metrics."""

    SEGMENTS_BUILT = "segments_built"
    BYTES_BUILT = "bytes_built"
    ROWS_BUILT = "rows_built"
    BUILDS_LOST = "builds_lost"
    BUILDS_UNREADABLE = "builds_unreadable"
    BUILDS_FAILED = "builds_failed"
    SEGMENTS_COMPACTED = "segments_compacted"
    BYTES_COMPACTED = "bytes_compacted"
    COMPACTIONS_LOST = "compactions_lost"
    COMPACTIONS_UNREADABLE = "compactions_unreadable"
    COMPACTIONS_FAILED = "compactions_failed"
    RECORDS_BEFORE = "records_before_compaction"
    RECORDS_AFTER = "records_after_compaction"
    PARTITIONS_EXPIRED = "partitions_expired"
    ROWS_REMOVED = "rows_removed"
    PRODUCERS_EXPIRED = "producers_expired"
    UPLOADS_ABANDONED = "uploads_abandoned"
    OBJECTS_UNNEEDED = "objects_unneeded"
    OBJECTS_DELETED = "objects_deleted"
    DELETES_REFUSED = "deletes_refused"


_TEXTS: Final = {
    Count.SEGMENTS_BUILT: "Segments built from what brokers wrote, and from smaller ones.",
    Count.BYTES_BUILT: "Bytes of built segments.",
    Count.ROWS_BUILT: "Rows of the index that built segments have taken the place of.",
    Count.BUILDS_LOST: "Segments built for nothing, because rows had changed meanwhile.",
    Count.BUILDS_UNREADABLE: "Rows not built, each time, because bytes are damaged or missing.",
    Count.BUILDS_FAILED: "Builds given up because of a bug, which the log tells.",
    Count.SEGMENTS_COMPACTED: "Segments that compaction has written.",
    Count.BYTES_COMPACTED: "Bytes of those segments.",
    Count.COMPACTIONS_LOST: "Compactions that ended early, because rows had changed meanwhile.",
    Count.COMPACTIONS_UNREADABLE: "Compactions that ended early: bytes are damaged or missing.",
    Count.COMPACTIONS_FAILED: "Compactions given up because of a bug, which the log tells.",
    Count.RECORDS_BEFORE: "Records that compaction has read.",
    Count.RECORDS_AFTER: "Records of those that it has kept.",
    Count.PARTITIONS_EXPIRED: "Times that retention has moved a partition's log start offset.",
    Count.ROWS_REMOVED: "Rows of the index removed before log start offsets and of deleted topics.",
    Count.PRODUCERS_EXPIRED: "States of idempotent producers forgotten.",
    Count.UPLOADS_ABANDONED: "Uploads given up that were reserved and never committed.",
    Count.OBJECTS_UNNEEDED: "Objects found that no row of the index named.",
    Count.OBJECTS_DELETED: "Objects deleted from the object store.",
    Count.DELETES_REFUSED: "Objects that the object store did not let go; tried every hour.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """One message of the upkeep process: a line of JSON on its standard output.

    Attributes:
        counts: by name, since that process began.
        succeeded: how often each round was done, since that process began.
        failed: how often anything got no answer, since that process began.
        backlog: what waits, by kind; empty until it is known.
        oldest_transaction_s: how old the oldest is for which Postgres keeps rows; NaN if it does
            not tell, 0 if there is none.
        oldest_transaction_age: how many were begun since.
    """

    counts: Mapping[Count, int]
    succeeded: Mapping[Work, int]
    failed: Mapping[str, int]
    backlog: Mapping[str, int]
    oldest_transaction_s: float = 0.0
    oldest_transaction_age: int = 0

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class UnreadableReport(Exception):
    """What a process said is no report that this version reads."""


def read_report(line: bytes) -> UpkeepReport:
    """Return the report that `to_line` has written.

    That may have been a later version's, whose package has taken the place of this one's on the
    disk: what only that one counts is left out.

    Raises:
        UnreadableReport: it is no such report.
    """
    try:
        values = json.loads(line)
        counts, succeeded = values["counts"], values["succeeded"]
        return UpkeepReport(
            counts={count: int(counts[count]) for count in Count if count in counts},
            succeeded={work: int(succeeded[work]) for work in Work if work in succeeded},
            failed={name: int(count) for name, count in values["failed"].items()},
            backlog={name: int(count) for name, count in values["backlog"].items()},
            oldest_transaction_s=float(values["oldest_transaction_s"]),
            oldest_transaction_age=int(values["oldest_transaction_age"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableReport(repr(error)) from error


_NOTHING: Final = UpkeepReport(counts={}, succeeded={}, failed={}, backlog={})


class UpkeepCounts:
    """What the upkeep process has done since its start."""

    def __init__(self) -> None:
        self._counts: Tally[Count] = Tally()
        self._succeeded: Tally[Work] = Tally()
        self._failed: Tally[str] = Tally()
        self.backlog: Mapping[str, int] = {}
        self.oldest_xmin: OldestXmin | None = None

    def add(self, count: Count, number: int) -> None:
        self._counts[count] += number

    def succeeded(self, work: Work) -> None:
        self._succeeded[work] += 1

    def failed(self, what: str) -> None:
        self._failed[what] += 1

    def report(self, others: Mapping[Count, int]) -> UpkeepReport:
        """Return everything, and `others` that are counted elsewhere."""
        oldest = self.oldest_xmin
        seconds = 0.0 if oldest is None else oldest.seconds
        return UpkeepReport(
            counts={**self._counts, **others},
            succeeded=dict(self._succeeded),
            failed=dict(self._failed),
            backlog=dict(self.backlog),
            oldest_transaction_s=math.nan if seconds is None else seconds,
            oldest_transaction_age=0 if oldest is None else oldest.transactions,
        )


class UpkeepMetrics:
    """What the broker exports of it; counts go on when the process is started again.

    Args:
        registry: of the broker.
        works: what the process does here.
        clock: seconds, monotonic.
    """

    def __init__(
        self, registry: CollectorRegistry, works: Sequence[Work], clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._counters = {
            count: Counter(f"streamhouse_upkeep_{count}", text, registry=registry)
            for count, text in _TEXTS.items()
        }
        self._failures = Counter(
            "streamhouse_upkeep_failures",
            "Tries that got no answer from Postgres or the object store.",
            ("work",),
            registry=registry,
        )
        self._restarts = Counter(
            "streamhouse_upkeep_restarts", "Times that the process has died.", registry=registry
        )
        self._backlog = Gauge(
            "streamhouse_upkeep_backlog",
            "Tasks and objects that wait.",
            ("kind",),
            registry=registry,
        )
        self._oldest_s = Gauge(
            "streamhouse_postgres_oldest_transaction_seconds",
            "Age of the oldest transaction for which Postgres keeps dead rows, which slow commits"
            " down. NaN where it does not tell: look at the other.",
            registry=registry,
        )
        self._oldest_age = Gauge(
            "streamhouse_postgres_oldest_transaction_age",
            "Transactions that were begun since the oldest for which Postgres keeps dead rows.",
            registry=registry,
        )
        self._succeeded_s = dict.fromkeys(works, clock())
        ages = Gauge(
            "streamhouse_upkeep_seconds_since_success",
            "Since this broker's process has done it, or began to try. Each round is one broker's:"
            " look at the least of all brokers.",
            ("work",),
            registry=registry,
        )
        for work in works:
            ages.labels(work).set_function(partial(self._age_s, work))
            self._failures.labels(work)
        self._last = _NOTHING

    def _age_s(self, work: Work) -> float:
        return self._clock() - self._succeeded_s[work]

    def take(self, report: UpkeepReport) -> None:
        """Export what has changed since the last report."""
        for count, total in report.counts.items():
            self._counters[count].inc(total - self._last.counts.get(count, 0))
        for work, total in report.failed.items():
            self._failures.labels(work).inc(total - self._last.failed.get(work, 0))
        for work, total in report.succeeded.items():
            if total > self._last.succeeded.get(work, 0):
                self._succeeded_s[work] = self._clock()
        for kind, waiting in report.backlog.items():
            self._backlog.labels(kind).set(waiting)
        self._oldest_s.set(report.oldest_transaction_s)
        self._oldest_age.set(report.oldest_transaction_age)
        self._last = report

    def died(self) -> None:
        """Take note that the process is gone: the next report counts from zero."""
        self._restarts.inc()
        self._last = _NOTHING
