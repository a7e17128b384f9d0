"""How far a query is behind the end of its topics, over time: one JSON line for each progress.

Lines are added by every run that reports into a directory, so a run that resumes goes on with the
chart. Ends are those that Spark saw when it planned a batch: the newest there were, or, for a
bounded run, those that it began with.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

TAIL_BYTES: Final = 4 * 1024 * 1024
"""Of the file, that a chart is drawn of: it grows for as long as a query runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """At one moment.

    Attributes:
        time: when the batch began; ISO 8601, UTC.
        behind: records not read after the batch, by topic-partition.
        rows: read by the batch.
    """

    time: str
    behind: Mapping[str, int]
    rows: int

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.time)

    @property
    def total(self) -> int:
        return sum(self.behind.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLog:
    """A file of lines.

    Attributes:
        path: its directory is made with the first line.
    """

    path: Path

    def note(self, progress: Mapping[str, Any]) -> None:
        """Add what a progress of a streaming query says, if it says how far the ends are.

        Args:
            progress: of StreamingQueryProgress.json. A batch that is done again after a crash
                tells no ends.
        """
        lag = lag_of(progress)
        if lag is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write("\n" + json.dumps(asdict(lag)))

    def read(self) -> list[Lag]:
        """Return what was noted, the last TAIL_BYTES of it, in order of time."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            lines = file.read().decode().splitlines()
        # The tail may begin in the middle of one. A machine may die there, too: the next begins a
        # line of its own all the same.
        whole = (line for line in lines if line and line.count("{") == line.count("}"))
        return sorted((Lag(**json.loads(line)) for line in whole), key=lambda lag: lag.time)


def lag_of(progress: Mapping[str, Any]) -> Lag | None:
    """Return the lag that a progress tells, of all its sources; None if it tells none."""
    behind: dict[str, int] = {}
    for source in progress["sources"]:
        ends, latest = _positions(source["endOffset"]), _positions(source["latestOffset"])
        behind |= {place: max(latest[place] - ends.get(place, 0), 0) for place in latest}
    if not behind:
        return None
    return Lag(time=progress["timestamp"], behind=behind, rows=progress["numInputRows"])


def _positions(offsets: Mapping[str, Any] | None) -> dict[str, int]:
    if offsets is None or "offsets" in offsets:  # Spark knows no ends of the direct source's
        return {}
    return {
        f"{topic}-{number}": offset
        for topic, numbers in offsets.items()
        for number, offset in numbers.items()
    }
