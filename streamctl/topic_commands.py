"""streamctl topic create, list and delete; alter and describe have files of their own."""

from typing import Annotated

import typer

from streamctl.cluster import Cluster
from streamctl.confirmation import confirm_deletion
from streamctl.connection import Connection
from streamctl.errors import UsageError
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
from streamctl.output import Format, note, print_done, print_json, results, table
from streamctl.topic_alter import alter
from streamctl.topic_describe import describe
from streamctl.topic_settings import summary, topic_settings

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
        is_made = topic not in existing and cluster.create_topic(
            topic,
            partitions=partitions or BROKER_DEFAULT,
            replication_factor=replication_factor,
            settings=settings,
            may_exist=if_not_exists,
        )
        if is_made:
            print_done(f"created topic {topic}{summary(partitions, settings)}")
        else:
            note(f"topic {topic} is there already; nothing changed")


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
    known = cluster.topics(cluster.topic_names(), may_be_gone=True)
    topics = [topic for topic in known if internal or not topic.internal]
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
app.command()(alter)


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
