"""Make a table anew from offset 0 with other logic, then swap (`python -m spark.jobs.replay`).

The new generation is loaded beside the table from the beginning of the topics, with a checkpoint
of its own. A run that died goes on where it was if it is given the same logic; other logic makes
another generation, so that no table has rows of both. When it has come as far as the table, the
records of both are compared, rows and dead letters together, up to the same offsets: what it lacks
would be lost by a swap (retention or compaction took it from the log), so that needs --force. Of a
topic that was made again it lacks all that the table has. So it does of one that is not named,
which is refused before anything is loaded.

The swap is one step (see spark.sinks.warehouse). Dying before it leaves the table as it was; dying
after it leaves it swapped, with the generation's checkpoint to go on from. A `warehouse --follow`
that runs meanwhile goes on with the new generation by itself.
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.left_out import left_out, named
from spark.jobs.loading import Loading
from spark.jobs.options import JobFailed, PipelineOptions, WrongUsage, pipeline, run
from spark.jobs.queries import measured
from spark.jobs.topic_ids import made_again, topics_in
from spark.jobs.topics import topic_ids
from spark.jobs.warehouse_options import (
    ChangeName,
    Format,
    PartitionBy,
    RegistryUrl,
    Schema,
    Unknown,
    make_loading,
    open_session,
)
from spark.sinks.hadoop_files import HadoopFiles
from spark.sinks.warehouse import TableFormat, Warehouse, positions
from spark.tables import deadletter

CATCH_UP_ROUNDS: Final = 10

_PARTITION: Final = ("_kafka_topic", "_kafka_partition")
_SIDES: Final = ("table", "made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Records of a topic's partition up to the same offset, in rows and dead letters together.

    Attributes:
        last_offset: the last one counted.
        lacking: those of the table that the generation has not, however many others it has.
    """

    topic: str
    partition: int
    last_offset: int
    table: int
    made: int
    lacking: int


@pipeline
def replay(
    options: PipelineOptions,
    table_format: Format = TableFormat.parquet,
    schema: Schema = None,
    registry: RegistryUrl = None,
    unknown_fields: Unknown = None,
    logic: ChangeName = None,
    partition_by: PartitionBy = None,
    *,
    swap: Annotated[
        bool, typer.Option("--swap/--no-swap", help="Swap if nothing is lost, or only compare.")
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Swap even if records would be lost.")
    ] = False,
) -> None:
    """Make a table anew from offset 0 with other logic, compare both, then swap atomically."""
    if options.follow:
        raise WrongUsage("replay ends with what is there", fix="leave --follow to warehouse")
    if partition_by and table_format is TableFormat.parquet:
        raise WrongUsage(
            "--partition-by: a table of Parquet files keeps its partitions",
            fix="load the topics into another --output with warehouse",
        )
    session = open_session("replay", options, table_format)
    loading = make_loading(
        session,
        options,
        table_format=table_format,
        schema=schema,
        registry=registry,
        unknown_fields=unknown_fields,
        logic=logic,
        partition_by=partition_by,
        name="replay",
    )
    if swap and not force:
        refuse_unnamed(loading)
    with measured(session, options):
        generation = backfill(loading)
    for one in compare(loading, generation):
        sys.stdout.write(
            f"{one.topic}-{one.partition} up to offset {one.last_offset}:"
            f" {one.table} records in the table, {one.lacking} of them not in generation"
            f" {generation}, which has {one.made}\n"
        )
    if swap:
        swap_if_whole(loading, generation, force=force)
        sys.stdout.write(f"the table is generation {generation} now\n")


def refuse_unnamed(loading: Loading) -> None:
    """Refuse to make a table anew without a topic that it has records of.

    Raises:
        JobFailed: one is there, and the options do not name it.
    """
    warehouse = loading.warehouse
    live = warehouse.generation()
    topics = {topic for topic, _ in positions(warehouse, live)} if live else set()
    if left := left_out(warehouse.session, loading.options, topics, loading.known_ids(live)):
        raise JobFailed(
            f"the table has records of {' and '.join(left)}, too, which a swap would lose",
            fix=f"give {named(left)}, too; --force swaps nevertheless, --no-swap only compares",
        )


