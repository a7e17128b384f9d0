"""How far a streaming query is, by the files that Spark itself goes on from."""

from dataclasses import dataclass
from pathlib import Path

PLANNED = "offsets"
COMMITTED = "commits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Micro-batches of all queries of a job.

    Attributes:
        planned: whose offsets are written: that much is done again after a crash.
        committed: that are never done again.
    """

    planned: int = 0
    committed: int = 0

    @property
    def under_way(self) -> bool:
        return self.planned > self.committed


def progress(checkpoint: Path) -> Progress:
    """Return what the checkpoint of a job says; it may have one query or folders of several."""
    return Progress(
        planned=sum(map(_count, checkpoint.rglob(PLANNED))),
        committed=sum(map(_count, checkpoint.rglob(COMMITTED))),
    )


def _count(folder: Path) -> int:
    """Return one more than the last number in a folder; old ones are removed by Spark."""
    numbers = [int(file.name) for file in folder.iterdir() if file.name.isdecimal()]
    return max(numbers, default=-1) + 1
