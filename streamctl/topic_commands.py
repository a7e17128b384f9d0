"""streamctl topic create | list | alter | delete; describe has a file of its own."""

from typing import Annotated

import typer

from streamctl.cluster import Cluster
from streamctl.confirmation import confirm_deletion
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.names import NameArguments, NameOption, topic_names
from streamctl.options import (
    CleanupOption,
    CompressionOption,
    FormatOption,
    RetentionBytesOption,
    RetentionOption,
    SetOption,
    connected,
    flag,
)
from streamctl.output import Format, counted, note, print_done, print_json, results, table
from streamctl.topic_describe import describe
from streamctl.topic_settings import (
    summary,
    topic_settings,
)

BROKER_DEFAULT = -1

app = typer.Typer(no_args_is_help=True, help="Create, look at, change and delete topics.")


@app.command()
@connected
def create(
    connection: Connection,
    *,
    names: NameArguments = None,
    name: NameOption = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", metavar="N", help="How many. Default: the broker's."),
    ] = None,
    retention: RetentionOption = None,
    retention_bytes: RetentionBytesOption = None,
    compression: CompressionOption = None,
    cleanup_policy: CleanupOption = None,
    replication_factor: Annotated[
        int,
        typer.Option("--replication-factor", metavar="N", help="-1 takes the broker's default."),
    ] = BROKER_DEFAULT,
    setting: SetOption = None,
    if_not_exists: Annotated[
        bool, flag("--if-not-exists", text="Leave a topic alone that is there already.")
    ] = False,
) -> None:
    r"""Create one or more topics.

    Messages with the same key go to the same partition and stay in order there; more
    partitions let more consumers share the work. The count can grow later, not shrink.

    Examples:
      streamctl topic create --name user-events --partitions 6 \
          --retention 30d --compression lz4
      streamctl topic create accounts --partitions 3 --cleanup-policy compact
      streamctl topic create logs --retention-bytes 10GiB \
          --set max.message.bytes=2097152
    """
    wanted = topic_names(names, name)
    if partitions is not None and partitions < 1:
        raise UsageError(f"--partitions {partitions}: a topic has at least 1 partition")
    if replication_factor < 1 and replication_factor != BROKER_DEFAULT:
        raise UsageError(
            f"--replication-factor {replication_factor} is impossible",
            fix="leave it out to take the broker's default",
        )
    settings = topic_settings(
        retention_ms=retention,
        retention_bytes=retention_bytes,
        compression=compression,
        cleanup_policy=cleanup_policy,
        assignments=setting or (),
    )
    cluster = Cluster(connection)
    cluster.identity()
    existing = set(cluster.topic_names()) if if_not_exists else set()
    for topic in wanted:
        if topic in existing:
            note(f"topic {topic} is there already; nothing changed")
            continue
        cluster.create_topic(
            topic,
            partitions=partitions or BROKER_DEFAULT,
            replication_factor=replication_factor,
            settings=settings,
        )
        print_done(f"created topic {topic}{summary(partitions, settings)}")


@app.command(name="list")
@connected
def list_topics(
    connection: Connection,
    *,
    internal: Annotated[
        bool, flag("--internal", text="Show Kafka's own topics, too (__consumer_offsets).")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the topics of the cluster.

    Examples:
      streamctl topic list
      streamctl topic list --format json | jq -r '.[].name'
    """
    cluster = Cluster(connection)
    cluster.identity()
    names = [name for name in cluster.topic_names() if internal or not name.startswith("__")]
    topics = cluster.topics(names)
    if output is Format.JSON:
        print_json(
            [
                {
                    "name": topic.name,
                    "partitions": len(topic.partitions),
                    "replication_factor": topic.replication_factor,
                    "internal": topic.internal,
                }
                for topic in topics
            ]
        )
        return
    if not topics:
        note("no topics yet; make one: streamctl topic create --name user-events --partitions 6")
        return
    listing = table("TOPIC", "PARTITIONS", "REPLICAS", numbers=("PARTITIONS", "REPLICAS"))
    for topic in topics:
        listing.add_row(topic.name, str(len(topic.partitions)), str(topic.replication_factor))
    results().print(listing)


app.command()(describe)  # here: help lists commands as they are registered


@app.command()
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
    for topic in topics:
        _check_growth(topic.name, len(topic.partitions), partitions)
    for topic in topics:
        if partitions is not None:
            cluster.add_partitions(topic.name, total=partitions)
        if changes:
            cluster.alter_topic(topic.name, changes)
        print_done(f"altered topic {topic.name}{summary(partitions, changes)}")
    if unset and topics:
        _note_unknown(cluster, topics[0].name, unset)


@app.command()
@connected
def delete(
    connection: Connection,
    *,
    names: NameArguments = None,
    name: NameOption = None,
    yes: Annotated[bool, flag("--yes", "-y", text="Do not ask.")] = False,
) -> None:
    """Delete topics with all their records, for good.

    Examples:
      streamctl topic delete user-events
      streamctl topic delete scratch-1 scratch-2 --yes
    """
    wanted = topic_names(names, name)
    cluster = Cluster(connection)
    cluster.identity()
    topics = cluster.topics(wanted, operation="delete")  # all must exist before the first one goes
    confirm_deletion(f"Delete {', '.join(wanted)} and every record in it?", yes=yes)
    for topic in topics:
        cluster.delete_topic(topic.name)
        print_done(f"deleted topic {topic.name}")


def _note_unknown(cluster: Cluster, topic: str, unset: list[str]) -> None:
    """Tell what was no setting: brokers take such removals without a word, as Kafka's do."""
    known = {setting.name for setting in cluster.all_topic_settings(topic)}
    unknown = [name for name in unset if name not in known]
    if unknown:
        note(f"topics have no setting {', '.join(unknown)}; nothing was there to unset")


def _check_growth(topic: str, present: int, wanted: int | None) -> None:
    if wanted is None or wanted > present:
        return
    if wanted == present:
        raise Failure(f"topic {topic!r} has {counted(present, 'partition')} already")
    raise Failure(
        f"topic {topic!r} has {counted(present, 'partition')}; Kafka cannot take any away",
        fix="create a topic with fewer partitions and copy the messages",
    )