def backfill(loading: Loading) -> int:
    """Load the generation after the table's, until it has come as far; return its number.

    A round loads all that the log has when it begins. What the table had then and the round did not
    load is no longer there: `compare` tells of it.

    Raises:
        JobFailed: there is no table, or it grows faster than it can be followed.
    """
    warehouse = loading.warehouse
    live = warehouse.generation()
    if live == 0:
        raise JobFailed(f"there is no table at {loading.options.output}", fix="run warehouse first")
    generation = _generation(loading, live + 1)
    loading.prepare(generation)
    for _ in range(CATCH_UP_ROUNDS):
        before = positions(warehouse, live)
        loading.load_what_is_there(generation, live_generation=live)
        made = positions(warehouse, generation)
        table = positions(warehouse, live)
        gone = {place for place, last in before.items() if made.get(place, -1) < last}
        if all(made.get(place, -1) >= last for place, last in table.items() if place not in gone):
            return generation
    raise JobFailed("the table grows faster than it can be followed", fix="pause its loader")


def _generation(loading: Loading, first: int) -> int:
    """Return the first generation that is not of other options: one table has rows of one logic.

    One of a topic that was made again since is passed over, too, and one of topics that are not
    named now. What a function of --logic does may have changed under its name; who changes it says
    so by another name.
    """
    files = HadoopFiles(session=loading.warehouse.session, path=loading.options.checkpoint)
    wanted = loading.logic.described()
    topics = topic_ids(loading.warehouse.session, loading.options)
    generation = first
    while True:
        marker = f"g{generation}-logic.json"
        there = files.read_text(marker)
        if there is None:
            files.write_text(marker, wanted)
        known = loading.known_ids(generation)
        of_it = topics_in(loading.files(generation))
        is_of_others = made_again(known, topics) or left_out(
            files.session, loading.options, of_it, known
        )
        if there in {None, wanted} and not is_of_others:
            return generation
        generation += 1


def compare(loading: Loading, generation: int) -> list[Compared]:
    """Compare the records of the table with those of the generation that was made.

    Counts do not tell: of a compacted log the generation may have others, and as many. Of a topic
    that was made again it has none of the table's, though at the same offsets.
    """
    warehouse = loading.warehouse
    live = warehouse.generation()
    others = made_again(loading.known_ids(live), loading.known_ids(generation))
    last = positions(warehouse, live)
    mine = _places(warehouse, generation).where(~F.col("_kafka_topic").isin(others))
    both = _marked(_places(warehouse, live), "table").unionByName(_marked(mine, "made"))
    places = _up_to(both, last).groupBy(*_PARTITION, "_kafka_offset")
    found = places.agg(*(F.bool_or(name).alias(name) for name in _SIDES))
    lacking = F.col("table") & ~F.col("made")
    counts = found.groupBy(*_PARTITION).agg(
        *(F.count_if(name).alias(name) for name in _SIDES), F.count_if(lacking).alias("lacking")
    )
    return [
        Compared(
            topic=row["_kafka_topic"],
            partition=row["_kafka_partition"],
            last_offset=last[row["_kafka_topic"], row["_kafka_partition"]],
            table=row["table"],
            made=row["made"],
            lacking=row["lacking"],
        )
        for row in counts.orderBy(*_PARTITION).collect()
    ]


def swap_if_whole(loading: Loading, generation: int, *, force: bool = False) -> None:
    """Make a generation the table, if it lacks no record of the table.

    Raises:
        JobFailed: it does, and `force` is not given.
    """
    missing = sum(one.lacking for one in compare(loading, generation))
    if missing and not force:
        raise JobFailed(
            f"the log no longer has {missing} records of the table; it was not swapped",
            fix="--force swaps nevertheless; --no-swap only compares",
        )
    loading.warehouse.swap(generation)


def _places(warehouse: Warehouse, generation: int) -> DataFrame:
    """Return the places of rows and dead letters; one that is redone has both."""
    rows = warehouse.rows(generation).select(*_PARTITION, "_kafka_offset")
    return rows.union(deadletter.places(warehouse.dead_letters(generation)))


def _marked(places: DataFrame, side: str) -> DataFrame:
    return places.withColumns({name: F.lit(name == side) for name in _SIDES})


def _up_to(places: DataFrame, last: dict[tuple[str, int], int]) -> DataFrame:
    if not last:
        return places.limit(0)
    session = places.sparkSession
    limits = session.createDataFrame(
        [(topic, partition, offset) for (topic, partition), offset in last.items()],
        "_kafka_topic string, _kafka_partition int, last bigint",
    )
    joined = places.join(F.broadcast(limits), [*_PARTITION])
    return joined.where(F.col("_kafka_offset") <= F.col("last"))


if __name__ == "__main__":
    run(replay)
