"""Consumer groups, classic and of KIP-848: listed, described, reset, deleted; empty and in use."""

from typing import Final

from tests.oracle import calls_resets
from tests.oracle.calls import Call, calls_of

_console_consumer: Final = calls_of("console-consumer")
_console_producer: Final = calls_of("console-producer")
_consumer_groups: Final = calls_of("consumer-groups")
_groups: Final = calls_of("groups")
_topics: Final = calls_of("topics")
_verifiable_consumer: Final = calls_of("verifiable-consumer")

_READ: Final = "--topic $run-grouped --from-beginning --max-messages 12 --timeout-ms 60000"
_RESET: Final = "--reset-offsets --topic $run-grouped --group"


_GIVEN: Final = (
    _topics(
        "groups-topic", "--create --topic $run-grouped --partitions 2", "Created topic", given=True
    ),
    _console_producer(
        "groups-records",
        "--topic $run-grouped --reader-property parse.key=true --reader-property key.separator=:",
        "exit code 0",
        stdin="".join(f"k{number}:v{number}\n" for number in range(12)),
        given=True,
    ),
    _console_consumer(
        "groups-read-classic",
        f"{_READ} --group $run-classic",
        "Processed a total of 12 messages",
        order_hidden=True,
        given=True,
    ),
    _console_consumer(
        "groups-read-consumer",
        f"{_READ} --group $run-consumer --command-property group.protocol=consumer",
        "Processed a total of 12 messages",
        order_hidden=True,
        given=True,
    ),
)
_EMPTY: Final = (
    _groups("groups-list", "--list", "^RUN-consumer Consumer consumer$", order_hidden=True),
    _groups(
        "groups-list-consumer",
        "--list --consumer",
        "^RUN-classic Classic consumer$",
        order_hidden=True,
    ),
    _groups(
        "groups-list-by-type",
        "--list --group-type classic",
        "^RUN-classic Classic consumer$",
        order_hidden=True,
    ),
    _groups(
        "groups-list-by-protocol",
        "--list --protocol consumer",
        "^RUN-consumer Consumer consumer$",
        order_hidden=True,
    ),
    _groups("groups-list-share", "--list --share", "exit code 0"),
    _consumer_groups("consumer-groups-list", "--list", "^RUN-classic$", order_hidden=True),
    _consumer_groups(
        "consumer-groups-list-states", "--list --state", "^RUN-classic Empty$", order_hidden=True
    ),
    _consumer_groups(
        "consumer-groups-list-types", "--list --type", "^RUN-consumer Consumer$", order_hidden=True
    ),
    _consumer_groups("consumer-groups-list-stable", "--list --state stable", "exit code 0"),
    _consumer_groups(
        "consumer-groups-list-bad-state", "--list --state asleep", "Invalid state", code=1
    ),
    _consumer_groups("consumer-groups-list-bad-type", "--list --type odd", "Invalid type", code=1),
    _consumer_groups(
        "consumer-groups-describe",
        "--describe --group $run-classic",
        "^RUN-classic RUN-grouped 0 ",
    ),
    _consumer_groups(
        "consumer-groups-describe-consumer",
        "--describe --group $run-consumer --verbose",
        "^RUN-consumer RUN-grouped 0 ",
    ),
    _consumer_groups(
        "consumer-groups-describe-members",
        "--describe --group $run-classic --members",
        "has no active members",
    ),
    _consumer_groups(
        "consumer-groups-describe-state",
        "--describe --group $run-classic --state",
        "Empty 0$",
    ),
    _consumer_groups(
        "consumer-groups-describe-state-consumer",
        "--describe --group $run-consumer --state --verbose",
        "Empty",
    ),
    _consumer_groups(
        "consumer-groups-describe-unknown", "--describe --group $run-no", "GroupIdNotFoundException"
    ),
    _consumer_groups(
        "consumer-groups-describe-unknown-state",
        "--describe --group $run-no --state",
        "GroupIdNotFoundException",
    ),
    _consumer_groups(
        "consumer-groups-describe-unknown-members",
        "--describe --group $run-no --members",
        "GroupIdNotFoundException",
    ),
)
_IN_USE: Final = (
    _verifiable_consumer(
        "groups-in-use-classic",
        "--topic $run-grouped --group-id $run-classic --session-timeout 30000",
        "partitions_assigned",
        ready="partitions_assigned",
        code=None,
        lines_hidden=True,
        given=True,
    ),
    _verifiable_consumer(
        "groups-in-use-consumer",
        "--topic $run-grouped --group-id $run-consumer --group-protocol consumer",
        "partitions_assigned",
        ready='partitions_assigned.*"partition":1',
        code=None,
        lines_hidden=True,
        given=True,
    ),
    _consumer_groups(
        "groups-in-use-list", "--list --state stable", "^RUN-classic Stable$", order_hidden=True
    ),
    _consumer_groups(
        "groups-in-use-describe-members",
        "--describe --group $run-classic --members --verbose",
        "^RUN-classic consumer-RUN-classic",
    ),
    _consumer_groups(
        "groups-in-use-describe-members-consumer",
        "--describe --group $run-consumer --members --verbose",
        "^RUN-consumer ID ",
    ),
    _consumer_groups(
        "groups-in-use-describe-state", "--describe --group $run-classic --state", "Stable 1$"
    ),
    _consumer_groups(
        "groups-in-use-describe-state-consumer",
        "--describe --group $run-consumer --state --verbose",
        "Stable",
    ),
    _consumer_groups(
        "groups-in-use-describe",
        "--describe --group $run-classic --offsets --verbose",
        "^RUN-classic RUN-grouped 0 ",
    ),
    _consumer_groups(
        "groups-in-use-describe-consumer",
        "--describe --group $run-consumer --offsets --verbose",
        "^RUN-consumer RUN-grouped 0 ",
    ),
    _consumer_groups(
        "groups-in-use-delete", "--delete --group $run-classic", "GroupNotEmptyException"
    ),
    _consumer_groups(
        "groups-in-use-delete-consumer",
        "--delete --group $run-consumer",
        "GroupNotEmptyException",
    ),
    _consumer_groups(
        "groups-in-use-reset", f"{_RESET} $run-classic --to-earliest --execute", "inactive"
    ),
    _consumer_groups(
        "groups-in-use-delete-offsets",
        "--delete-offsets --group $run-classic --topic $run-grouped",
        "GroupSubscribedToTopicException",
    ),
    Call(
        name="groups-in-use-classic-stopped",
        stops="groups-in-use-classic",
        shows="shutdown_complete",
        code=None,
        lines_hidden=True,
        given=True,
    ),
    Call(
        name="groups-in-use-consumer-stopped",
        stops="groups-in-use-consumer",
        shows="shutdown_complete",
        code=None,
        lines_hidden=True,
        given=True,
    ),
)
_DELETED: Final = (
    _consumer_groups(
        "delete-offsets-of-one-partition",
        "--delete-offsets --group $run-classic --topic $run-grouped:0",
        "Successful",
    ),
    _consumer_groups(
        "delete-offsets-of-unknown-partition",
        "--delete-offsets --group $run-classic --topic $run-grouped:9",
        "UnknownTopicOrPartition",
    ),
    _consumer_groups(
        "delete-offsets-of-topic",
        "--delete-offsets --group $run-classic --topic $run-grouped",
        "Successful",
    ),
    _consumer_groups(
        "delete-offsets-of-consumer-group",
        "--delete-offsets --group $run-consumer --topic $run-grouped",
        "Successful",
    ),
    _consumer_groups(
        "delete-offsets-of-unknown-topic",
        "--delete-offsets --group $run-classic --topic $run-no",
        "UnknownTopicOrPartition",
    ),
    _consumer_groups(
        "delete-offsets-of-unknown-group",
        "--delete-offsets --group $run-no --topic $run-grouped",
        "GroupIdNotFoundException",
    ),
    _consumer_groups("consumer-groups-delete", "--delete --group $run-classic", "successful"),
    _consumer_groups(
        "consumer-groups-delete-several",
        "--delete --group $run-consumer --group $run-no",
        "could not be deleted",
    ),
    _consumer_groups(
        "consumer-groups-delete-unknown", "--delete --group $run-no", "GroupIdNotFound"
    ),
)
CALLS: Final = (*_GIVEN, *_EMPTY, *calls_resets.CALLS, *_IN_USE, *_DELETED)
