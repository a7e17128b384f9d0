"""What a checkpoint is of: which source, and which topics. One that is made again has another id.

Rows are told apart by topic, partition and offset, and offsets of a topic that was made again begin
anew. So a checkpoint keeps the ids; so does a table that may be loaded from a new one.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from spark.jobs.option_groups import Source
from spark.jobs.options import JobFailed
from spark.sinks.hadoop_files import HadoopFiles
from spark.sources.stream_offset import OFFSETS, TOPIC_IDS

DIRECTORY: Final = "streamhouse-topics"
"""In a checkpoint, with a file for each topic."""

_OFFSETS: Final = "offsets"
_BASE64_LENGTH: Final = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptIds:
    """The ids that a checkpoint keeps.

    Attributes:
        checkpoint: its directory.
    """

    checkpoint: HadoopFiles

    def all(self) -> dict[str, str]:
        """Return the ids by topic; none before the first run."""
        names = (one for one in self.checkpoint.names(DIRECTORY) if one.endswith(".txt"))
        texts = {name: self.checkpoint.read_text(f"{DIRECTORY}/{name}") for name in names}
        return {
            name.removesuffix(".txt"): in_hexadecimal(text)
            for name, text in texts.items()
            if text is not None
        }

    def keep(self, ids: Mapping[str, str]) -> None:
        """Keep the ids of topics that have none yet."""
        there = self.all()
        for topic in ids.keys() - there:
            self.checkpoint.write_text(f"{DIRECTORY}/{topic}.txt", ids[topic])


def in_hexadecimal(text: str) -> str:
    """Return an id as the index has it; brokers, and loaders that asked them, have it in base64."""
    if len(text) != _BASE64_LENGTH:
        return text
    return str(UUID(bytes=urlsafe_b64decode(f"{text}==")))


def source_of(checkpoint: HadoopFiles) -> Source | None:
    """Return what a checkpoint's offsets are of; None before the first batch."""
    text = _newest_end(checkpoint)
    if text is None:
        return None
    return Source.direct if f'"{TOPIC_IDS}"' in text else Source.kafka


def topics_in(checkpoint: HadoopFiles) -> set[str]:
    """Return the topics that a checkpoint has offsets of; none before the first batch."""
    text = _newest_end(checkpoint)
    if text is None:
        return set()
    offsets = json.loads(text.rpartition("\n")[2])  # the lines before it are Spark's own
    return set(offsets[OFFSETS] if TOPIC_IDS in offsets else offsets)


def _newest_end(checkpoint: HadoopFiles) -> str | None:
    """Return what Spark wrote down of the end of the last batch that was begun."""
    batches = (int(name) for name in checkpoint.names(_OFFSETS) if name.isdigit())
    newest = max(batches, default=None)
    return None if newest is None else checkpoint.read_text(f"{_OFFSETS}/{newest}")


def refuse_other_source(checkpoint: HadoopFiles, source: Source, or_else: str) -> None:
    """Refuse offsets that the source cannot read.

    Args:
        checkpoint: its directory.
        source: that is asked for.
        or_else: what to do in place of taking the other one.

    Raises:
        JobFailed: the checkpoint was written with the other one.
    """
    was = source_of(checkpoint)
    if was not in {None, source}:
        raise JobFailed(
            f"{checkpoint.path} was written with --source {was}",
            fix=f"give --source {was}, or {or_else}",
        )


def keep_or_refuse(kept: KeptIds, now: Mapping[str, str], output: str, fix: str) -> None:
    """Refuse topics that were made again under their names: places of records come anew.

    Args:
        kept: of the checkpoint; ids that are new to it are kept.
        now: the ids of the topics.
        output: where records of those before are.
        fix: what to do.

    Raises:
        JobFailed: one was.
    """
    refuse_made_again(kept.all(), now, output, fix)
    kept.keep(now)


def refuse_made_again(
    before: Mapping[str, str], now: Mapping[str, str], output: str, fix: str
) -> None:
    """Refuse topics that have another id now; arguments are those of `keep_or_refuse`.

    Raises:
        JobFailed: one has.
    """
    for topic in made_again(before, now):
        raise JobFailed(
            f"the topic {topic} was made again: {output} has records of the one before, at the"
            " same offsets",
            fix=fix,
        )


def made_again(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the topics that have another id now; those that only one side knows have not."""
    return sorted(topic for topic in before.keys() & now if before[topic] != now[topic])
