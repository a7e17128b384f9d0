"""Answers of a cluster awaited; what a broker refuses, or nobody answers, becomes a Failure."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import KafkaException

from streamctl.connection import Connection, Trouble, admin_client
from streamctl.errors import (
    UNREACHABLE,
    BrokerUnreachable,
    Failure,
    UnknownTopic,
    kafka_error,
    refusal,
)

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
_LISTEN_S: Final = 0.05  # how often errors are looked at while a request is under way

Result = TypeVar("Result")


class Requests:
    """A client for requests about the cluster, its topics and its groups.

    Attributes:
        connection: how the cluster is reached.
        client: librdkafka's; its futures are given to `wait`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._trouble = Trouble()
        self.client = admin_client(connection, self._trouble)

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        try:
            return sorted(self.client.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
        except KafkaException as exception:
            raise self._failure("topics", exception, REQUEST_TIMEOUT_S) from exception

    def wait(
        self,
        answer: "Future[Result]",
        subject: str,
        *,
        topic: str | None = None,
        needs: str = "",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Result:
        """Return the answer, listening meanwhile for errors that no waiting will cure.

        Args:
            answer: of a request whose own timeout is timeout_s.
            subject: what a refusal is about, e.g. "topic 'orders'".
            topic: the topic whose absence would explain a refusal.
            needs: what an ACL would have to allow, as of `refusal`.
            timeout_s: seconds.

        Raises:
            BrokerUnreachable: nobody answered in time.
            UnknownTopic: `topic` does not exist.
            Failure: the broker refused.
        """
        give_up = time.monotonic() + timeout_s + 1  # librdkafka keeps the time; this is a net
        while True:
            try:
                return answer.result(timeout=_LISTEN_S)
            except TimeoutError:
                self.client.poll(0)
                if self._trouble.permanent or time.monotonic() > give_up:
                    raise self._unreachable(timeout_s) from None
            except KafkaException as exception:
                if topic and kafka_error(exception).name() == "UNKNOWN_TOPIC_OR_PART":
                    raise UnknownTopic(topic, self.topic_names()) from exception
                raise self._failure(subject, exception, timeout_s, needs) from exception

    def _failure(
        self, subject: str, exception: KafkaException, waited_s: float, needs: str = ""
    ) -> Failure:
        error = kafka_error(exception)
        if error.name() in UNREACHABLE:
            return self._unreachable(waited_s)
        return refusal(subject, error, needs=needs)

    def _unreachable(self, waited_s: float) -> BrokerUnreachable:
        self.client.poll(0)  # the reason may have come with the failure
        return BrokerUnreachable(
            self.connection.bootstrap, waited_s=waited_s, reason=self._trouble.reason
        )


@contextmanager
def own_limits() -> Iterator[None]:
    """Show what the client itself refuses to ask for.

    Raises:
        Failure: it does.
    """
    try:
        yield
    except ValueError as error:
        raise Failure(str(error)) from error
    except OverflowError as error:
        raise Failure(f"a number is too large: {2**31 - 1:,} at most") from error
