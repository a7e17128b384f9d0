"""How a broker is reached, and librdkafka's clients made from that."""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streamctl.arguments import check_text
from streamctl.errors import PERMANENT, UsageError, kafka_error

T = TypeVar("T")

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_DEFAULT_PORT: Final = 9092
_LARGEST_PORT: Final = 65535
_PORT_DIGITS: Final = 5

# librdkafka's own limit on an answer is below the largest record that a producer may send.
MOST_ANSWER: Final[Mapping[str, str]] = {"receive.message.max.bytes": "268435456"}

# What librdkafka complains about in Java clients' properties, and what it has instead.
_ELSEWHERE: Final = {
    "JAAS": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "ssl.ca.location (a PEM file needs no password)",
}
_CONNECT = re.compile(r"\S+: Connect to ipv[46]#(\S+) failed: ")
_AGE = re.compile(r" \(after [0-9]+ms in state .*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What the options before and after a command say about the cluster.

    Attributes:
        bootstrap: HOST:PORT of one or more brokers, separated by commas.
        properties: librdkafka's, from --config and -X.
    """

    bootstrap: str = DEFAULT_BOOTSTRAP
    properties: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Check that it could be: librdkafka crashes on what is no text, and wraps ports around.

        Raises:
            UsageError: it could not.
        """
        check_text(
            [self.bootstrap, *(f"{name}={value}" for name, value in self.properties.items())]
        )
        self.addresses()

    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each broker to start from.

        Raises:
            UsageError: a port is none, or a protocol is not that of the properties.
        """
        return [self._address(word.strip()) for word in self.bootstrap.split(",")]

    def _address(self, word: str) -> tuple[str, int]:
        protocol, named, place = word.rpartition("://")
        if named and protocol.lower() != self.protocol:
            raise UsageError(
                f"{word} is not of the protocol {self.protocol.upper()}",
                fix=f"say it with -X security.protocol={protocol.upper()}",
            )
        host, colon, port = place.rpartition(":")
        if not colon or not (port.isascii() and port.isdecimal()):
            return place.strip("[]"), _DEFAULT_PORT
        if len(port) > _PORT_DIGITS or not 0 < int(port) <= _LARGEST_PORT:
            raise UsageError(f"{word}: a port is a number from 1 to {_LARGEST_PORT}")
        return host.strip("[]"), int(port)

    @property
    def protocol(self) -> str:
        """How brokers are spoken to, in small letters: plaintext, ssl, sasl_plaintext, sasl_ssl."""
        return self.properties.get("security.protocol", "plaintext").lower()


class Trouble:
    """The latest reason that librdkafka gave for not reaching a broker.

    It reports each try through its error callback, while calls only say "timed out".

    Attributes:
        reason: in librdkafka's words; empty while all is well.
        permanent: trying again cannot help: wrong password, not a TLS port.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.permanent = False
        self.all_brokers_down = False

    def heard(self, error: KafkaError) -> None:
        """Remember an error; called on the thread that polls the client."""
        if error.name() == "_ALL_BROKERS_DOWN":
            self.all_brokers_down = True
            return  # only counts brokers; the error before it tells why
        words = _AGE.sub("", error.str()).replace("/bootstrap:", ":")
        self.reason = _CONNECT.sub(r"\1: ", words)
        self.permanent = self.permanent or error.name() in PERMANENT


def admin_client(connection: Connection, trouble: Trouble) -> AdminClient:
    """Return a client for requests about topics and the cluster.

    Raises:
        UsageError: a property is not one of librdkafka's, or has an impossible value.
    """
    return _client(AdminClient, connection, trouble, {})


def producer(connection: Connection, trouble: Trouble, settings: Mapping[str, str]) -> Producer:
    """Return a producer; `settings` are defaults that -X may change. Raises UsageError."""
    return _client(Producer, connection, trouble, settings)


def consumer(connection: Connection, trouble: Trouble, settings: Mapping[str, str]) -> Consumer:
    """Return a consumer; `settings` are defaults that -X may change. Raises UsageError."""
    return _client(Consumer, connection, trouble, settings)


def _client(
    kind: Callable[..., T], connection: Connection, trouble: Trouble, settings: Mapping[str, str]
) -> T:
    config = _config(connection, settings)
    try:
        return kind(config, logger=_logger(connection), error_cb=trouble.heard)
    except KafkaException as exception:
        raise _bad_property(exception) from exception


def _config(
    connection: Connection, settings: Mapping[str, str]
) -> dict[str, str | int | float | bool]:
    return {
        "client.id": "streamctl",
        **settings,
        **connection.properties,
        "bootstrap.servers": connection.bootstrap,
    }


def _logger(connection: Connection) -> logging.Logger:
    """Return where librdkafka's log goes: nowhere, unless -X debug=… asks for it.

    What its lines say about failures also reaches the error callback, and is shown once.
    """
    logger = logging.getLogger("streamctl.librdkafka")
    logger.propagate = False
    if not logger.handlers:
        wanted = "debug" in connection.properties
        logger.addHandler(logging.StreamHandler(sys.stderr) if wanted else logging.NullHandler())
        logger.setLevel(logging.DEBUG if wanted else logging.CRITICAL)
    return logger


def _bad_property(exception: KafkaException) -> UsageError:
    reason = kafka_error(exception).str()
    for name, instead in _ELSEWHERE.items():
        if name in reason:
            return UsageError(f"client property: {reason}", fix=f"use {instead}")
    return UsageError(
        f"client property: {reason}", fix="see -X and --config; the names are librdkafka's"
    )
