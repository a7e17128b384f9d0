"""Recorded processes: each is a producer and a consumer that do one operation after the other."""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from tests.history.codes import DEFINITE
from tests.history.kafka_clients import (
    KEYS,
    idempotent_producer,
    single_attempt_producer,
)
from tests.history.operations import Entry, Kind, Outcome
from tests.history.reading import POLL_S, Reading
from tests.history.record import Recorder, polled
from tests.history.sending import Sending, await_deliveries, send

OPERATIONS_PER_S: Final = 50  # of each process; the faults are what the machine is to be busy with
MOST_ACTIONS: Final = 4
ASSIGNS: Final = 1 / 64
CRASHES: Final = 1 / 400
SENDS: Final = 0.5


class Ended(Exception):
    """The process is not to go on: it crashed, or its producer is of no use any more."""


class Process(ABC):
    """One process, from its first assignment to its crash, or the end of the run."""

    def __init__(
        self,
        bootstrap: str,
        recorder: Recorder,
        dice: random.Random,
        following: Mapping[int, int],
    ) -> None:
        """`following` is where its predecessor was, by key."""
        self._recorder = recorder
        self._dice = dice
        self._process = recorder.new_process()
        self._reading = Reading(bootstrap, recorder, self._process, following)

    @property
    def following(self) -> Mapping[int, int]:
        return self._reading.following

    def run(self, stop: Event) -> None:
        """Do one operation after the other until `stop`, or the end of the process."""
        try:
            self.begin()
            self._reading.assign_some(self._dice)
            while not stop.is_set():
                self._do_something()
                stop.wait(self._dice.uniform(0, 2 / OPERATIONS_PER_S))
        except Ended:
            return
        finally:
            self._reading.close()

    def begin(self) -> None:  # noqa: B027 (most have nothing to do)
        """Make the producer ready.

        Raises:
            Ended: it cannot be.
        """

    @abstractmethod
    def operate(self) -> None:
        """Send, poll, or both.

        Raises:
            Ended: the producer is of no use any more.
        """

    def _do_something(self) -> None:
        chance = self._dice.random()
        if chance < CRASHES:
            self._recorder.end(self._recorder.call(self._process, Kind.CRASH, None), Outcome.INFO)
            raise Ended
        if chance < CRASHES + ASSIGNS:
            self._reading.assign_some(self._dice)
        else:
            self.operate()

    def _new_sending(self) -> Sending:
        return Sending(Entry(self._dice.randrange(KEYS), self._recorder.new_value()))

    def _poll(self) -> None:
        """Poll once or several times; an operation that only polls always succeeds."""
        times = self._dice.randint(1, MOST_ACTIONS)
        index = self._recorder.call(self._process, Kind.POLL, [["poll"]] * times)
        reads = [self._reading.poll(self._dice.uniform(*POLL_S)) for _ in range(times)]
        self._recorder.end(index, Outcome.OK, [polled(one) for one in reads])
        self._reading.go_on()


class Plain(Process):
    """Sends without a transaction, several records at a time, and polls."""

    def __init__(
        self,
        bootstrap: str,
        recorder: Recorder,
        dice: random.Random,
        following: Mapping[int, int],
    ) -> None:
        super().__init__(bootstrap, recorder, dice, following)
        self._producer = self._new_producer(bootstrap)

    def operate(self) -> None:
        if self._dice.random() < SENDS:
            self._send([self._new_sending() for _ in range(self._most())])
        else:
            self._poll()

    @abstractmethod
    def _new_producer(self, bootstrap: str) -> Producer: ...

    @abstractmethod
    def _most(self) -> int:
        """Return how many records are sent at a time."""

    @abstractmethod
    def _codes(self, sendings: Sequence[Sending]) -> list[int] | None:
        """Return the codes of all attempts, if nothing was written for sure; else None."""

    def _send(self, sendings: Sequence[Sending]) -> None:
        called = [["send", *sending.entry] for sending in sendings]
        index = self._recorder.call(self._process, Kind.SEND, called)
        refused = False
        try:
            for sending in sendings:
                send(self._producer, sending)
        except KafkaException:
            refused = True
        if not refused:
            await_deliveries(self._producer, sendings)
        value: list[Any] = [sending.to_line() for sending in sendings]
        if all(sending.acknowledged for sending in sendings):
            self._recorder.end(index, Outcome.OK, value)
        elif (codes := self._codes(sendings)) is not None:
            self._recorder.end(index, Outcome.FAIL, value, codes=codes)
        else:
            self._recorder.end(index, Outcome.INFO, value)
        if refused or any(one.error is not None and one.error.fatal() for one in sendings):
            raise Ended


class Idempotent(Plain):
    """Tries again by itself, so nobody knows what codes its attempts have got."""

    def _new_producer(self, bootstrap: str) -> Producer:
        return idempotent_producer(bootstrap)

    def _most(self) -> int:
        return self._dice.randint(1, MOST_ACTIONS)

    def _codes(self, sendings: Sequence[Sending]) -> None:
        return None


class SingleAttempt(Plain):
    """Sends one record at a time, once: if it is refused for sure, nobody must ever see it."""

    def _new_producer(self, bootstrap: str) -> Producer:
        return single_attempt_producer(bootstrap)

    def _most(self) -> int:
        return 1

    def _codes(self, sendings: Sequence[Sending]) -> list[int] | None:
        codes = [sending.error.code() for sending in sendings if sending.error is not None]
        return codes if codes and all(code in DEFINITE for code in codes) else None
