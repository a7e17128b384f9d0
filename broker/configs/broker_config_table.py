"""The table of broker configs: what `--set name=value` takes, by Apache Kafka's names.

A row stands here only if it takes effect or is the default of a topic config. The defaults are
Apache Kafka's, except for the limits that keep one client from taking all memory or connections.
Those that Spark's jobs read, too, stand in storage/configs/cluster_config_table.py.
Which of them can be set while the broker runs (KIP-226) is as in Apache Kafka 4.3: those of its
update mode cluster-wide, for the whole cluster or, but for CLUSTER_ONLY, for one broker. Nothing
here has its mode per-broker (TLS stores, listeners).
"""

from typing import Final
from urllib.parse import urlsplit

from broker.configs.config_docs import BROKER_DOCS
from broker.security.principal_mapping import mapping_problem
from broker.security.security_config import principals
from coordinator.assignors import ASSIGNORS
from protocol.acl import USER_TYPE
from storage.configs.cluster_config_table import CLUSTER_CONFIGS, BrokerConfigKey
from storage.configs.config_types import (
    Check,
    ConfigType,
    ConfigValue,
    OneOf,
    Range,
)

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST
_POSITIVE, _NOT_NEGATIVE = Range(1), Range(0)
_HOUR_MS: Final = 3_600_000

_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_TLS: Final = ("TLSv1.2", "TLSv1.3")

REFUSE: Final = "refuse"
ACCEPT: Final = "accept"
_ON_FAILURE = OneOf((REFUSE, ACCEPT))
_NO_URL = "must be URLs such as http://localhost:8081"

ORDERED: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
)
"""Pairs of configs of which the first must not be more than the second."""


def _an_assignor(value: ConfigValue) -> str | None:
    """Check group.consumer.assignors: each of them one that we have, and one at least."""
    return OneOf(tuple(ASSIGNORS))(value) if value else "must name one at least"


def _http_urls(value: ConfigValue) -> str | None:
    """Check confluent.schema.registry.url: tools are shown it, so it holds no password."""
    assert isinstance(value, tuple)
    for text in value:
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            return _NO_URL
        if url.scheme not in ("http", "https") or not url.hostname or port == 0:
            return _NO_URL
        if url.query or url.fragment:  # a path is put behind it
            return _NO_URL
        if "@" in url.netloc:
            return "must not hold a password: use STREAMHOUSE_SCHEMA_REGISTRY__USER and __PASSWORD"
    return None


def _keys_url(value: ConfigValue) -> str | None:
    """Check sasl.oauthbearer.jwks.endpoint.url: who could change the keys could be anybody."""
    url = urlsplit(str(value))
    if "@" in url.netloc:
        return "must not hold a password: tools are shown it"
    if (url.scheme == "https" and url.hostname) or (url.scheme == "file" and url.path):
        return None
    return "must be an https:// URL, or file:///PATH"


def _mapping_rules(value: ConfigValue) -> str | None:
    """Check ssl.principal.mapping.rules."""
    return mapping_problem(str(value))


def _semicolons(value: ConfigValue) -> str | None:
    """Check super.users: each a type and a name."""
    for principal in principals(str(value)):
        kind, separator, name = principal.partition(":")
        if kind != USER_TYPE or not separator or not name:
            return "must be principals such as User:admin, separated by semicolons"
    return None


def _key(
    kind: ConfigType,
    name: str,
    default: ConfigValue | None,
    check: Check | None = None,
) -> BrokerConfigKey:
    return BrokerConfigKey(
        name=name,
        type=kind,
        default=default,
        doc=BROKER_DOCS[name],
        check=check,
        dynamic=False,
    )


