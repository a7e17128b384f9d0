"""From a topic into a generation of a table: what `warehouse` and `replay` have in common.

The checkpoint of a generation is its own directory below the one of the options. It keeps the ids
of the topics, too (`spark.jobs.topic_ids`), which are looked at before each micro-batch is written;
so do tables of Delta and Iceberg, which take a new checkpoint.
Parquet gets rows and dead letters of a micro-batch through one file sink, committed together; Delta
and Iceberg get it through `spark.sinks.lake_batches`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark.jobs.checked_query import CheckedBatches, CheckedQuery
from spark.jobs.left_out import refuse_left_out
from spark.jobs.logic import Logic, UnknownFields, value_columns
from spark.jobs.options import JobFailed, PipelineOptions, WrongUsage
from spark.jobs.put_back import refuse_put_back
from spark.jobs.queries import Counted, Goal
from spark.jobs.topic_ids import KeptIds, keep_or_refuse, refuse_made_again, refuse_other_source
from spark.jobs.topics import read_now, read_stream, refuse_missing, topic_ids
from spark.sinks.batch_tables import BatchTables, OtherRun
from spark.sinks.hadoop_files import HadoopFiles
from spark.sinks.lake_batches import LakeBatches
from spark.sinks.parquet_tables import rows_and_dead_letters
from spark.sinks.warehouse import LakeWarehouse, ParquetWarehouse, Warehouse
from spark.tables.decoded import decode

SAMPLE_COUNT: Final = 10_000
"""Records that columns are found out from: the first ones, all of one topic if that has so many."""

ANEW: Final = "give another --output and --checkpoint, or make the table anew: replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """A topic, a table, and how one becomes the other.

    Attributes:
        partition_by: columns that make partitions, of a table that is not there yet.
        name: of its queries, in metrics.
    """

    options: PipelineOptions
    warehouse: Warehouse
    logic: Logic
    partition_by: tuple[str, ...] = ("_kafka_date",)
    name: str = "warehouse"

    def checkpoint(self, generation: int) -> str:
        """Return where the query of a generation keeps its progress."""
        return f"{self.options.checkpoint.rstrip('/')}/g{generation}"

    def kept_ids(self, generation: int) -> KeptIds:
        """Return which topics the records of a generation are of."""
        return KeptIds(checkpoint=self.files(generation))

    def known_ids(self, generation: int) -> dict[str, str]:
        """Return the ids of the topics of a generation, by checkpoint and table."""
        return {**self.kept_ids(generation).all(), **self.warehouse.topics(generation)}

    def prepare(self, generation: int) -> None:
        """Make a generation, unless it is there; columns that the options add are added.

        Raises:
            WrongUsage: the columns cannot be found out, or do not go together with the table's.
            JobFailed: there is no table, and the checkpoint is behind records of one.
        """
        there = self.warehouse.columns(generation)
        if there is None:
            self._refuse_used_checkpoint(generation)
            refuse_missing(self.warehouse.session, self.options)
            columns = self._table_columns(self.logic.columns or self._found())
            self._check_partitions(columns)
            self.warehouse.create(generation, columns, self.partition_by)
        elif self.logic.columns is not None:
            _check_types(there, self.logic.columns)
            wanted = self._table_columns(self.logic.columns)
            _check_capitals(there, wanted)
            self.warehouse.create(generation, wanted)

    def start(self, generation: int, *, live_generation: int) -> CheckedQuery:
        """Start the query of a generation that was prepared, and return it.

        Args:
            generation: to load.
            live_generation: whose rows were the table's when `generation` was chosen: a swap since
                then ends the query at its first batch.

        Raises:
            JobFailed: files and checkpoint are not of one query, the checkpoint is of the other
                source, of more topics or was put back from an older copy, or a topic was made
                again.
        """
        self._refuse_other_source(generation)
        refuse_left_out(self.warehouse.session, self.options, self.files(generation))
        self._refuse_other_topics(generation)
        self._refuse_other_topics_of_table(generation)
        stream = read_stream(self.warehouse.session, self.options, are_there=True)
        write: Callable[[DataFrame, int], None]
        match self.warehouse:
            case ParquetWarehouse():
                stream = self._decoded_for_files(self.warehouse, generation, stream)
                write = self.warehouse.batches(generation)
            case LakeWarehouse():
                write = self._lake_batches(self.warehouse, generation, live_generation)
            case _:
                raise AssertionError(f"no such warehouse: {self.warehouse}")
        check = partial(self._refuse_other_topics, generation)
        batches = CheckedBatches(check=check, write=write)
        writer = stream.writeStream.queryName(self.name).foreachBatch(batches)
        writer = writer.trigger(**self.options.trigger())
        query = writer.start(checkpointLocation=self.checkpoint(generation))
        return CheckedQuery(query=query, batches=batches)

    def load_what_is_there(self, generation: int, *, live_generation: int) -> None:
        """Load what the topics have now, and return when all of it is in the table."""
        goal = Goal.now(self.options)
        while True:
            running = self.start(generation, live_generation=live_generation)
            running.wait()
            counted = Counted()
            counted.note(running.query)
            if goal.is_reached(counted):
                return

    def decoded(self, records: DataFrame, columns: StructType) -> tuple[StructType, DataFrame]:
        """Return the columns of values and the records decoded; new fields become columns."""
        values = self.logic.values(records, columns)
        return values.columns, decode(records, values)

    def files(self, generation: int) -> HadoopFiles:
        """Return what is in the checkpoint of a generation."""
        return HadoopFiles(session=self.warehouse.session, path=self.checkpoint(generation))

    def _found(self) -> StructType:
        records = read_now(self.warehouse.session, self.options, are_there=True)
        sample = records.limit(SAMPLE_COUNT)
        finding = Logic(registry=self.logic.registry)
        columns = finding.values(sample, StructType()).columns
        if not columns and self.logic.unknown is not UnknownFields.add:
            raise WrongUsage(
                f"no record of {', '.join(self.options.topics)} tells which columns there are",
                fix="name them: --schema 'id bigint, name string'",
            )
        return columns

    def _table_columns(self, columns: StructType) -> StructType:
        # its schema; nothing is read
        records = read_now(self.warehouse.session, self.options, are_there=True)
        return self.logic.table_columns(records, columns)

    def _check_partitions(self, columns: StructType) -> None:
        for name in self.partition_by:
            if name not in columns.names:
                raise WrongUsage(f"--partition-by {name}: the table has no such column")

    def _lake_batches(
        self, warehouse: LakeWarehouse, generation: int, live_generation: int
    ) -> LakeBatches:
        batches = LakeBatches(
            rows=warehouse.rows_table(generation, live_generation),
            letters=warehouse.letters_table(generation),
            decoder=self.decoded,
            to_rows=self.logic.rows,
            live=warehouse.live(),
            topics=self.kept_ids(generation).all(),
            generation=live_generation,
        )
        last_batch = partial(batches.last_batch, warehouse.session)
        refuse_put_back(self.files(generation), last_batch, self.options.output, ANEW)
        batches.begin(warehouse.session)
        return batches

    def _decoded_for_files(
        self, warehouse: ParquetWarehouse, generation: int, records: DataFrame
    ) -> DataFrame:
        session, table = warehouse.session, warehouse.table
        if not table.has_batches(session, generation):
            self._refuse_used_checkpoint(generation)
        files = BatchTables(session=session, path=table.directory(generation))
        try:  # the file sink would take another query's batches for old ones
            files.claim(self.checkpoint(generation), {})
        except OtherRun as error:
            raise JobFailed(
                f"{files.path} was written with another checkpoint than"
                f" {self.checkpoint(generation)}",
                fix="give that one with --checkpoint, or make the table anew: replay",
            ) from error
        refuse_put_back(
            self.files(generation),
            lambda _query_id: table.last_batch(session, generation),
            self.options.output,
            ANEW,
        )
        stored = warehouse.columns(generation)
        assert stored is not None, "prepared"
        schemas = self.logic.of_subjects(session, self.options.topics)
        values = self.logic.fixed(value_columns(stored), schemas)
        return self.logic.changed(rows_and_dead_letters(decode(records, values)))

    def _refuse_other_source(self, generation: int) -> None:
        checkpoint = self.files(generation)
        refuse_other_source(checkpoint, self.options.source, "make the table anew: replay")

    def _refuse_other_topics(self, generation: int) -> None:
        keep_or_refuse(
            self.kept_ids(generation),
            topic_ids(self.warehouse.session, self.options),
            self.options.output,
            fix=ANEW,
        )

    def _refuse_other_topics_of_table(self, generation: int) -> None:
        """Refuse what a new checkpoint does not know: it has just kept the ids of today."""
        refuse_made_again(
            self.warehouse.topics(generation),
            self.kept_ids(generation).all(),
            self.options.output,
            fix=ANEW,
        )

    def _refuse_used_checkpoint(self, generation: int) -> None:
        """Refuse to go on in the middle: what was read before is in no table.

        Raises:
            JobFailed: the checkpoint has batches.
        """
        checkpoint = self.files(generation)
        if checkpoint.names("commits"):
            raise JobFailed(
                f"{checkpoint.path} is of records that {self.options.output} does not have",
                fix="give the --output it was used with, or another --checkpoint to begin anew",
            )


def _check_types(there: StructType, wanted: StructType) -> None:
    types = {one.name.lower(): one.dataType for one in there}
    for one in wanted:
        kind = types.get(one.name.lower(), one.dataType)
        if kind != one.dataType:
            raise WrongUsage(
                f"--schema: {one.name} is {kind.simpleString()} in the table,"
                f" not {one.dataType.simpleString()}",
                fix="a column keeps its type; make the table anew: replay",
            )


def _check_capitals(there: StructType, wanted: StructType) -> None:
    """Refuse names that differ from a column's in case only: readers could not tell them apart."""
    names = {name.lower(): name for name in there.names}
    for name in wanted.names:
        known = names.get(name.lower(), name)
        if known != name:
            raise WrongUsage(
                f"the column {name} is {known} in the table",
                fix=f"write {known}, or make the table anew: replay",
            )
