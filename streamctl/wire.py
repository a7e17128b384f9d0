"""Requests that librdkafka has no call for, sent as they are: configs of any resource, quotas.

One socket, one request at a time. The version is the highest that both sides know. How a broker is
reached is said by librdkafka's properties: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
"""

import socket
import ssl
from typing import Any, Final, Self

from confluent_kafka import KafkaError

from streamctl.connection import Connection
from streamctl.errors import CHECK_LOGIN, BrokerUnreachable, Failure, UsageError, reason_of, refusal
from streamctl.requests import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from streamctl.sasl import conversation

_SASL_HANDSHAKE: Final = 17
_SASL_AUTHENTICATE: Final = 36
_DESCRIBE_CLUSTER: Final = 60
_BROKERS: Final = 1
_MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024


class Wire:
    """A connection to one broker; use it as a context.

    Raises from everything that asks:
        BrokerUnreachable: no connection, or no answer in time.
        Failure: the broker does not know the request.
    """

    def __init__(self, sock: socket.socket, address: str, connection: Connection) -> None:
        from streamctl import wire_codec  # noqa: PLC0415 (0.2 s that most commands save)

        self._socket = sock
        self._address = address
        self._connection = connection
        self._codec = wire_codec
        self._correlation_id = 0
        self._versions: dict[int, range] = {}

    @classmethod
    def connect(cls, connection: Connection, address: tuple[str, int] | None = None) -> Self:
        """Connect to `address`, or to the first bootstrap broker that takes connections.

        Raises:
            BrokerUnreachable: none does.
            Failure: the broker does not let us in.
            UsageError: the connection's properties ask for what is not offered here.
        """
        context = _tls(connection)
        reason = ""
        for host, port in [address] if address else connection.addresses():
            try:
                sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
                if context is not None:
                    sock = context.wrap_socket(sock, server_hostname=host)
            except (OSError, UnicodeError) as error:
                reason = f"{host}:{port}: {reason_of(error)}"
                continue
            sock.settimeout(REQUEST_TIMEOUT_S)
            wire = cls(sock, f"{host}:{port}", connection)
            try:
                wire._learn_versions()
                if connection.protocol.startswith("sasl_"):
                    wire._log_in()
            except Failure:
                sock.close()
                raise
            return wire
        raise BrokerUnreachable(connection.bootstrap, waited_s=CONNECT_TIMEOUT_S, reason=reason)

    def to_broker(self, node_id: int) -> "Wire":
        """Return a connection to that broker of the same cluster.

        Raises:
            Failure: the cluster has no such broker.
        """
        answer = self.ask(
            _DESCRIBE_CLUSTER,
            include_cluster_authorized_operations=False,
            endpoint_type=_BROKERS,
            include_fenced_brokers=False,
        )
        brokers = {broker.broker_id: broker for broker in answer.brokers}
        if node_id not in brokers:
            living = ", ".join(str(one) for one in sorted(brokers))
            raise Failure(f"there is no broker {node_id}", fix=f"brokers are: {living}")
        at = brokers[node_id]
        return Wire.connect(self._connection, (at.host, at.port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def types(self, api_key: int) -> Any:
        """Return the module with the request's classes, in the version that both sides know.

        Raises:
            Failure: the broker does not offer the request.
        """
        return self._codec.request_types(api_key, self._version(api_key))

    def ask(self, api_key: int, **fields: object) -> Any:
        """Send a request with those of the fields that its version has, and return the answer."""
        return self._exchange(self._codec.build(api_key, self._version(api_key), fields))

    def _version(self, api_key: int) -> int:
        version = self._codec.newest_version(api_key, self._versions.get(api_key, range(0)))
        if version is None:
            raise Failure(f"the broker at {self._address} does not offer that request")
        return version

    def _learn_versions(self) -> None:
        answer = self._exchange(self._codec.build(self._codec.API_VERSIONS, 0, {}))
        self._versions = {
            api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys
        }

    def _log_in(self) -> None:
        """Say who we are.

        Raises:
            Failure: the broker does not believe it, or does not know the mechanism.
        """
        mechanism, messages = conversation(self._connection.properties)
        shaken = self._exchange(self._codec.build(_SASL_HANDSHAKE, 1, {"mechanism": mechanism}))
        if shaken.error_code:
            raise Failure(
                f"the broker at {self._address} does not take SASL {mechanism}",
                fix=f"set sasl.mechanism to one of {', '.join(shaken.mechanisms)}"
                if shaken.mechanisms
                else "set security.protocol to PLAINTEXT or SSL: this listener is without SASL",
            )
        message = next(messages)
        while True:
            answer = self.ask(_SASL_AUTHENTICATE, auth_bytes=message)
            if answer.error_code:
                said = answer.error_message or "authentication failed"
                raise Failure(f"{self._address} lets nobody in like this: {said}", fix=CHECK_LOGIN)
            try:
                message = messages.send(answer.auth_bytes)
            except StopIteration:
                return

    def _exchange(self, request: Any) -> Any:
        self._correlation_id += 1
        try:
            self._socket.sendall(self._codec.encode(request, self._correlation_id))
            size = int.from_bytes(self._receive(4), signed=True)
            if not 4 <= size <= _MAX_RESPONSE_BYTES:
                raise Failure(f"{self._address} does not speak Kafka's protocol")
            return self._codec.decode(request, self._receive(size))
        except OSError as error:
            raise BrokerUnreachable(
                self._address, waited_s=REQUEST_TIMEOUT_S, reason=reason_of(error)
            ) from error

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionResetError(0, "the broker closed the connection")
            received += part
        return bytes(received)


def refused(subject: str, code: int, message: str | None, *, needs: str = "") -> Failure:
    """Return the failure for an error code that a broker gave about `subject`, as `refusal`."""
    error = KafkaError(code, message) if message else KafkaError(code)
    return refusal(subject, error, needs=needs)


def _tls(connection: Connection) -> ssl.SSLContext | None:
    """Return how to wrap the socket, from librdkafka's properties; None for PLAINTEXT."""
    protocol, properties = connection.protocol, connection.properties
    if protocol in ("plaintext", "sasl_plaintext"):
        return None
    if protocol not in ("ssl", "sasl_ssl"):
        raise UsageError(f"security.protocol={protocol.upper()} is none of Kafka's")
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        if certificate := properties.get("ssl.certificate.location"):
            key, password = (properties.get(f"ssl.key.{one}") for one in ("location", "password"))
            context.load_cert_chain(certificate, key, password)
    except OSError as error:
        raise Failure(f"TLS: {error}", fix="check ssl.… in -X and --config") from error
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    return context
