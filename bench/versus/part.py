"""What is measured: a case is one thing done once to one running contender."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.results import Figures
from bench.versus.running import Running

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line, or a few, of a part's table.

    Attributes:
        part: as `--only` names it.
        name: what is done; the same for all contenders.
        measure: does it once and returns figures, each named with its unit at the end (mb_per_s,
            records_per_s, p50_ms, cpu_s_per_gb, memory_mib, s). Raises MeasurementFailed.
        contenders: names of those that do it; whoever has no case of a run is not started.
        anywhere: it may come at any place among its neighbours that may.
    """

    part: str
    name: str
    measure: Callable[[Running], Figures]
    contenders: tuple[str, ...]
    anywhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything is done.

    Attributes:
        quick: a look whether it works, in seconds; what it prints compares nothing.
        scratch: a directory of the whole run, for what cases of all contenders share.
    """

    quick: bool
    scratch: Path

    def pick(self, full: T, quick: T) -> T:
        """Return the amount that fits."""
        return quick if self.quick else full


Cases = Callable[[Scale], Sequence[Case]]
"""`cases` of a module in parts/: what it measures, in this order on each contender."""
