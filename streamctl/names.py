"""Arguments and options that name topics and groups, and what the Tab key offers for them.

The cluster is asked while the shell waits, so briefly; a shell has no place for an error, so a
cluster that does not answer offers nothing.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Final

import typer
from confluent_kafka import KafkaException

from streamctl.connection import Connection, Trouble, admin_client
from streamctl.connection_options import Given
from streamctl.errors import Failure, UsageError
from streamctl.topic_settings import check_topic_name

WAIT_S: Final = 2.0

Complete = Callable[[typer.Context, str], list[str]]


def _completion(names: Callable[[Connection], Iterable[str]]) -> Complete:
    """Return a completion that offers those of `names` that begin with what is typed so far."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            before, behind = (
                Given.read(
                    bootstrap=params.get("bootstrap"),
                    properties=params.get("properties"),
                    config=params.get("config"),
                )
                for params in (ctx.find_root().params, ctx.params)
            )
            connection = before.then(behind).connection()
            connection.check()
            return sorted(name for name in names(connection) if name.startswith(incomplete))
        except (Failure, KafkaException):
            return []

    return complete


def _topics(connection: Connection) -> Iterable[str]:
    return admin_client(connection, Trouble()).list_topics(timeout=WAIT_S).topics


def _groups(connection: Connection) -> Iterable[str]:
    asked = admin_client(connection, Trouble()).list_consumer_groups(request_timeout=WAIT_S)
    return [group.group_id for group in asked.result(timeout=WAIT_S).valid]


complete_topics: Final = _completion(_topics)
complete_groups: Final = _completion(_groups)

NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="NAME", autocompletion=complete_topics, help="The topic. Repeatable."
    ),
]
NameArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", show_default=False, autocompletion=complete_topics, help="The topics."
    ),
]
GroupArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME", show_default=False, autocompletion=complete_groups, help="The groups."
    ),
]


def topic_names(arguments: list[str] | None, options: list[str] | None) -> list[str]:
    """Return the topics named with and without --name, each once, in order.

    Raises:
        UsageError: none was named, or one has a name that Kafka does not allow.
    """
    names = list(dict.fromkeys([*(arguments or ()), *(options or ())]))
    if not names:
        raise UsageError("no topic named", fix="name it: NAME or --name NAME")
    for name in names:
        check_topic_name(name)
    return names


def check_group_names(names: Iterable[str]) -> None:
    """Raise UsageError if one is empty, which Kafka allows no group."""
    if "" in names:
        raise UsageError("a group has a name", fix="streamctl group list shows all")
