"""What stops a command, said so that the reader knows what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from confluent_kafka import KafkaError, KafkaException

# By name: librdkafka's own conditions start with an underscore, brokers' answers do not.
UNREACHABLE: Final = frozenset({"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
PERMANENT: Final = frozenset(
    {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
)
_DENIED: Final = "_AUTHORIZATION_FAILED"
_ALLOWED_BY: Final = "an administrator can allow it: streamctl acl add --user USER --operation"
_ASK: Final = "ask an administrator; SECURITY.md lists what each request needs"
HINTS: Final = {
    "UNKNOWN_TOPIC_OR_PART": "streamctl topic list shows those there are",
    "TOPIC_ALREADY_EXISTS": "streamctl topic alter NAME changes it; --if-not-exists keeps it",
    "INVALID_PARTITIONS": "a topic's partition count can only grow",
    "INVALID_REPLICATION_FACTOR": "leave --replication-factor out to take the broker's default",
    "INVALID_CONFIG": "streamctl config describe KIND NAME --all lists names and values",
    "POLICY_VIOLATION": "the broker's policy forbids this; ask who runs it",
    "MSG_SIZE_TOO_LARGE": "streamctl topic alter NAME --set max.message.bytes=N allows larger ones",
    "KAFKA_STORAGE_ERROR": (
        "the object store does not answer, or has lost an object: streamctl fsck names it"
    ),
    "SECURITY_DISABLED": "this cluster checks no permissions, so it keeps no ACLs",
    "UNSUPPORTED_VERSION": "this broker does not offer that request",
}


CHECK_LOGIN: Final = "check security.protocol, sasl.… and ssl.… in -X and --config"
_NOT_LET_IN: Final = ("SASL authentication error: ", "mechanism handshake failed: Broker: ")
"""How librdkafka begins to tell what a broker has said of a login."""
_NOT_TRUSTED: Final = "certificate verify failed"
_HTTP: Final = f"Invalid response size {int.from_bytes(b'HTTP')} "
_UNKNOWN_REASONS: Final = ("", "the broker closed the connection")


class Failure(Exception):
    """A command cannot do what it was asked; shown without a traceback.

    Attributes:
        fix: what the reader can do about it; empty when there is nothing to say.
        exit_code: 1; 2 for a command line that could never work.
    """

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class UsageError(Failure):
    """The options given do not go together."""

    exit_code = 2


class BrokerUnreachable(Failure):
    """No broker answered in time, or a connection can never come about."""

    def __init__(self, bootstrap: str, *, waited_s: float, reason: str) -> None:
        said, fix = _not_let_in(reason) or _not_trusted(reason) or _not_kafka(reason) or ("", "")
        if said:
            super().__init__(f"{bootstrap} {said}", fix=fix)
            return
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"no broker answered at {bootstrap} within {waited_s:g} s{because}",
            fix=_fix_of_silence(reason),
        )


def _not_let_in(reason: str) -> tuple[str, str] | None:
    for words in _NOT_LET_IN:
        _, refused, said = reason.partition(words)
        if refused:
            return f"lets nobody in like this: {said}", CHECK_LOGIN
    return None


def _not_trusted(reason: str) -> tuple[str, str] | None:
    if _NOT_TRUSTED not in reason:
        return None
    return (
        "has a certificate that is not trusted, or not for that host",
        "ssl.ca.location has to name who signed it, --bootstrap a host that it is for",
    )


def _not_kafka(reason: str) -> tuple[str, str] | None:
    if _HTTP not in reason:
        return None
    return (
        "speaks HTTP, not Kafka's protocol",
        "name the address that a broker prints as bootstrap=… once it serves",
    )


def _fix_of_silence(reason: str) -> str:
    if "SASL" in reason or "SSL" in reason:  # also "connecting to a SSL listener?"
        return CHECK_LOGIN
    another = "name another: streamctl --bootstrap HOST:PORT …"
    if reason in _UNKNOWN_REASONS:  # as of a broker that waits for TLS, or for a login
        return f"does it want TLS or a login? {CHECK_LOGIN}; or {another}"
    return f"start one with `make run`, or {another}"


class UnknownTopic(Failure):
    """The cluster has no topic of that name."""

    def __init__(self, name: str, existing: Iterable[str]) -> None:
        near = get_close_matches(name, existing, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        super().__init__(
            f"topic {name!r} does not exist",
            fix=f"{meant}see which do: streamctl topic list",
        )


def reason_of(error: Exception) -> str:
    """Return why nobody could be reached, in the system's words."""
    if isinstance(error, UnicodeError):  # of IDNA, which python's sockets encode hosts with
        return "no host can have that name"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def kafka_error(exception: KafkaException) -> KafkaError:
    """Return the error that librdkafka put into its exception."""
    error = exception.args[0]
    assert isinstance(error, KafkaError)
    return error


def refusal(subject: str, error: KafkaError, *, needs: str = "") -> Failure:
    """Return the failure for an answer that a broker gave about `subject`.

    Args:
        subject: what was asked about, e.g. "topic 'orders'".
        error: the answer.
        needs: what an ACL would have to allow, e.g. "alter --topic orders".
    """
    said = error.str().removeprefix("Broker: ").removesuffix(".")
    if subject.lower() not in said.lower():  # some brokers' texts name it, some do not
        said = f"{subject}: {said}"
    name = error.name()
    fix = _allowing(name, needs) if name.endswith(_DENIED) else HINTS.get(name, "")
    return Failure(f"{said} ({name.lstrip('_')})", fix=fix)


def refused_with(failure: Failure, code: int) -> bool:
    """Return whether a failure comes of this answer of a broker."""
    cause = failure.__cause__
    return (
        cause is not None
        and bool(cause.args)
        and isinstance(cause.args[0], KafkaError)
        and cause.args[0].code() == code
    )


def _allowing(name: str, needs: str) -> str:
    """Return what would allow it; a request may also be denied for another resource's sake."""
    resource = name.removesuffix(_DENIED).lower().replace("_", "-")
    return f"{_ALLOWED_BY} {needs}" if f"--{resource}" in needs.split() else _ASK
