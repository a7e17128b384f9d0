"""Which topics the records of a generation are of: one that is made again has another id.

Rows are told apart by topic, partition and offset, and offsets of a topic that was made again begin
anew. So a checkpoint keeps the ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spark.sinks.hadoop_files import HadoopFiles

DIRECTORY: Final = "streamhouse-topics"
"""In a checkpoint, with a file for each topic."""


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
        return {name.removesuffix(".txt"): text for name, text in texts.items() if text is not None}

    def keep(self, ids: Mapping[str, str]) -> None:
        """Keep the ids of topics that have none yet."""
        there = self.all()
        for topic in ids.keys() - there:
            self.checkpoint.write_text(f"{DIRECTORY}/{topic}.txt", ids[topic])


def made_again(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the topics that have another id now; those that only one side knows have not."""
    return sorted(topic for topic in before.keys() & now if before[topic] != now[topic])
