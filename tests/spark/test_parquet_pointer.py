"""What a table of Parquet files is: changed by one process at a time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from pyspark.sql import SparkSession

from spark.sinks.parquet_tables import ParquetTable, Pointer, PointerMoved

ROUNDS = 50


def test_of_two_that_change_a_table_at_once_one_does(session: SparkSession, tmp_path: Path) -> None:
    # Given two processes that go on from the same pointer, one with more to write
    table = ParquetTable(path=str(tmp_path / "table"))
    both = Barrier(2)

    def point(number: int, name: str) -> str | None:
        both.wait()
        try:
            table.point(session, Pointer(number=number, generation=1, redone=(name,)))
        except PointerMoved:
            return None
        return name

    with ThreadPoolExecutor(2) as threads:
        for number in range(ROUNDS):
            # When both write at the same time
            told = [*threads.map(point, (number, number), ("few", "many" * 500))]

            # Then one is told that it did, and the table is what that one said
            (winner,) = (name for name in told if name is not None)
            found = table.pointer(session)
            assert (found.number, found.redone) == (number + 1, (winner,))

    # And nothing else is left there
    names = {one.name for one in (tmp_path / "table" / "_pointer").iterdir()}
    assert names == {f"{number:08}.json" for number in range(1, ROUNDS + 1)}
