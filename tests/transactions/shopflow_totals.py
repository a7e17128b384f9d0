"""ShopFlow's total of paid orders, as a program; its argument is TotalsSettings as JSON.

It keeps no state but in its output topic: each total is sent in one transaction with the offset of
the event that it takes in, and a new instance goes on at the last total that is committed. Its
events: `total`, as one is committed, and `halted`.
"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.groups.telling import say, stopping

POLL_S: Final = 0.05
CALL_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsSettings:
    """One instance.

    Attributes:
        events, totals: topics of one partition.
        halts_at: the total that it sends with its offset but does not commit; 0 for none.
    """

    bootstrap: str
    group: str
    events: str
    totals: str
    session_ms: int
    halts_at: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def client(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **settings}


def last_total(settings: TotalsSettings) -> int:
    """Return the last total that is committed; 0 if there is none."""
    consumer = Consumer(
        settings.client(
            **{
                "group.id": "assigned-by-hand",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
    )
    consumer.assign([TopicPartition(settings.totals, 0, OFFSET_BEGINNING)])
    total = 0
    try:
        while True:
            message = consumer.poll(CALL_S)
            assert message is not None, f"{settings.totals} does not end"
            error = message.error()
            if error is None:
                total = int(_bytes(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return total
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def run(settings: TotalsSettings) -> None:
    stop = stopping()
    producer = Producer(settings.client(**{"transactional.id": settings.group, "linger.ms": 5}))
    producer.init_transactions(CALL_S)  # aborts what an instance before has left open
    total = last_total(settings)
    consumer = Consumer(
        settings.client(
            **{
                "group.id": settings.group,
                "session.timeout.ms": settings.session_ms,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
    )
    consumer.subscribe([settings.events])
    while not stop.is_set():
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        if error := message.error():
            raise KafkaException(error)
        event = json.loads(_bytes(message))
        if event["event_type"] == "paid":
            total += event["amount"]
        offset = message.offset()
        assert offset is not None
        producer.begin_transaction()
        producer.produce(settings.totals, str(total))
        producer.send_offsets_to_transaction(
            [TopicPartition(settings.events, 0, offset + 1)],
            consumer.consumer_group_metadata(),
            CALL_S,
        )
        if total == settings.halts_at:
            producer.flush(CALL_S)
            say("halted", total=total)
            stop.wait()
            return
        producer.commit_transaction(CALL_S)
        say("total", total=total)
    consumer.close()


def _bytes(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


if __name__ == "__main__":
    run(TotalsSettings(**json.loads(sys.argv[1])))
