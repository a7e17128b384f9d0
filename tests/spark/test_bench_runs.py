"""What the benches of Spark make of their runs, and the events that they write."""

import json

import pytest

from bench.spark_log import Cpu, event
from bench.spark_runs import CONNECTOR, DIRECT, Amount, Run, figures, ratios, rows_of

AMOUNT = Amount(records=6_000, size=12_000_000)


def run(took_s: float, *, broker_s: float = 0, spark_s: float = 1) -> Run:
    return Run(took_s=took_s, cpu=Cpu(broker_s=broker_s, postgres_s=0.5, spark_s=spark_s))


def test_rates_are_those_of_the_median_with_the_slowest_and_the_fastest_run() -> None:
    found = figures([run(2, broker_s=1), run(6, broker_s=2), run(3, broker_s=6)], AMOUNT)

    assert found == {
        "runs": 3,
        "records_per_s": 2_000,
        "least_per_s": 1_000,
        "most_per_s": 3_000,
        "mb_per_s": 4,
        "broker_cpu_s": 3,
        "postgres_cpu_s": 0.5,
        "spark_cpu_s": 1,
    }


def test_direct_is_compared_with_the_run_of_the_connector_beside_it() -> None:
    # Given runs on a machine that became twice as slow meanwhile
    connector = [run(9), run(20, spark_s=4), run(24)]
    direct = [run(3), run(5), run(6)]

    # When they are compared
    found = ratios({CONNECTOR: connector, DIRECT: direct})

    # Then the slower machine is in both sides of each ratio
    assert found == {
        "runs": 3,
        "records_per_s": 4,
        "least_per_s": 3,
        "most_per_s": 4,
        "spark_cpu_s": 1,
    }


def test_a_ratio_stands_below_the_ways_if_both_were_measured() -> None:
    both = rows_of("scan", {CONNECTOR: [run(3)], DIRECT: [run(1)]}, AMOUNT)
    assert [row.case for row in both] == [CONNECTOR, DIRECT, "direct / connector"]

    one = rows_of("scan", {CONNECTOR: [run(3)]}, AMOUNT)
    assert [row.case for row in one] == [CONNECTOR]


@pytest.mark.parametrize("size", [80, 100, 1_000])
def test_an_event_is_json_of_the_size_asked_for(size: int) -> None:
    for number in (0, 9_999):
        value = event(number, size)
        assert len(value) == size
        assert json.loads(value)["page"].startswith(f"/p/{number}")
