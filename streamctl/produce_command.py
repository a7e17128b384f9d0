"""streamctl produce: send one message, or the lines of a file or pipe."""

import os
import stat
import sys
import time
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import typer

from streamctl.arguments import as_bytes, check_text
from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.errors import Failure, UnknownTopic, UsageError
from streamctl.lines import LineSource
from streamctl.names import complete_topics
from streamctl.options import connected, flag
from streamctl.output import note
from streamctl.produce_run import Sending, run
from streamctl.properties import parse_pairs
from streamctl.sending import Outgoing, Sender
from streamctl.topic_settings import check_topic_name


class Codec(StrEnum):
    """Compression of the batches on their way."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Header(NamedTuple):
    """A header of every message; its value need not be text."""

    name: str
    value: bytes


def parse_header(text: str) -> Header:
    """Return what --header says. Raises UsageError unless it is NAME=VALUE, the name in UTF-8."""
    ((name, value),) = parse_pairs("--header", [text])
    check_text([name])
    return Header(name, as_bytes(value))


Topic = Annotated[
    str,
    typer.Option(
        "--topic", metavar="NAME", autocompletion=complete_topics, help="The topic to write to."
    ),
]
Key = Annotated[
    bytes | None,
    typer.Option(
        "--key", parser=as_bytes, metavar="TEXT", help="Key of the message, or of every line."
    ),
]
Message = Annotated[
    bytes | None,
    typer.Option("--message", parser=as_bytes, metavar="TEXT", help="One message, as it stands."),
]
Tombstone = Annotated[
    bool, flag("--tombstone", text="One message with no value: compaction drops the key.")
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        readable=True,
        help="One message a line. Without it and --message: stdin.",
    ),
]
KeySeparator = Annotated[
    bytes | None,
    typer.Option(
        "--key-separator", parser=as_bytes, metavar="TEXT", help="Lines are KEY TEXT VALUE."
    ),
]
Headers = Annotated[
    list[Header] | None,
    typer.Option(
        "--header",
        parser=parse_header,
        metavar="NAME=VALUE",
        help="A header of every message. Repeatable.",
    ),
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", metavar="N", help="This one, not the one that the key chooses."),
]
Compression = Annotated[
    Codec | None, typer.Option("--compression", help="Codec of the batches sent.")
]


@connected
def produce(
    connection: Connection,
    *,
    topic: Topic,
    key: Key = None,
    message: Message = None,
    tombstone: Tombstone = False,
    file: File = None,
    key_separator: KeySeparator = None,
    header: Headers = None,
    partition: Partition = None,
    compression: Compression = None,
) -> None:
    r"""Send messages, and wait until the cluster has them for good.

    Prints partition@offset of each message, or a rate if there are many. Keys go to the
    partition that Java clients choose (murmur2); messages without a key are spread. Ends
    with 1 if any message failed.

    Examples:
      streamctl produce --topic user-events --key user-123 \
          --message '{"event": "login"}'
      streamctl produce --topic user-events --file events.jsonl --compression lz4
      tail -f app.log | streamctl produce --topic logs --header host=web-1
      printf 'a:1\nb:2\n' | streamctl produce --topic counts --key-separator :
    """
    check_topic_name(topic)
    _check_source(message=message, tombstone=tombstone, file=file)
    if key_separator is not None and (key is not None or message is not None or tombstone):
        raise UsageError("--key-separator is for lines whose keys stand in front of the values")
    if key_separator == b"":
        raise UsageError("--key-separator cannot be empty")
    if tombstone and key is None:
        raise UsageError("--tombstone needs --key", fix="say whose value is gone")
    _check_partition(connection, topic, partition)
    sender = Sender(
        connection,
        topic,
        partition=partition,
        headers=header or [],
        compression=None if compression is None else compression.value,
    )
    work = Sending(sender=sender, topic=topic, started=time.monotonic())
    if message is not None or tombstone:
        run(work, [Outgoing(key=key, value=message)])
        return
    if file is None and sys.stdin is None:
        raise Failure("standard input is closed", fix="give --message or --file")
    opened = nullcontext(sys.stdin.buffer) if file is None else file.open("rb")
    with opened as stream:
        source = LineSource(stream, key=key, separator=key_separator)
        if file is None and sys.stdin.isatty():
            note("one message a line; Ctrl-D ends")
            run(work, source, interactive=True)
        else:
            run(work, source, size=_size(stream))


def _check_source(*, message: bytes | None, tombstone: bool, file: Path | None) -> None:
    given = [
        name
        for name, present in (
            ("--message", message is not None),
            ("--tombstone", tombstone),
            ("--file", file is not None),
        )
        if present
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")


def _check_partition(connection: Connection, topic: str, partition: int | None) -> None:
    try:
        count = len(Cluster(connection).topic(topic, operation="write").partitions)
    except UnknownTopic as unknown:
        unknown.fix += f"; or create it: streamctl topic create --name {topic} --partitions 6"
        raise
    if partition is not None and not 0 <= partition < count:
        raise Failure(
            f"topic {topic!r} has no partition {partition}", fix=f"it has 0 to {count - 1}"
        )


def _size(stream: BinaryIO) -> int | None:
    """Return a regular file's bytes; None for a pipe, whose end nobody knows."""
    status = os.fstat(stream.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
