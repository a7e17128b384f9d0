"""Rows side by side as their topics take them: sorted by partition, and checked.

Each partition's rows stay in the order in which they came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark.sinks.direct_columns import Columns, UnfitRows
from spark.sinks.direct_partitions import choose_partitions
from spark.sinks.direct_records import Longs, Rows
from spark.sinks.direct_topics import TopicRules

_PARTITION_BITS: Final = 32


class Run(NamedTuple):
    """Rows of one partition, one behind the other."""

    rules: TopicRules
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows for one object.

    Attributes:
        runs: of the rows; topic ids and partitions ascend.
    """

    rows: Rows
    runs: Sequence[Run]


def arrange(
    batch: pa.RecordBatch,
    columns: Columns,
    rules: Mapping[str, TopicRules],
    *,
    now_ms: int,
    first: int,
) -> Chunk:
    """Sort rows by topic and partition, and check that topics take them.

    Args:
        batch: rows as Spark gives them.
        columns: of the rows.
        rules: of all topics that rows have, by name.
        now_ms: the time.
        first: partition for records without a key to begin with; any number.

    Raises:
        UnfitRows: a row is no record of its topic.
    """
    rows = columns.rows(batch, now_ms)
    names, topic_numbers = columns.topics(batch)
    asked = columns.partitions(batch)
    ascending = sorted(names, key=lambda name: rules[name].topic.topic_id)
    places = np.empty(len(rows), np.int64)
    for rank, name in enumerate(ascending):
        mine = np.flatnonzero(topic_numbers == names.index(name))
        partitions = _partitions(rules[name], rows.keys, asked, mine, first)
        places[mine] = rank << _PARTITION_BITS | partitions
    if (np.diff(places) < 0).any():
        order = np.argsort(places, kind="stable")
        rows, places = rows.take(order), places[order]
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    runs = [
        Run(rules[ascending[place >> _PARTITION_BITS]], place & (1 << 32) - 1, start, end)
        for place, start, end in zip(
            places[starts].tolist(),
            starts.tolist(),
            [*starts[1:].tolist(), len(rows)],
            strict=True,
        )
    ]
    for run in runs:
        _check(run, rows, now_ms)
    return Chunk(rows=rows, runs=runs)


def _partitions(
    rules: TopicRules, keys: pa.Array, asked: Longs | None, mine: Longs, first: int
) -> Longs:
    count = rules.topic.partition_count
    own_keys = keys if len(mine) == len(keys) else keys.take(pa.array(mine))
    if asked is None:
        return choose_partitions(own_keys, count, first)
    wanted = asked[mine]
    largest = int(wanted.max())
    if largest >= count:
        raise UnfitRows(
            f"a row is for partition {largest} of topic {rules.topic.name}, which has {count}"
        )
    if (wanted >= 0).all():
        return wanted
    return np.where(wanted >= 0, wanted, choose_partitions(own_keys, count, first))


def _check(run: Run, rows: Rows, now_ms: int) -> None:
    """Refuse what a broker would not take from a producer."""
    rules, name = run.rules, run.rules.topic.name
    size = run.end - run.start
    if rules.compact and rows.keys.slice(run.start, size).null_count:
        raise UnfitRows(f"records of topic {name} need a key: it is compacted")
    if rules.log_append_time:
        return
    times = rows.timestamps_ms[run.start : run.end]
    oldest, newest = int(times.min()), int(times.max())
    if newest - now_ms > rules.after_max_ms or now_ms - oldest > rules.before_max_ms:
        raise UnfitRows(
            f"timestamps of rows for topic {name} are from {oldest} to {newest} ms, beyond its"
            " message.timestamp.before.max.ms or message.timestamp.after.max.ms"
        )
