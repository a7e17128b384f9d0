"""How long an acknowledgement takes, and a record's way to its reader, without linger.

Each case has a topic of its own. What writes most comes last, as upkeep then builds segments of it
in the background. `late_p99_ms` tells how late the client itself was, `put_mean_ms` how long the
object store took.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from bench.backfill_clients import in_process
from bench.cluster import Cluster
from bench.results import Figures, percentile
from bench.versus.exported import exported
from bench.versus.loads import prime
from bench.versus.open_loop import Observed, OpenLoop, open_loop
from bench.versus.part import Case, Scale
from bench.versus.running import Running
from bench.versus.senders import maximum, synchronous

PART: Final = "latency"
CONTENDERS: Final = ("kafka", "kafka-flush", "ours", "ours-s3", "ours-s3-50")
PARTITIONS: Final = 6
RATE_PER_S: Final = 1_000
HALF_LOAD_BYTES: Final = 1_024
PUTS: Final = {
    "seconds": "streamhouse_object_put_seconds_sum",
    "count": "streamhouse_object_put_seconds_count",
}
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    measures = (
        (f"acks at {RATE_PER_S:,} records/s, 100 B", _acknowledged),
        (f"end to end at {RATE_PER_S:,} records/s, 100 B", _end_to_end),
        ("one synchronous producer, 100 B", _synchronous),
        ("acks at half of the maximum, 1 KiB", _half_load),
    )
    return [
        Case(part=PART, name=name, measure=partial(measure, scale), contenders=CONTENDERS)
        for name, measure in measures
    ]


def _half_load(scale: Scale, running: Running) -> Figures:
    """Measure at half of what the same client can write at most just before."""
    prime(scale.scratch)
    with Cluster(running.bootstrap).tidied() as cluster:
        topic = cluster.new_topic(PARTITIONS)
        most_per_s: float = in_process(
            maximum, running.bootstrap, topic, PARTITIONS, HALF_LOAD_BYTES, scale.pick(4.0, 0.5)
        ).result()
        rate_per_s = most_per_s / 2
        before = _puts(running)
        seen = _observed(scale, running, topic, records_per_s=rate_per_s, size=HALF_LOAD_BYTES)
        puts = {name: value - before[name] for name, value in _puts(running).items()}
    return {
        "maximum_records_per_s": most_per_s,
        **_percentiles("ack", seen.acknowledged_s),
        **({"put_mean_ms": puts["seconds"] / puts["count"] * 1000} if puts else {}),
        **_lateness(seen),
    }


def _puts(running: Running) -> Mapping[str, float]:
    """Return how long the PUTs of a broker of ours have taken so far, and how many there were."""
    return exported(running, PUTS) if running.http else {}


def _acknowledged(scale: Scale, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        seen = _observed(scale, running, cluster.new_topic(PARTITIONS))
    return {**_percentiles("ack", seen.acknowledged_s), **_lateness(seen)}


def _end_to_end(scale: Scale, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        seen = _observed(scale, running, cluster.new_topic(PARTITIONS), reading=True)
    return {**_percentiles("end_to_end", seen.read_s), **_lateness(seen)}


def _synchronous(scale: Scale, running: Running) -> Figures:
    """Measure a producer that waits for each record: nobody else's records come beside it."""
    with Cluster(running.bootstrap).tidied() as cluster:
        topic = cluster.new_topic(1)
        warm_s, duration_s = scale.pick(1.0, 0.2), scale.pick(5.0, 0.5)
        took_s = in_process(synchronous, running.bootstrap, topic, warm_s, duration_s).result()
    return {**_percentiles("ack", took_s), "records_per_s": len(took_s) / duration_s}


def _observed(
    scale: Scale,
    running: Running,
    topic: str,
    *,
    records_per_s: float = RATE_PER_S,
    size: int = 100,
    reading: bool = False,
) -> Observed:
    load = OpenLoop(
        bootstrap=running.bootstrap,
        topic=topic,
        partitions=PARTITIONS,
        records_per_s=records_per_s,
        record_bytes=size,
        warm_s=scale.pick(2.0, 0.3),
        duration_s=scale.pick(8.0, 0.7),
        reading=reading,
    )
    seen: Observed = in_process(open_loop, load).result()
    return seen


def _percentiles(what: str, seconds: Sequence[float]) -> Figures:
    return {
        f"{what}_{name}_ms": percentile(seconds, share) * 1000 for name, share in SHARES.items()
    }


def _lateness(seen: Observed) -> Figures:
    return {"late_p99_ms": percentile(seen.late_s, 0.99) * 1000}
