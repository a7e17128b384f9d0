"""Settings of the storage components; only broker/config.py fills them from outside."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB

INT32_MAX = 2**31 - 1
YEAR_MS = 365 * 24 * 60 * 60 * 1000

RESERVED_LIFETIME_S = 15 * 60
"""The sweeper gives up what was reserved `abandoned_ms` ago (UpkeepConfig): a path that a broker
has had for so long could be doomed by the time its upload is committed
(storage/objects/object_paths.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterConfig:
    """How batches are gathered into objects (D5).

    Attributes:
        flush_bytes: an object is sealed at this size.
        flush_ms: the longest that records wait for others while uploads are in flight.
        max_uploads: objects uploading or committing at the same time.
    """

    flush_bytes: Annotated[int, Ge(1), Le(GiB)] = 8 * MiB
    flush_ms: Annotated[int, Ge(0), Le(60_000)] = 250
    max_uploads: Annotated[int, Ge(1), Le(64)] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """How much of the log is kept in memory (D8).

    Attributes:
        tail_bytes: most recent commits of this broker, for consumers at the end of the log; 0 for
            none.
        block_bytes: ranges read from the object store, for the others.
    """

    tail_bytes: Annotated[int, Ge(0)] = 128 * MiB
    block_bytes: Annotated[int, Ge(0)] = 64 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresConfig:
    """How Postgres is reached.

    Attributes:
        pool_size: connections for reads and topics; commits have one of their own.
        connect_timeout_s: until a new connection answers.
        command_timeout_s: until a statement answers; then its outcome is unknown.
    """

    pool_size: Annotated[int, Ge(1), Le(1000)] = 8
    connect_timeout_s: Annotated[float, Ge(0.1), Le(3600)] = 5.0
    command_timeout_s: Annotated[float, Ge(0.1), Le(3600)] = 10.0

    @property
    def statement_timeout_s(self) -> float:
        """Until the server gives a statement up, which is before nobody waits for it any more."""
        return self.command_timeout_s / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    """How an S3-compatible store is reached.

    Attributes:
        endpoint: URL; empty for AWS itself.
        prefix: of every key, with no slash at either end; may be empty.
        deadline_s: for one verb with all its retries; no end of one whose bytes move after a first.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    max_connections: int = 64
    deadline_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepConfig:
    """How often the background work looks around, and how much it takes at once (D6).

    Attributes:
        enabled: whether this process does any of it; one broker of a cluster has to.
        build_interval_ms: between looks for what is to be built.
        segment_bytes: the most that a built segment has of batches; one batch may exceed it.
        segment_rows: a partition with so many rows that are not built gets a segment.
        segment_age_ms: so does one whose oldest record that is not built was written so long ago.
        key_map_bytes: memory for the latest offset of each key while a partition is compacted.
        sweep_interval_ms: between passes of the sweeper.
        abandoned_ms: an upload that was reserved so long ago is given up; brokers use no path that
            they reserved more than RESERVED_LIFETIME_S ago. An object that only tells what happened
            (storage/untold.py) is one: it has to be there until that is built.
        delete_delay_ms: bytes go so long after the last row that named them.
        patience_ms: while its machine is busy it keeps still for so long (and longer only after
            a pause), and then gives way to whatever else runs; 0 for neither.
    """

    enabled: bool = True
    build_interval_ms: Annotated[int, Ge(1), Le(YEAR_MS)] = 10_000
    segment_bytes: Annotated[int, Ge(1), Le(INT32_MAX)] = 64 * MiB
    segment_rows: Annotated[int, Ge(1), Le(INT32_MAX)] = 256
    segment_age_ms: Annotated[int, Ge(0), Le(YEAR_MS)] = 60 * 60 * 1000
    key_map_bytes: Annotated[int, Ge(1)] = 48 * MiB
    sweep_interval_ms: Annotated[int, Ge(1), Le(YEAR_MS)] = 10_000
    abandoned_ms: Annotated[int, Ge(2 * RESERVED_LIFETIME_S * 1000), Le(YEAR_MS)] = 90 * 60 * 1000
    delete_delay_ms: Annotated[int, Ge(0), Le(YEAR_MS)] = 60_000
    patience_ms: Annotated[int, Ge(0), Le(YEAR_MS)] = 60_000
