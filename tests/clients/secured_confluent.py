"""librdkafka against a cluster that may refuse it: what was done, or the name of the error."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.clients.logins import Login

DONE: Final = "done"
LET_IN: Final = "let in"
CALL_S: Final = 90.0
GLANCE_S: Final = 0.05
REFUSED_S: Final = 10.0
REFUSED_SOON_S: Final = 60.0
CONCURRENT: Final = 12
_NO_NEWS: Final = (KafkaError._ALL_BROKERS_DOWN,)


def refusal(login: Login) -> str:
    """Return the error that the client hears of first, or LET_IN."""
    return heard_refusal(login)[0]


def heard_refusal(login: Login) -> tuple[str, str]:
    """Return the error that the client hears of first, and its text; LET_IN if there is none."""
    heard: list[KafkaError] = []
    producer = Producer({**login.confluent(), "error_cb": heard.append})
    deadline = time.monotonic() + REFUSED_S
    while time.monotonic() < deadline:
        producer.poll(GLANCE_S)
        for error in heard:
            if error.code() not in _NO_NEWS:
                return error.name(), error.str()
    try:
        producer.list_topics(timeout=GLANCE_S)
    except KafkaException as refused:
        return refused.args[0].name(), refused.args[0].str()
    return LET_IN, ""


def came_to(calls: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """Make all calls at the same time; return DONE or the error's name for each."""

    def outcome(call: Callable[[], object]) -> str:
        try:
            call()
        except KafkaException as refused:
            name: str = refused.args[0].name()
            return name
        return DONE

    with ThreadPoolExecutor(CONCURRENT) as pool:
        return dict(zip(calls, pool.map(outcome, calls.values()), strict=True))


def send(login: Login, topic: str, *values: str, **settings: Any) -> None:
    """Send records one after the other, and wait for each.

    Raises:
        KafkaException: one was not acknowledged, or the client was refused.
    """
    with sender(login, **settings) as send_one:
        for value in values:
            send_one(topic, value)


@contextmanager
def sender(login: Login, **settings: Any) -> Iterator[Callable[[str, str], None]]:
    """Give a block a producer, as a function of topic and value that raises KafkaException."""
    heard: list[KafkaError] = []
    reports: list[KafkaError | None] = []
    # a record that was refused is not tried again under the same sequence number: no idempotence
    defaults = {"enable.idempotence": False, "error_cb": heard.append, "linger.ms": 0}
    producer = Producer({**login.confluent(), **defaults, **settings})

    def reported(error: KafkaError | None, _: Message) -> None:
        reports.append(error)

    def send_one(topic: str, value: str) -> None:
        reports.clear()
        producer.produce(topic, value, on_delivery=reported)
        deadline = time.monotonic() + CALL_S
        while not reports:
            producer.poll(GLANCE_S)
            _raise_refusal(heard)
            assert time.monotonic() < deadline, f"no report; heard {heard}"
        if reports[0] is not None:
            raise KafkaException(reports[0])

    yield send_one
    producer.purge()
    producer.flush(CALL_S)


def read(login: Login, topic: str, group: str, count: int, **settings: Any) -> list[str]:
    """Return the first records that a group is given.

    Raises:
        KafkaException: the consumer was refused.
    """
    values: list[str] = []
    with reader(login, topic, group, **settings) as read_one:
        while len(values) < count:
            values.append(read_one())
    return values


@contextmanager
def reader(login: Login, topic: str, group: str, **settings: Any) -> Iterator[Callable[[], str]]:
    """Give a block a consumer, as a function that returns a value or raises KafkaException."""
    heard: list[KafkaError] = []
    defaults = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "error_cb": heard.append,
    }
    consumer = Consumer({**login.confluent(), **defaults, **settings})
    consumer.subscribe([topic])

    def read_one() -> str:
        deadline = time.monotonic() + CALL_S
        while time.monotonic() < deadline:
            message = consumer.poll(GLANCE_S)
            _raise_refusal(heard)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            consumer.commit(message=message, asynchronous=False)
            value = message.value()
            assert value is not None
            return value.decode()
        raise AssertionError(f"no record in time; heard {heard}")

    try:
        yield read_one
    finally:
        consumer.close()


def until_refused(work: Callable[[], object]) -> str:
    """Do something again and again; return the name of the error that ends it."""
    deadline = time.monotonic() + REFUSED_SOON_S
    while time.monotonic() < deadline:
        try:
            work()
        except KafkaException as refused:
            name: str = refused.args[0].name()
            return name
    return DONE


class Counted(logging.Handler):
    """Counts lines of a client's log that hold a word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += self.word in record.getMessage()


def reauthentications(name: str) -> tuple[dict[str, Any], Counted]:
    """Return settings for a client that tells when it has authenticated again, and how often.

    Args:
        name: of its logger; of no other client's.
    """
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    counted = Counted("state UP -> REAUTH")
    logger.addHandler(counted)
    return {"debug": "broker", "log_level": 7, "logger": logger}, counted


def _raise_refusal(heard: list[KafkaError]) -> None:
    for error in heard:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            raise KafkaException(error)
