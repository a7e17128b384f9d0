"""Options of Spark's own format("kafka"): the connector is used as it is, only spelt once."""

import json
from collections.abc import Mapping
from typing import Final

from spark.sources.cut import Cut

_JAAS: Final = "org.apache.kafka.common.security"
_LOGIN_MODULES: Final = {
    "PLAIN": f"{_JAAS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAAS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAAS}.scram.ScramLoginModule",
}


def client_options(bootstrap: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return options for reads and writes alike.

    Args:
        bootstrap: HOST:PORT of brokers, separated by commas.
        properties: of Kafka's Java client, as its own documentation calls them.
    """
    prefixed = {f"kafka.{name}": value for name, value in properties.items()}
    return {**prefixed, "kafka.bootstrap.servers": bootstrap}


def login_properties(
    user: str, password: str, *, mechanism: str = "SCRAM-SHA-512", truststore: str | None = None
) -> dict[str, str]:
    """Return properties of a client that logs in over TLS; Spark keeps them out of its plans.

    Args:
        user: name.
        password: of the user.
        mechanism: of SASL, one with a password.
        truststore: file of PEM certificates; by default Java's own authorities are trusted.

    Raises:
        ValueError: no such mechanism.
    """
    if mechanism not in _LOGIN_MODULES:
        raise ValueError(f"SASL mechanism {mechanism}: choose one of {', '.join(_LOGIN_MODULES)}")
    login = f"username={_quoted(user)} password={_quoted(password)}"
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required {login};",
    }
    if truststore is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": truststore}
    return properties


def cut_options(cut: Cut) -> dict[str, str]:
    """Return options that read a cut and nothing else, through brokers; for batches only."""
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each, offsets in sorted(cut.items()):
        partitions.setdefault(each.topic, []).append(each.partition)
        starts.setdefault(each.topic, {})[str(each.partition)] = offsets.start
        ends.setdefault(each.topic, {})[str(each.partition)] = offsets.end
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
