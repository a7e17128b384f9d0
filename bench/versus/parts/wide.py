"""Topics with many partitions: to create one, and one producer that writes to all of it."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from bench.backfill_clients import in_process
from bench.cluster import Cluster
from bench.results import Figures
from bench.versus.contenders import KAFKA, OURS
from bench.versus.part import Case, Scale
from bench.versus.running import Running

PART: Final = "wide"
CONTENDERS: Final = (KAFKA, OURS)
PATIENCE_S: Final = 300.0
RECORD: Final = b"x" * 100


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    return [
        Case(
            part=PART,
            name=f"{count:,} partitions",
            measure=partial(_measure, count),
            contenders=CONTENDERS,
        )
        for count in scale.pick((1_000, 10_000), (50,))
    ]


def _measure(partitions: int, running: Running) -> Figures:
    with Cluster(running.bootstrap).tidied() as cluster:
        began_s = time.monotonic()
        topic = cluster.new_topic(partitions, PATIENCE_S)
        created_s = time.monotonic() - began_s
        before = running.usage()
        first_s, next_s = in_process(
            one_record_to_each, running.bootstrap, topic, partitions, 2
        ).result()
        used = running.usage().since(before)
    return {
        "create_s": created_s,
        "first_record_to_each_s": first_s,
        "next_record_to_each_s": next_s,
        "broker_cpu_s": used.broker_cpu_s,
    }


def one_record_to_each(bootstrap: str, topic: str, partitions: int, rounds: int) -> list[float]:
    """Send a record to each partition, as often; return how long each round took, in seconds.

    The producer knows the topic before the first round. It has librdkafka's default linger, 5 ms.

    Raises:
        KafkaException: a record was refused.
        TimeoutError: not all were acknowledged.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "max.in.flight.requests.per.connection": 5,
            "log_level": 0,
        }
    )
    failures: list[Any] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer.list_topics(topic, timeout=PATIENCE_S)
    took_s = []
    for _ in range(rounds):
        began_s = time.monotonic()
        for partition in range(partitions):
            producer.produce(topic, RECORD, partition=partition, on_delivery=delivered)
        if producer.flush(PATIENCE_S):
            raise TimeoutError(f"not acknowledged in {PATIENCE_S:.0f} s")
        took_s.append(time.monotonic() - began_s)
        if failures:
            raise KafkaException(failures[0])
    return took_s
