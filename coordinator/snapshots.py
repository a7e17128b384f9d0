"""A group as it is kept between brokers."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class GroupType(StrEnum):
    """Kafka's names, as ListGroups has them."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class GroupState(StrEnum):
    """Kafka's names. Consumer groups have ASSIGNING and RECONCILING instead of REBALANCEs."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Document:
    """A text that is written when it is first asked for: most are superseded before that.

    Args:
        write: makes the text, of values that do not change any more.
    """

    __slots__ = ("_text", "_write")

    def __init__(self, write: Callable[[], str]) -> None:
        self._write: Callable[[], str] | None = write
        self._text = ""

    @property
    def text(self) -> str:
        if self._write is not None:
            self._text, self._write = self._write(), None
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Document({self.text!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """All that a coordinator needs to go on with a group that another one began.

    Attributes:
        protocol_type: of its members ("consumer", "connect"); empty while it never had any.
        generation_id: generation of a classic group, group epoch of a consumer group.
        document: members, assignments and the rest as JSON; machines write and read it, and
            nobody else looks inside. A snapshot that is restored and saved again is equal.
    """

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    generation_id: int
    member_count: int
    document: Document
