"""The values that names of fields are found in: the newest, and no more than a driver can hold."""

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark.jobs.sql_sample import SAMPLE_BYTES, first_offsets, newest_values

places = st.tuples(st.integers(0, 3), st.integers(0, 50))
sizes = st.dictionaries(places, st.integers(1, SAMPLE_BYTES + 100), max_size=40)


def test_of_long_values_the_newest_are_taken(session: SparkSession) -> None:
    # Given documents of 300 kB in two partitions, one that is longer than a sample, and a null
    long = SAMPLE_BYTES + 1
    values = session.range(200).selectExpr(
        "cast(id % 2 as int) AS partition",
        "id AS offset",
        f"CASE id WHEN 198 THEN repeat('y', {long}) WHEN 199 THEN null"
        " ELSE rpad(id, 300000, 'x') END AS value",
    )

    # When
    found = newest_values(values)

    # Then there are as many as fit, of both partitions
    count = SAMPLE_BYTES // 300_000
    assert len(found) == count
    assert min(int(text[:3]) for text in found) >= 198 - count - 1


def test_short_values_are_all_taken(session: SparkSession) -> None:
    values = session.range(1_000).selectExpr("0 AS partition", "id AS offset", "'x' || id AS value")
    assert sorted(newest_values(values)) == sorted(f"x{number}" for number in range(1_000))


@given(sizes)
def test_a_sample_has_the_end_of_each_partition(sizes: dict[tuple[int, int], int]) -> None:
    first = first_offsets(sizes)
    fit = {place: size for place, size in sizes.items() if size <= SAMPLE_BYTES}
    taken = [size for (each, offset), size in fit.items() if offset >= first.get(each, 51)]
    assert sum(taken) <= SAMPLE_BYTES
    assert bool(taken) == bool(fit)
