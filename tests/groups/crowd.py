"""Many librdkafka consumers in this process: what they own is all that is asked of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.groups.settings import Settings, librdkafka_properties
from tests.support.host import stolen_s

THREADS: Final = 4
POLL_S: Final = 0.001
GLANCE_S: Final = 0.02


class Crowding:
    """One consumer of the crowd.

    Attributes:
        owned: partitions assigned and not yet revoked; a new set with each change.
        rebalances: how often it was assigned anything, or nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.group = settings.group
        self.owned: frozenset[int] = frozenset()
        self.rebalances = 0
        self._consumer = Consumer({**librdkafka_properties(settings), "log_level": 3})
        self._topic = settings.topic

    def join(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self) -> None:
        message = self._consumer.poll(POLL_S)
        if message is not None and message.error():
            raise KafkaException(message.error())

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.owned |= {place.partition for place in places}

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self.owned -= {place.partition for place in places}


@contextmanager
def joined_at_once(all_settings: Sequence[Settings]) -> Iterator[list[Crowding]]:
    """Have them all join at once; they are polled during the block and closed after it."""
    crowd = [Crowding(settings) for settings in all_settings]
    stop = Event()

    def live(part: Sequence[Crowding]) -> None:
        for one in part:
            one.join()
        while not stop.is_set():
            for one in part:
                one.poll()

    try:
        with ThreadPoolExecutor(THREADS) as threads:
            living = [threads.submit(live, crowd[number::THREADS]) for number in range(THREADS)]
            try:
                yield crowd
            finally:
                stop.set()
                for one in living:  # whose failure is why the block failed
                    one.result()
    finally:
        with ThreadPoolExecutor(len(crowd)) as threads:
            list(threads.map(Crowding.close, crowd))


def seconds_until(condition: Callable[[], bool], *, timeout_s: float) -> float | None:
    """Return how long a condition took to come true; None if it has not.

    The time in which the host of this machine had its processors does not count.
    """
    began_s = time.monotonic() - stolen_s()
    while (took_s := time.monotonic() - stolen_s() - began_s) < timeout_s:
        if condition():
            return took_s
        time.sleep(GLANCE_S)
    return None
