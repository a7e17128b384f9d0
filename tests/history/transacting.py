"""A recorded process whose operations are transactions."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from tests.history.clients import MOST_ACTIONS, SENDS, Ended, Process
from tests.history.kafka_clients import partition_of, transactional_producer
from tests.history.operations import Kind, Outcome, Read
from tests.history.reading import POLL_S
from tests.history.record import Recorder, polled
from tests.history.sending import (
    Sending,
    Stuck,
    await_deliveries,
    end_transaction,
    send,
    send_offsets,
)

ABORTS: Final = 0.1  # before each action, and before the commit
DIES: Final = 1 / 200  # with an open transaction


@dataclass(slots=True)
class Polling:
    """A poll planned, or done."""

    reads: dict[int, list[Read]] = field(default_factory=dict)

    def to_line(self) -> list[Any]:
        return polled(self.reads)


class Undone(Exception):
    """The transaction is not to be committed."""


class Died(Exception):
    """The process is to crash with its transaction open."""


class Transactional(Process):
    """Sends and polls in transactions, and commits what it has read with them.

    A transaction of which no commit was ever tried has failed, whoever aborts it; one whose commit
    did not succeed may have been committed all the same.
    """

    def __init__(
        self,
        bootstrap: str,
        recorder: Recorder,
        dice: random.Random,
        following: Mapping[int, int],
        *,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        super().__init__(bootstrap, recorder, dice, following)
        self._producer = transactional_producer(bootstrap, transactional_id, timeout_ms)

    def begin(self) -> None:
        if (error := end_transaction(self._producer.init_transactions)) is not None:
            complaint = f"init_transactions of process {self._process}: {error}"
            self._recorder.complaints.append(complaint)
            raise Ended

    def operate(self) -> None:
        plan = self._plan()
        called = [["send", *one.entry] if isinstance(one, Sending) else ["poll"] for one in plan]
        index = self._recorder.call(self._process, Kind.TRANSACTION, called)
        try:
            self._act(plan)
        except (KafkaException, Undone):
            failure = end_transaction(self._producer.abort_transaction)
            self._recorder.end(index, Outcome.FAIL, [one.to_line() for one in plan])
            if failure is not None:
                raise Ended from None
            self._reading.go_back()
        except (Died, Stuck) as end:
            if isinstance(end, Stuck):
                self._recorder.stuck.append(f"process {self._process}")
            self._recorder.end(index, Outcome.FAIL, [one.to_line() for one in plan])
            raise Ended from None
        else:
            self._commit(index, plan)

    def _plan(self) -> list[Sending | Polling]:
        count = self._dice.randint(1, MOST_ACTIONS)
        return [
            self._new_sending() if self._dice.random() < SENDS else Polling() for _ in range(count)
        ]

    def _act(self, plan: list[Sending | Polling]) -> None:
        """Do all but commit.

        Raises:
            KafkaException: the client refuses something.
            Undone: by chance, or something was not delivered.
            Died: by chance.
            Stuck: the client hangs.
        """
        self._producer.begin_transaction()
        for action in plan:
            self._maybe_abort()
            if isinstance(action, Sending):
                send(self._producer, action)
            else:
                action.reads = self._reading.poll(self._dice.uniform(*POLL_S))
        sendings = [one for one in plan if isinstance(one, Sending)]
        await_deliveries(self._producer, sendings)
        if self._dice.random() < DIES:
            raise Died
        if not all(one.acknowledged for one in sendings):
            raise Undone
        if positions := self._reading.positions:
            send_offsets(
                self._producer,
                [partition_of(key, offset) for key, offset in positions.items()],
                self._reading.consumer.consumer_group_metadata(),
            )
        self._maybe_abort()

    def _maybe_abort(self) -> None:
        if self._dice.random() < ABORTS:
            raise Undone

    def _commit(self, index: int, plan: list[Sending | Polling]) -> None:
        commit_ns = time.monotonic_ns()
        failure = end_transaction(self._producer.commit_transaction)
        lines = [one.to_line() for one in plan]
        if failure is None:
            self._recorder.end(index, Outcome.OK, lines, commit_ns=commit_ns)
            self._reading.go_on()
            return
        again = failure.txn_requires_abort()
        aborted = again and end_transaction(self._producer.abort_transaction) is None
        codes = [failure.code()] if failure.code() > 0 else []
        self._recorder.end(index, Outcome.INFO, lines, commit_ns=commit_ns, codes=codes)
        if not aborted:
            raise Ended
        self._reading.go_back()
