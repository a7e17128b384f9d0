"""streamctl topic alter: settings of topics changed, and partitions added."""

from typing import Annotated

import typer

from streamctl.cluster import Cluster
from streamctl.cluster_state import TopicState
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.names import NameArguments, NameOption, topic_names
from streamctl.options import (
    CleanupOption,
    CompressionOption,
    RetentionBytesOption,
    RetentionOption,
    SetOption,
    connected,
)
from streamctl.output import counted, note, print_done
from streamctl.topic_settings import summary, topic_settings


@connected
def alter(
    connection: Connection,
    *,
    names: NameArguments = None,
    name: NameOption = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", help="New total; it can only grow.")
    ] = None,
    retention: RetentionOption = None,
    retention_bytes: RetentionBytesOption = None,
    compression: CompressionOption = None,
    cleanup_policy: CleanupOption = None,
    setting: SetOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Back to the broker's default. Repeatable."),
    ] = None,
) -> None:
    r"""Change the settings of topics, or give them more partitions.

    Adding partitions moves keys: new messages of a key may go to another partition than
    its old ones.

    Examples:
      streamctl topic alter user-events --retention 7d
      streamctl topic alter user-events --partitions 12
      streamctl topic alter user-events --set max.message.bytes=2097152 \
          --unset retention.ms
    """
    wanted = topic_names(names, name)
    changes: dict[str, str | None] = dict(
        topic_settings(
            retention_ms=retention,
            retention_bytes=retention_bytes,
            compression=compression,
            cleanup_policy=cleanup_policy,
            assignments=setting or (),
        )
    )
    for removed in unset or ():
        if removed in changes:
            raise UsageError(f"{removed} is both set and unset")
        changes[removed] = None
    if not changes and partitions is None:
        raise UsageError("nothing to change", fix="say what: --retention 7d, --partitions 12, …")
    cluster = Cluster(connection)
    cluster.identity()
    topics = cluster.topics(wanted, operation="describe" if partitions is None else "alter")
    growing = [topic for topic in topics if _grows(topic, partitions, alone=not changes)]
    for topic in topics:
        if changes:  # first: one that is refused is corrected, but no partition can be taken away
            cluster.alter_topic(topic.name, changes)
            print_done(f"altered topic {topic.name}{summary(None, changes)}")
        if partitions is not None and topic in growing:
            cluster.add_partitions(topic.name, total=partitions)
            print_done(f"altered topic {topic.name}{summary(partitions, {})}")
    if unset and topics:
        _note_unknown(cluster, topics[0].name, unset)


def _grows(topic: TopicState, wanted: int | None, *, alone: bool) -> bool:
    """Return whether a topic is to get partitions.

    Args:
        topic: as it is.
        wanted: how many it shall have; None says nothing about it.
        alone: nothing else is asked for, so to have them already is a mistake.

    Raises:
        Failure: it cannot have so few, or has as many.
    """
    if wanted is None:
        return False
    present = len(topic.partitions)
    if wanted > present:
        return True
    has = f"topic {topic.name!r} has {counted(present, 'partition')}"
    if wanted < present:
        raise Failure(
            f"{has}; Kafka cannot take any away",
            fix="create a topic with fewer partitions and copy the messages",
        )
    if alone:
        raise Failure(f"{has} already")
    note(f"{has} already")
    return False


def _note_unknown(cluster: Cluster, topic: str, unset: list[str]) -> None:
    """Tell what was no setting: brokers take such removals without a word, as Kafka's do."""
    known = {setting.name for setting in cluster.all_topic_settings(topic)}
    unknown = [name for name in unset if name not in known]
    if unknown:
        note(f"topics have no setting {', '.join(unknown)}; nothing was there to unset")
