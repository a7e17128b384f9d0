"""Measure transactions on any broker: throughput, how long an end takes, and when readers see it.

python -m bench.transactions --bootstrap HOST:PORT; one librdkafka producer with acks of all.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed, Row, percentile, show
from bench.transaction_clients import Transactions, reading

THROUGHPUT: Final = "throughput"
END: Final = "end of a transaction"
END_TO_END: Final = "produced to read (read_committed)"
PATIENCE_S: Final = 30.0
AGAIN_S: Final = 0.05
WARM_UP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        partitions: over which each transaction's records are spread.
        records: of a transaction, where throughput is measured.
        record_bytes: sizes of the values.
        duration_s: for each throughput.
        ends: transactions of one record for each partition, one after the other.
        end_to_end_rate: transactions per second while readers wait for them.
        end_to_end_s: for so long.
    """

    partitions: int
    records: int = 1_000
    record_bytes: Sequence[int] = (100, 1_024)
    duration_s: float
    ends: int
    end_to_end_rate: float = 20.0
    end_to_end_s: float


def measure_throughput(cluster: Cluster, plan: Plan, record_bytes: int) -> Figures:
    """Run transactions of many records, one after the other."""
    transactions = _producer(cluster, plan)
    values = [bytes(record_bytes)] * plan.records
    ends_s: list[float] = []
    for _ in range(WARM_UP):
        _run(transactions, values)
    began_s = time.monotonic()
    while time.monotonic() < began_s + plan.duration_s:
        _run(transactions, values)
        ends_s.append(time.monotonic())
    took_s = ends_s[-1] - began_s
    rate = len(ends_s) / took_s
    return {
        "transactions_per_s": rate,
        "records_per_s": rate * plan.records,
        "mb_per_s": rate * plan.records * record_bytes / 1e6,
    }


def measure_ends(cluster: Cluster, plan: Plan) -> Figures:
    """Time commits whose records are all acknowledged before, and the whole of the transactions."""
    transactions = _producer(cluster, plan)
    values = [b"x"] * plan.partitions
    commits_s, wholes_s = [], []
    for number in range(WARM_UP + plan.ends):
        began_s = time.monotonic()
        transactions.begin()
        transactions.send(values)
        transactions.flush()
        ending_s = time.monotonic()
        transactions.commit()
        ended_s = time.monotonic()
        if number >= WARM_UP:
            commits_s.append(ended_s - ending_s)
            wholes_s.append(ended_s - began_s)
    return {
        "transactions": plan.ends,
        **_latency("commit", commits_s),
        **_latency("whole", wholes_s),
    }


def measure_end_to_end(cluster: Cluster, plan: Plan) -> Figures:
    """Time from the call that sends a record to the moment at which a consumer has it."""
    topic = cluster.new_topic(plan.partitions)
    transactions = Transactions(cluster.bootstrap, topic, plan.partitions)
    with reading(cluster.bootstrap, topic, plan.partitions) as latencies_s:
        count = round(plan.end_to_end_rate * plan.end_to_end_s)
        began_s = time.monotonic()
        for number in range(count):
            time.sleep(max(began_s + number / plan.end_to_end_rate - time.monotonic(), 0))
            _run(transactions, [str(time.monotonic()).encode()] * plan.partitions)
        deadline_s = time.monotonic() + PATIENCE_S
        while len(latencies_s) < count * plan.partitions:
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"only {len(latencies_s)} records were read")
            time.sleep(AGAIN_S)
    return {
        "records": len(latencies_s),
        "transactions_per_s": plan.end_to_end_rate,
        **_latency("read", latencies_s),
    }


def _producer(cluster: Cluster, plan: Plan) -> Transactions:
    topic = cluster.new_topic(plan.partitions)
    return Transactions(cluster.bootstrap, topic, plan.partitions)


def _run(transactions: Transactions, values: Sequence[bytes]) -> None:
    transactions.begin()
    transactions.send(values)
    transactions.commit()


def _latency(what: str, seconds: Sequence[float]) -> Figures:
    return {
        f"{what}_{name}_ms": percentile(seconds, share) * 1000
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def main(
    *,
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT of a running broker, or several.")],
    partitions: Annotated[int, typer.Option(help="Of the topics.", min=1)] = 4,
    seconds: Annotated[float, typer.Option(help="For each throughput.", min=0.1)] = 10.0,
    ends: Annotated[int, typer.Option(help="Commits that are timed.", min=1)] = 500,
    quick: Annotated[bool, typer.Option("--quick", help="Two seconds of each.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure transactions on any broker."""
    plan = Plan(
        partitions=partitions,
        duration_s=2.0 if quick else seconds,
        ends=50 if quick else ends,
        end_to_end_s=2.0 if quick else seconds,
    )
    progress = Console(stderr=True)
    cluster = Cluster(bootstrap)
    rows: list[Row] = []

    def measure(part: str, case: str, measurement: Callable[[], Figures]) -> None:
        progress.print(f"{part}: {case}")
        rows.append(Row(part=part, case=case, figures=measurement()))

    began_s = time.monotonic()
    with cluster.tidied():
        for size in plan.record_bytes:
            case = f"{plan.records} records of {size} B"
            measure(THROUGHPUT, case, lambda size=size: measure_throughput(cluster, plan, size))  # type: ignore[misc]
        case = f"{partitions} partitions"
        measure(END, case, lambda: measure_ends(cluster, plan))
        measure(END_TO_END, case, lambda: measure_end_to_end(cluster, plan))
    settings = {
        "bootstrap": bootstrap,
        "took_s": time.monotonic() - began_s,
        **asdict(plan),
    }
    show(rows, settings, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
