"""Micro-batches into two tables, rows and dead letters, each record once in one of them.

Each table takes a batch once (`spark.sinks.tables`). Where the driver may die:

- before rows are committed: nothing has happened; the batch comes again.
- after rows, before dead letters: the batch comes again. Its rows are not written again, and what
  has no row is a dead letter. Today's reasons are not asked whether it has one: the logic may have
  been changed before this start, and a record that was bad then and is good now would be in neither
  table (or in both, the other way round).
- after both: the batch comes again and is in both tables; nothing is written.

So batches that reach back behind what the tables have at the start are compared with the tables,
record by record. That also holds for a checkpoint that was lost, for snapshots of Iceberg that were
expired, and for what a loader of the generation before wrote while the table was swapped.

One loader at a time may write into a table. A run takes both tables before it compares, and each
batch looks whether its run has them still. What an earlier run has under way is refused if the rows
or dead letters of another one came first; if it comes first, Delta refuses it as well, and with
Iceberg the run that took the tables finds it when it is refused, and compares once more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from spark.sinks.tables import Batch, LakeTable, Overtaken
from spark.tables import deadletter
from spark.tables.decoded import PLACES

_QUERY_ID: Final = "sql.streaming.queryId"  # Spark's property of the thread that runs a query
_PLACE: Final = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
_ATTEMPTS: Final = 10

Decoder = Callable[[DataFrame, StructType], tuple[StructType, DataFrame]]
"""From records and the table's columns of values to all columns of values, and decoded records."""


class TakenOver(RuntimeError):
    """Another run loads the table now."""


class Superseded(RuntimeError):
    """The table is of another generation now: its loader goes on from another checkpoint."""


@dataclass(slots=True, kw_only=True)
class LakeBatches:
    """Writes batches; one object for each start of a query.

    Attributes:
        rows: table of rows.
        letters: table of dead letters.
        decoder: see there.
        to_rows: from decoded records to rows of the table.
        generation: that `live` must have, or nothing is written.
        live: the table whose generation counts.
        topics: the ids of those that are loaded, by name.
        run: of this object; another one that takes `rows` ends it.
        ahead: the last offset of each topic and partition that the tables had when they were
            looked at.
        heads: what is known of each table, by its name: see `LakeTable.append`.
    """

    rows: LakeTable
    letters: LakeTable
    decoder: Decoder
    to_rows: Callable[[DataFrame], DataFrame]
    generation: int
    live: LakeTable
    topics: Mapping[str, str]
    run: str = field(default_factory=lambda: uuid4().hex)
    ahead: dict[tuple[str, int], int] = field(default_factory=dict)
    heads: dict[str, int | None] = field(default_factory=dict)

    def begin(self, session: SparkSession) -> None:
        """Take the tables, and find out what they have; before the query starts."""
        for table in (self.rows, self.letters):
            table.take(session, self.run, self.topics)
        self._look(session)

    def last_batch(self, session: SparkSession, query_id: str) -> int:
        """Return the last batch of a query that is known to be in one of the tables, or -1."""
        return max(table.last_batch(session, query_id) for table in (self.rows, self.letters))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch; Spark calls this, again and again for one until it returned.

        Raises:
            Superseded: the table was swapped.
            TakenOver: another run has it.
            Overtaken: others add rows to it all the time.
        """
        session = batch.sparkSession
        query_id = session.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "a batch of a query has its id"
        named = Batch(run=self.run, query_id=query_id, number=batch_id)
        self._refuse_if_not_ours(session)
        records = batch.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            for _ in range(_ATTEMPTS - 1):
                try:
                    return self._write(records, named)
                except Overtaken:
                    self._look(session)
                    self._refuse_if_not_ours(session)
                    self._take_letters(session)
            self._write(records, named)
        finally:
            records.unpersist()

    def _refuse_if_not_ours(self, session: SparkSession) -> None:
        if self.live.generation(session) != self.generation:
            raise Superseded(f"{self.live.name} was swapped; the new generation goes on")
        if self.rows.run(session) != self.run:
            raise TakenOver(f"another loader took {self.rows.name}")

    def _take_letters(self, session: SparkSession) -> None:
        """Take them again from a run that began at the same moment, and lost the rows."""
        if self.letters.run(session) != self.run:
            self.letters.take(session, self.run, self.topics)

    def _look(self, session: SparkSession) -> None:
        """Find out what the tables have; rows that others add after this are refused no more."""
        self.heads = {table.name: table.head(session) for table in (self.rows, self.letters)}
        letters = deadletter.places(self.letters.read(session))
        places = self.rows.read(session).select(*_PLACE).unionByName(letters)
        last = places.groupBy(*_PLACE[:2]).agg(F.max(_PLACE[2]).alias("last"))
        self.ahead = {(row[0], row[1]): row[2] for row in last.collect()}

    def _write(self, records: DataFrame, batch: Batch) -> None:
        session = records.sparkSession
        there = self.rows.columns(session)
        assert there is not None, "made before the query started"
        columns, decoded = self.decoder(records, _values(there))
        self.rows.add_columns(session, _values(columns, beside=there))
        decoded = decoded.persist(StorageLevel.MEMORY_AND_DISK)  # read for rows, then for the rest
        try:
            self._append_both(records, decoded, batch)
        finally:
            decoded.unpersist()

    def _append_both(self, records: DataFrame, decoded: DataFrame, batch: Batch) -> None:
        session = records.sparkSession
        rows = self.to_rows(decoded)
        if self._reaches_back(records):
            letters = deadletter.places(self.letters.read(session))
            before = self.rows.read(session).select(*_PLACE).unionByName(letters)
            new = rows.join(before, list(_PLACE), "left_anti").select(rows.columns)
            self._append(self.rows, new, batch)
            bad = deadletter.complement(decoded, self.rows.read(session))
            bad = deadletter.left(bad, letters)
        else:
            self._append(self.rows, rows, batch)
            bad = deadletter.dead_letters(decoded)
        if not bad.isEmpty():
            self._append(self.letters, bad, batch)

    def _append(self, table: LakeTable, rows: DataFrame, batch: Batch) -> None:
        self.heads[table.name] = table.append(rows, batch, after=self.heads[table.name])

    def _reaches_back(self, records: DataFrame) -> bool:
        if not self.ahead:
            return False
        first = records.groupBy("topic", "partition").agg(F.min("offset").alias("first"))
        starts = {(row[0], row[1]): row[2] for row in first.collect()}
        behind = [place for place, start in starts.items() if start <= self.ahead.get(place, -1)]
        for place in starts.keys() - set(behind):
            self.ahead.pop(place, None)  # offsets only grow
        return bool(behind)


def _values(columns: StructType, beside: StructType | None = None) -> StructType:
    known = {*PLACES.names, *(beside.names if beside is not None else ())}
    return StructType([one for one in columns if one.name not in known])
