"""What a call of a stock tool is, and the tools by the names of their scripts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TIMEOUT_S: Final = 90.0
HASTY: Final = "default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n"
"""Client properties for calls that wait for what will never be."""
_TOOLS: Final = "org.apache.kafka.tools"
MAIN_CLASSES: Final = {
    "acls": f"{_TOOLS}.AclCommand",
    "broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "cluster": f"{_TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{_TOOLS}.ConsoleProducer",
    "consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "features": f"{_TOOLS}.FeatureCommand",
    "get-offsets": f"{_TOOLS}.GetOffsetShell",
    "groups": f"{_TOOLS}.GroupsCommand",
    "leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{_TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "open-transaction": "OpenTransaction",  # none of the tools leaves one
    "producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "streams-application-reset": f"{_TOOLS}.StreamsResetter",
    "topics": f"{_TOOLS}.TopicCommand",
    "transactional-message-copier": f"{_TOOLS}.TransactionalMessageCopier",
    "transactions": f"{_TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
BOOTSTRAP_FLAGS: Final = {
    "replica-verification": "--broker-list",
    "transactional-message-copier": "--broker-list",
}
BOOTSTRAP_LAST: Final = frozenset({"cluster"})
"""Tools whose first word must be a subcommand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool.

    `$run` stands everywhere for a word that no other run has, `$bootstrap` for the broker's
    HOST:PORT, `$files` for a directory with `files`, and every name that an earlier call has saved
    for its value.

    Attributes:
        name: of this call alone.
        tool: of the script, without kafka- and .sh.
        arguments: as in a shell, without the flag that names the broker.
        shows: a regular expression for what Apache Kafka's tool must print there: without it, two
            tools that refuse a badly made call would be found to agree.
        code: exit code that Apache Kafka's tool must have there.
        stdin: its standard input.
        files: text by name.
        numbers_hidden: its numbers are measurements.
        order_hidden: its lines come in no certain order.
        lines_hidden: what it prints depends on when; only the exit code is compared.
        saves: names groups of what its standard output holds, for later calls.
        ready: the call goes on until another one stops it, once it has printed this.
        stops: the name of a call; this one ends it, and prints what that one has printed.
        repeats: it is made again until it prints that: brokers follow changes of configs in their
            own time, Apache Kafka as well.
        given: other calls of its chapter need what this one does, so that it runs with them.
    """

    name: str
    tool: str = ""
    arguments: str = ""
    shows: str
    code: int | None = 0
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    numbers_hidden: bool = False
    order_hidden: bool = False
    lines_hidden: bool = False
    saves: str = ""
    ready: str = ""
    stops: str = ""
    repeats: bool = False
    given: bool = False
    timeout_s: float = TIMEOUT_S


def calls_of(tool: str, *, names: str = "", entity: str = "") -> Callable[..., Call]:
    """Return what makes calls of one tool: (name, arguments, shows), and what else a call has.

    Args:
        tool: of the script, without kafka- and .sh.
        names: what all names begin with.
        entity: what all arguments begin with.
    """

    def call(name: str, arguments: str, shows: str, **more: Any) -> Call:
        return Call(
            name=f"{names}{name}",
            tool=tool,
            arguments=f"{entity} {arguments}".strip(),
            shows=shows,
            **more,
        )

    return call
