"""streamctl topic describe: a topic's partitions, their offsets, and settings off the default."""

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from streamctl.broker_http import DEFAULT_HTTP, HTTP_ENVIRONMENT
from streamctl.cluster import Cluster
from streamctl.cluster_state import PartitionState, TopicSetting, TopicState
from streamctl.connection import Connection
from streamctl.log_end import log_end_offsets
from streamctl.names import NameArguments, NameOption, topic_names
from streamctl.options import FormatOption, connected
from streamctl.output import UNKNOWN, Format, Json, counted, note, print_json, results, table
from streamctl.topic_settings import readable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """Where one partition's log begins and ends.

    Attributes:
        log_start: first offset that can be read.
        high_watermark: one past the last committed record.
        log_end: high_watermark + records still in a write buffer; None if nobody tells.
    """

    log_start: int
    high_watermark: int
    log_end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """All that `describe` shows of one topic; `offsets` by partition."""

    topic: TopicState
    settings: list[TopicSetting]
    offsets: dict[int, PartitionOffsets]


@connected
def describe(
    connection: Connection,
    *,
    names: NameArguments = None,
    name: NameOption = None,
    http: Annotated[
        str,
        typer.Option(
            "--http",
            metavar="HOST:PORT,…",
            envvar=HTTP_ENVIRONMENT,
            help="Brokers' HTTP ports, asked only for log end offsets.",
        ),
    ] = DEFAULT_HTTP,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a topic's partitions with their offsets, and its settings that are not defaults.

    HIGH WATERMARK is one past the last record that can be read. LOG END adds the records
    that the leader holds in its write buffer, which its HTTP port tells; a dash where none
    does.

    Examples:
      streamctl topic describe user-events
      streamctl topic describe user-events --http 10.0.0.5:9644,10.0.0.6:9644
      streamctl topic describe user-events --format json | jq '.[].partitions'
    """
    wanted = topic_names(names, name)
    cluster = Cluster(connection)
    cluster.identity()
    described = _describe(cluster, cluster.topics(wanted), http)
    if output is Format.JSON:
        print_json([_as_json(item) for item in described])
    else:
        for item in described:
            _print(item)
    _note_unknown(described, http)


def _note_unknown(described: list[Described], http: str) -> None:
    """Tell whose log end offsets are missing, and who could tell them."""
    leaders = {
        "none" if partition.leader is None else str(partition.leader)
        for item in described
        for partition in item.topic.partitions
        if item.offsets[partition.index].log_end is None
    }
    if leaders:
        note(
            f"log end offsets: {http} does not tell those of partitions led by broker "
            f"{', '.join(sorted(leaders))} (--http HOST:PORT,HOST:PORT)"
        )


def _describe(cluster: Cluster, topics: list[TopicState], http: str) -> list[Described]:
    logs = {topic.name: _begin_and_watermark(cluster, topic) for topic in topics}
    ends = log_end_offsets(http, logs)  # asked last: an end is never before the HWM
    return [
        Described(
            topic=topic,
            settings=cluster.topic_settings(topic.name),
            offsets={
                index: PartitionOffsets(
                    log_start=start,
                    high_watermark=watermark,
                    log_end=_plausible(ends.get((topic.name, index)), watermark),
                )
                for index, (start, watermark) in logs[topic.name].items()
            },
        )
        for topic in topics
    ]


def _begin_and_watermark(cluster: Cluster, topic: TopicState) -> dict[int, tuple[int, int]]:
    indexes = [partition.index for partition in topic.partitions]
    starts = cluster.earliest_offsets(topic.name, indexes)
    watermarks = cluster.latest_offsets(topic.name, indexes)
    return {index: (starts[index], watermarks[index]) for index in indexes}


def _plausible(log_end: int | None, high_watermark: int) -> int | None:
    """Drop a figure of a broker that does not own the partition any more, or of another cluster."""
    return None if log_end is None or log_end < high_watermark else log_end


def _as_json(described: Described) -> Json:
    topic = described.topic
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "settings": [
            {"name": setting.name, "value": setting.value, "source": setting.source}
            for setting in described.settings
        ],
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "in_sync_replicas": list(partition.in_sync_replicas),
                "log_start_offset": described.offsets[partition.index].log_start,
                "high_watermark": described.offsets[partition.index].high_watermark,
                "log_end_offset": described.offsets[partition.index].log_end,
            }
            for partition in topic.partitions
        ],
    }


def _print(described: Described) -> None:
    topic, console = described.topic, results()
    offsets = sum(offset.high_watermark - offset.log_start for offset in described.offsets.values())
    console.print(
        Text.assemble(
            (topic.name, "bold"),
            f"  {counted(len(topic.partitions), 'partition')}, "
            f"replication {topic.replication_factor}, {counted(offsets, 'offset')}",
            (f"  id {topic.topic_id}", "dim"),
        )
    )
    for setting in described.settings:
        console.print(_setting_line(setting))
    counts = ("PARTITION", "LEADER", "LOG START", "HIGH WATERMARK", "LOG END")
    listing = table(
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
        "LOG START",
        "HIGH WATERMARK",
        "LOG END",
        numbers=counts,
    )
    for partition in topic.partitions:
        listing.add_row(*_cells(partition, described.offsets[partition.index]))
    console.print(listing)


def _cells(partition: PartitionState, offsets: PartitionOffsets) -> list[Text]:
    lagging = len(partition.in_sync_replicas) < len(partition.replicas)
    no_leader = Text("none", style="bold red")
    buffered = offsets.log_end is not None and offsets.log_end > offsets.high_watermark
    return [
        Text(str(partition.index), style="cyan"),
        no_leader if partition.leader is None else Text(str(partition.leader)),
        Text(",".join(map(str, partition.replicas))),
        Text(",".join(map(str, partition.in_sync_replicas)), style="yellow" if lagging else ""),
        Text(str(offsets.log_start)),
        Text(str(offsets.high_watermark), style="green"),
        UNKNOWN
        if offsets.log_end is None
        else Text(str(offsets.log_end), style="yellow" if buffered else ""),
    ]


def _setting_line(setting: TopicSetting) -> Text:
    if setting.value is None:
        return Text.assemble(f"  {setting.name}=", ("(hidden)", "dim"))
    said = readable(setting.name, setting.value)
    line = Text.assemble(f"  {setting.name}=", (setting.value, "cyan"))
    if said:
        line.append(f" ({said})", style="dim")
    if setting.source != "topic":
        line.append(f" set for the {setting.source}", style="dim")
    return line
