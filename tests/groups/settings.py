"""How one member of a group is to behave, and the same in the words of each client library.

The member programs get it as one JSON argument, so this module imports no client.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Protocol = Literal["classic", "consumer"]
Reset = Literal["earliest", "latest", "none"]

JAVA_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One member.

    Attributes:
        name: its client id, and its name in events.
        protocol: group.protocol; "consumer" is KIP-848.
        assignor: of the client with the classic protocol, of the broker with KIP-848; several
            are separated by commas.
        instance: group.instance.id; empty for a dynamic member.
        reset: auto.offset.reset.
        auto_commit: the client commits by itself; else the member does, synchronously, also when
            partitions are taken from it.
        commit_ms: how often, either way.
        session_ms, heartbeat_ms: of a classic member; with KIP-848 the broker says. A session
            is long: on a machine that stalls, a member would be taken for dead that is not.
        assigned: partitions to read without joining the group; empty joins it.
        metadata: goes with every offset that the member commits by itself.
        copy_to: the topic to which every record is sent, with SOURCE, before its offset is
            committed; empty for none.
    """

    name: str
    bootstrap: str
    topic: str
    group: str
    protocol: Protocol = "classic"
    assignor: str = "range"
    instance: str = ""
    reset: Reset = "earliest"
    auto_commit: bool = False
    commit_ms: int = 100
    session_ms: int = 45_000
    heartbeat_ms: int = 300
    assigned: tuple[int, ...] = ()
    metadata: str = ""
    copy_to: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        fields = json.loads(text)
        return cls(**{**fields, "assigned": tuple(fields["assigned"])})


def librdkafka_properties(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a librdkafka consumer."""
    return _common(settings) | {
        # librdkafka's word for "none"
        "auto.offset.reset": "error" if settings.reset == "none" else settings.reset,
        "enable.auto.commit": settings.auto_commit,
        "fetch.wait.max.ms": 100,
        # a coordinator that comes back is found at once
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 50,
    }


def java_properties(settings: Settings) -> dict[str, str]:
    """Return the configuration of a Java consumer."""
    properties = _common(settings) | {
        "auto.offset.reset": settings.reset,
        "enable.auto.commit": str(settings.auto_commit).lower(),
        "fetch.max.wait.ms": 100,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        # else (KIP-1102) a leader that cannot reach its only broker forgets all topics, takes that
        # for a change of its topics when the broker is back, and asks for a rebalance
        "metadata.recovery.strategy": "none",
        "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    if settings.protocol == "classic":
        names = settings.assignor.split(",")
        classes = ",".join(JAVA_ASSIGNORS[name] for name in names)
        properties["partition.assignment.strategy"] = classes
    return {name: str(value) for name, value in properties.items()}


def _common(settings: Settings) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.name,
        "group.id": settings.group,
        "group.protocol": settings.protocol,
        "auto.commit.interval.ms": settings.commit_ms,
    }
    if settings.instance:
        properties["group.instance.id"] = settings.instance
    return properties | _protocol_properties(settings)


def _protocol_properties(settings: Settings) -> dict[str, Any]:
    if settings.protocol == "consumer":
        return {"group.remote.assignor": settings.assignor}
    return {
        "partition.assignment.strategy": settings.assignor,
        "session.timeout.ms": settings.session_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
    }
