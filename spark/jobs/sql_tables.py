"""The topics of a query as tables, each narrowed to what the query can need of it.

All topics are read up to one moment: the offsets where they end are looked up in one snapshot of
the database, before the query runs. Names of fields come from --schema, from the registry, or from
the last records of a topic (spark/jobs/sql_sample.py); a field that none of those has is no column.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from spark.jobs.options import JobFailed, WrongUsage
from spark.jobs.sql_sample import SAMPLE_COUNT, newest_values
from spark.log_location import LogLocation
from spark.sources.columns import COLUMNS, HEADERS
from spark.sources.cut import TopicPartition
from spark.sources.log_index import LogIndex, Topics
from spark.sources.query_plan import (
    find_names,
    find_tables,
    find_wanted,
    keep_wanted,
    placeholder,
)
from spark.sources.registry import Registry
from spark.sources.snapshots import AS_OF, parse_time, read_snapshot
from spark.sources.wanted import Wanted
from spark.tables import drift
from spark.tables.decoded import Values, body, schema_id
from spark.tables.topic_rows import field_columns, topic_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How topics become tables.

    Attributes:
        columns: of values, by topic, where they are told.
        registry: where the schemas of values are; None for plain JSON.
        as_of: snapshot or time to read topics as of; None: as they are now.
    """

    columns: Mapping[str, StructType] = field(default_factory=dict)
    registry: Registry | None = None
    as_of: str | None = None