_KEYS = (
    _key(_BOOLEAN, "allow.everyone.if.no.acl.found", False),
    _key(_STRING, "authorizer.class.name", "", OneOf(("", _AUTHORIZER))),
    _key(_INT, "connection.failed.authentication.delay.ms", 100, _NOT_NEGATIVE),
    _key(_LONG, "connections.max.reauth.ms", 0, _NOT_NEGATIVE),
    _key(_LIST, "sasl.enabled.mechanisms", _SCRAM, OneOf((*_SCRAM, "PLAIN", "OAUTHBEARER"))),
    _key(_INT, "sasl.oauthbearer.clock.skew.seconds", 30, _NOT_NEGATIVE),
    _key(_LIST, "sasl.oauthbearer.expected.audience", ()),
    _key(_STRING, "sasl.oauthbearer.expected.issuer", None),
    _key(_LONG, "sasl.oauthbearer.jwks.endpoint.refresh.ms", _HOUR_MS, Range(1000)),
    _key(_STRING, "sasl.oauthbearer.jwks.endpoint.url", None, _keys_url),
    _key(_STRING, "sasl.oauthbearer.scope.claim.name", "scope"),
    _key(_STRING, "sasl.oauthbearer.sub.claim.name", "sub"),
    _key(_INT, "sasl.server.max.receive.size", 65_536, Range(1024)),
    _key(_LIST, "ssl.cipher.suites", ()),
    _key(_STRING, "ssl.client.auth", "none", OneOf(("none", "requested", "required"))),
    _key(_LIST, "ssl.enabled.protocols", _TLS, OneOf(_TLS)),
    _key(_STRING, "ssl.keystore.location", None),
    _key(_STRING, "ssl.keystore.type", "PEM", OneOf(("PEM",))),
    _key(_STRING, "ssl.principal.mapping.rules", "DEFAULT", _mapping_rules),
    _key(_STRING, "ssl.truststore.location", None),
    _key(_STRING, "ssl.truststore.type", "PEM", OneOf(("PEM",))),
    _key(_STRING, "super.users", None, _semicolons),
    _key(_BOOLEAN, "auto.create.topics.enable", True),
    _key(_STRING, "broker.rack", None),
    _key(_INT, "confluent.missing.id.cache.ttl.sec", 5, _NOT_NEGATIVE),
    _key(_INT, "confluent.schema.registry.max.cache.size", 10_000, _POSITIVE),
    _key(_INT, "confluent.schema.registry.request.timeout.ms", 3000, _POSITIVE),
    _key(_LIST, "confluent.schema.registry.url", (), _http_urls),
    _key(_STRING, "confluent.schema.validation.on.registry.failure", REFUSE, _ON_FAILURE),
    _key(_LONG, "connections.max.idle.ms", 600_000, Range(1, also=-1)),
    _key(_INT, "controller.quota.window.num", 11, _POSITIVE),
    _key(_INT, "controller.quota.window.size.seconds", 1, _POSITIVE),
    _key(_INT, "default.replication.factor", 1, Range(1, 2**15 - 1)),
    _key(_BOOLEAN, "delete.topic.enable", True),
    _key(_INT, "fetch.max.bytes", 57_671_680, Range(1024)),
    _key(_LIST, "group.consumer.assignors", ("uniform", "range"), _an_assignor),
    _key(_INT, "group.consumer.heartbeat.interval.ms", 5000, _POSITIVE),
    _key(_INT, "group.consumer.max.heartbeat.interval.ms", 15_000, _POSITIVE),
    _key(_INT, "group.consumer.max.session.timeout.ms", 60_000, _POSITIVE),
    _key(_INT, "group.consumer.max.size", 1000, _POSITIVE),
    _key(_INT, "group.consumer.min.heartbeat.interval.ms", 5000, _POSITIVE),
    _key(_INT, "group.consumer.min.session.timeout.ms", 45_000, _POSITIVE),
    _key(_INT, "group.consumer.session.timeout.ms", 45_000, _POSITIVE),
    _key(_INT, "group.initial.rebalance.delay.ms", 3000, _NOT_NEGATIVE),
    _key(_INT, "group.max.session.timeout.ms", 1_800_000, _POSITIVE),
    _key(_INT, "group.max.size", 1000, _POSITIVE),
    _key(_INT, "group.min.session.timeout.ms", 6000, _POSITIVE),
    _key(_BOOLEAN, "log.cleaner.enable", True),
    _key(_LONG, "log.retention.check.interval.ms", 300_000, _POSITIVE),
    _key(_INT, "max.request.partition.size.limit", 2000, _POSITIVE),
    _key(_INT, "num.partitions", 1, _POSITIVE),
    _key(_INT, "offset.metadata.max.bytes", 4096, _NOT_NEGATIVE),
    _key(_LONG, "offsets.retention.check.interval.ms", 600_000, _POSITIVE),
    _key(_INT, "offsets.retention.minutes", 10_080, _POSITIVE),
    _key(_LONG, "queued.max.request.bytes", 256 * 2**20, Range(1, also=-1)),
    _key(_INT, "quota.window.num", 11, _POSITIVE),
    _key(_INT, "quota.window.size.seconds", 1, _POSITIVE),
    _key(_INT, "socket.listen.backlog.size", 1024, _POSITIVE),
    _key(_INT, "socket.request.max.bytes", 104_857_600, _POSITIVE),
    _key(_INT, "telemetry.max.bytes", 1_048_576, _POSITIVE),
    _key(_INT, "transaction.max.timeout.ms", 900_000, _POSITIVE),
    _key(_INT, "transactional.id.expiration.ms", 604_800_000, _POSITIVE),
)

BROKER_CONFIGS: Final = {
    key.name: key for key in sorted((*_KEYS, *CLUSTER_CONFIGS.values()), key=lambda key: key.name)
}
"""All broker configs that can be set, by name, in the order of their names."""

NODE_FACTS: Final = {
    key.name: key
    for key in (
        _key(_LIST, "advertised.listeners", None),
        _key(_INT, "broker.id", None),
        _key(_LIST, "listeners", None),
        _key(_LIST, "log.dirs", None),
        _key(_INT, "node.id", None),
    )
}
"""Configs that tools read, and that follow from the broker's place in its cluster."""

FLAGS: Final = {
    "advertised.listeners": "--advertise",
    "listeners": "--listen",
    "log.dir": "--data",
    "log.dirs": "--data",
}
"""Settings of Kafka's that the command line has a flag of its own for."""
