"""What a check of a whole store has found, brought together from all executors."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from storage.fsck.fsck_findings import EXAMPLES, Checked, Findings, Kind

SCHEMA: Final = (
    "kind string not null, damage boolean not null, place string not null,"
    " count long not null, advice string not null"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One finding.

    Attributes:
        kind: name of a `Kind`, which goes between processes by that.
        place: what and where it is, for people.
        count: how many of them; there is one line of each but for leftovers.
    """

    kind: str
    place: str
    count: int


@dataclass(slots=True)
class AllFindings(Findings):
    """Keeps every finding, not only examples."""

    found: list[Found] = field(default_factory=list)

    def add(self, kind: Kind, example: str, count: int = 1) -> None:
        Findings.add(self, kind, example, count)
        self.found.append(Found(kind=kind.name, place=example, count=count))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDone:
    """What one task has looked at, and found."""

    checked: Checked
    found: list[Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The whole check.

    Attributes:
        found: without repetitions: two tasks may read a segment that lies in the ranges of both.
    """

    checked: Checked
    found: list[Found]

    @classmethod
    def of(cls, results: Iterable[CheckDone]) -> "CheckReport":
        """Bring the results of all tasks together."""
        total, found = Checked(), dict[tuple[str, str], Found]()
        for result in results:
            for name, value in asdict(result.checked).items():
                setattr(total, name, getattr(total, name) + value)
            found |= {(each.kind, each.place): each for each in result.found}
        order = list(Kind.__members__)
        ordered = sorted(found.values(), key=lambda each: (order.index(each.kind), each.place))
        return cls(checked=total, found=ordered)

    @property
    def damaged(self) -> bool:
        return any(Kind[each.kind].is_damage for each in self.found)

    def of_kind(self, kind: Kind) -> list[Found]:
        return [each for each in self.found if each.kind == kind.name]

    def as_json(self) -> Mapping[str, Any]:
        """Return it as `streamctl fsck --json` prints it."""
        kinds = [(kind, self.of_kind(kind)) for kind in Kind]
        return {
            "damaged": self.damaged,
            "checked": asdict(self.checked),
            "findings": [
                {
                    "kind": kind.text,
                    "damage": kind.is_damage,
                    "count": sum(each.count for each in found),
                    "examples": [each.place for each in found[:EXAMPLES]],
                    "advice": kind.advice,
                }
                for kind, found in kinds
                if found
            ],
        }

    def frame(self, session: SparkSession) -> DataFrame:
        """Return a row of SCHEMA for each finding."""
        rows = [
            (kind.text, kind.is_damage, each.place, each.count, kind.advice)
            for each in self.found
            for kind in (Kind[each.kind],)
        ]
        return session.createDataFrame(rows, SCHEMA)