class TopicTables:
    """Tables of one query."""

    def __init__(self, session: SparkSession, location: LogLocation, options: TableOptions) -> None:
        self._session = session
        self._location = location
        self._options = options

    def plan(self, text: str) -> DataFrame:
        """Return the result of a query, yet to be computed.

        Raises:
            ParseException, AnalysisException: it is no SQL, or names what there is not.
            NotAQuery: it is no SELECT.
            JobFailed: it names a topic that does not exist.
            MetadataUnavailable, RegistryUnavailable: no answer.
        """
        there = self._find_topics(text)
        topics = sorted({each.topic for each in there})
        values = {topic: self._values(topic, there) for topic in topics}
        for topic in topics:
            records = placeholder(self._session, topic, f"{COLUMNS}, {HEADERS}")
            _name(topic, topic_rows(keep_wanted(records), values[topic]))
        wanted = find_wanted(self._session.sql(text))
        for topic in topics:
            narrowed, columns = wanted.get(topic, (Wanted(), frozenset({"headers"})))
            records = self._read(topic, there, narrowed, headers="headers" in columns)
            _name(topic, topic_rows(records, values[topic]))
        return self._session.sql(text)

    def _find_topics(self, text: str) -> Topics:
        """Return the partitions of the topics that a query names, and where they end now."""
        named = find_tables(self._session, text)
        own = find_names(self._session, text)

        async def look_up() -> tuple[Topics, Sequence[str]]:
            async with LogIndex.open(self._location.postgres) as index:
                found = await index.topics({".".join(parts) for parts in named})
                missing = {".".join(parts) for parts in named} - {each.topic for each in found}
                unknown = any(name.lower() not in own for name in missing)
                everything = await index.topics() if unknown else {}
                return found, sorted({each.topic for each in everything})

        there, all_topics = asyncio.run(look_up())
        found = {each.topic for each in there}
        _check_names(named, found)
        for parts in named:
            name = ".".join(parts)
            if name not in found and name.lower() not in own:
                raise _no_topic(name, all_topics)
        return there

    def _values(self, topic: str, there: Topics) -> Values:
        told = self._options.columns.get(topic)
        registry = self._options.registry
        if registry is None:
            found = told or drift.infer(self._session, self._sample(topic, there))
            return Values(columns=field_columns(found), ignore_unknown=True)
        ids = registry.ids_of(f"{topic}-value")
        if not ids:
            raise JobFailed(
                f"the registry has no subject {topic}-value",
                fix="leave --registry out if the values are plain JSON",
            )
        schemas = {number: registry.schema(self._session, number) for number in ids}
        known = {number: one for number, one in schemas.items() if one is not None}
        json_ids = [number for number, one in known.items() if one.kind == "JSON"]
        avro = {number: one for number, one in known.items() if one.columns is not None}
        columns = drift.columns_of_registered(
            {number: one.columns for number, one in avro.items() if one.columns is not None}
        )
        inferred = drift.infer(self._session, self._sample(topic, there, json_ids))
        return Values(
            columns=field_columns(told or [*columns, *drift.additions(columns, inferred)]),
            registered={**dict.fromkeys(json_ids), **{n: one.text for n, one in avro.items()}},
            ignore_unknown=True,
        )

    def _sample(
        self, topic: str, there: Topics, json_ids: Sequence[int] | None = None
    ) -> list[str]:
        """Return the last values of a topic; of one with registered schemas, those of these ids."""
        mine = [each for each in there if each.topic == topic]
        if json_ids is not None and not json_ids:
            return []
        share = -(-SAMPLE_COUNT // len(mine))
        starts = {each: max(there[each].last_stable_offset - share, 0) for each in mine}
        records = self._load(_offsets(there, mine, starts, {}))
        value = F.col("value")
        if json_ids is not None:
            value = F.when(schema_id().isin(list(json_ids)), body())
        return newest_values(records.withColumn("value", value.cast("string")))

    def _read(self, topic: str, there: Topics, wanted: Wanted, *, headers: bool) -> DataFrame:
        mine = [
            each for each in there if each.topic == topic and each.partition in wanted.partitions
        ]
        if wanted.is_empty or not mine:
            return self._session.createDataFrame([], f"{COLUMNS}, {HEADERS}")
        options = {"includeHeaders": str(headers).lower()}
        first_ms, until_ms = wanted.timestamps_ms()
        if first_ms is not None:
            options["fromTimestamp"] = str(first_ms)
        if until_ms is not None:
            options["untilTimestamp"] = str(until_ms)
        if self._options.as_of is not None:
            options |= self._as_of(self._options.as_of, mine)
        else:
            starts = dict.fromkeys(mine, wanted.offsets.first or 0)
            last = wanted.offsets.last
            ends = {} if last is None else dict.fromkeys(mine, last + 1)
            options |= _offsets(there, mine, starts, ends)
        records = self._load(options)
        kept = F.col("headers") if headers else F.lit(None)
        return records.withColumn("headers", kept.cast(HEADERS.partition(" ")[2]))

    def _as_of(self, as_of: str, mine: Sequence[TopicPartition]) -> dict[str, str]:
        """Return options that read partitions as of then: a snapshot has none that came since.

        Raises:
            JobFailed: there is no such snapshot.
        """
        topic = mine[0].topic
        numbers = [each.partition for each in mine]
        if parse_time(as_of) is None:
            try:
                recorded = asyncio.run(read_snapshot(self._location, as_of.strip()))
            except ValueError as error:
                raise JobFailed(str(error)) from error
            had = {each.partition for each in recorded.partitions if each.topic == topic}
            numbers = [number for number in numbers if number in had]
        # of none that is there, the reader says why, or the query's own condition leaves all out
        choice = {"assign": json.dumps({topic: numbers})} if numbers else {"subscribe": topic}
        return {AS_OF: as_of, **choice}

    def _load(self, options: Mapping[str, str]) -> DataFrame:
        return self._session.read.format("streamhouse").options(**options).load()


def _offsets(
    there: Topics,
    mine: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[str, str]:
    """Return options that read ranges of partitions, as far as those are there."""
    topic = mine[0].topic
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for each in mine:
        has = there[each]
        end = min(ends.get(each, has.last_stable_offset), has.last_stable_offset)
        end = max(end, has.log_start_offset)
        first[str(each.partition)] = min(max(starts[each], has.log_start_offset), end)
        last[str(each.partition)] = end
    return {
        "assign": json.dumps({topic: [each.partition for each in mine]}),
        "startingOffsets": json.dumps({topic: first}),
        "endingOffsets": json.dumps({topic: last}),
    }


def _name(topic: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView(f"`{topic}`")


def _check_names(named: Sequence[tuple[str, ...]], topics: set[str]) -> None:
    for parts in named:
        name = ".".join(parts)
        if len(parts) > 1 and name in topics:
            raise WrongUsage(f"the topic {name} has dots in its name", fix=f"write `{name}`")
    lowered: dict[str, str] = {}
    for topic in topics:
        other = lowered.setdefault(topic.lower(), topic)
        if other != topic:
            raise WrongUsage(
                f"topics {other} and {topic} differ in capitals only: query one of them"
            )


def _no_topic(name: str, topics: Sequence[str]) -> JobFailed:
    near = get_close_matches(name, topics, n=3)
    hint = f"is it {' or '.join(near)}?" if near else "streamctl topic list shows those there are"
    return JobFailed(f"there is no topic {name}", fix=hint)
