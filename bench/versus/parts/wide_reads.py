"""A consumer of many partitions, to which records come one by one: what each Fetch costs.

Java's consumer has fetch sessions (KIP-227): it names all partitions once, then what changes.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from confluent_kafka import Producer

from bench.backfill_clients import in_process
from bench.cluster import Cluster
from bench.results import Figures
from bench.versus.clients import java_consume, run_clients
from bench.versus.contenders import KAFKA, OURS
from bench.versus.part import Case, Scale
from bench.versus.parts.wide import RECORD, one_record_to_each
from bench.versus.running import Running

PART: Final = "wide_reads"
RECORDS_PER_S: Final = 500
JOIN_S: Final = 6.0
"""For the consumer to start, and to have read what there was."""


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    return [
        Case(
            part=PART,
            name=f"read {count:,} partitions, {RECORDS_PER_S} records/s",
            measure=partial(_measure, count, scale.pick(10.0, 1.0)),
            contenders=(KAFKA, OURS),
        )
        for count in scale.pick((100, 1_000), (50,))
    ]


def _measure(partitions: int, paced_s: float, running: Running) -> Figures:
    records = int(RECORDS_PER_S * paced_s)
    with Cluster(running.bootstrap).tidied() as cluster, ThreadPoolExecutor(1) as pool:
        topic = cluster.new_topic(partitions)
        command = java_consume(running.bootstrap, topic, partitions + records)
        reading = pool.submit(run_clients, [command])
        in_process(one_record_to_each, running.bootstrap, topic, partitions, 1).result()
        time.sleep(JOIN_S)
        before = running.usage()
        in_process(paced, running.bootstrap, topic, partitions, records).result()
        used = running.usage().since(before)
        reading.result()  # once it has read all of them
    return {"broker_cores": used.broker_cpu_s / paced_s}


def paced(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    """Send a record to one partition after the other, RECORDS_PER_S in all.

    Raises:
        TimeoutError: not all were acknowledged.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    began_s = time.monotonic()
    for number in range(records):
        time.sleep(max(began_s + number / RECORDS_PER_S - time.monotonic(), 0))
        producer.produce(topic, RECORD, partition=number % partitions)
    if producer.flush(JOIN_S):
        raise TimeoutError(f"not acknowledged in {JOIN_S:.0f} s")
