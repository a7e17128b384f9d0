"""The same as flights_plain.py on Spark: pure functions of the rows of a topic."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tests.spark.flights_plain import LATE_MIN

FLIGHT: Final = (
    "carrier string, month int, dep_time int, dep_delay long, arr_delay long,"
    " distance long, dest string"
)
DELAYS: Final = (
    "carrier string, month int, flights long, cancelled long, late long, departure_delay_min long,"
    " most_departure_delay_min long, arrival_delay_min long, distance_miles long, destinations long"
)
CONTENTS: Final = (
    "partition int, records long, first_offset long, last_offset long, timestamps_ms long,"
    " keys_checksum long, values_checksum long"
)


def delays(records: DataFrame) -> DataFrame:
    """Return flights, delays and distances of each carrier and month."""
    flights = records.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight"))
    late = F.col("dep_delay") > LATE_MIN
    # a stream cannot be asked for an exact count of distinct values; it can for a set of them
    return (
        flights.select("flight.*")
        .groupBy("carrier", "month")
        .agg(
            F.count("*").alias("flights"),
            F.count_if(F.col("dep_time").isNull()).alias("cancelled"),
            F.count_if(late).alias("late"),
            F.sum("dep_delay").alias("departure_delay_min"),
            F.max("dep_delay").alias("most_departure_delay_min"),
            F.sum("arr_delay").alias("arrival_delay_min"),
            F.sum("distance").alias("distance_miles"),
            F.size(F.collect_set("dest")).cast("long").alias("destinations"),
        )
        .select(*_names(DELAYS))
    )


def contents(records: DataFrame) -> DataFrame:
    """Return count, offsets and checksums of each partition."""
    key, value = F.coalesce("key", F.lit(b"")), F.coalesce("value", F.lit(b""))
    return (
        records.groupBy("partition")
        .agg(
            F.count("*").alias("records"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.sum(F.unix_millis("timestamp")).alias("timestamps_ms"),
            F.sum(F.crc32(key).bitwiseXOR(F.col("offset"))).alias("keys_checksum"),
            F.sum(F.crc32(value).bitwiseXOR(F.col("offset"))).alias("values_checksum"),
        )
        .select(*_names(CONTENTS))
    )


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]
