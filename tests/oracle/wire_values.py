"""What the corpus writes in requests besides plain values: what only the replay can know."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from uuid import UUID

from protocol.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from protocol.records import Record, build_batch

HERE: Final = "~"
"""Stands, in any string, for what makes the names of one replayed case its own."""

MADE_UP_ID: Final = 4_000_000_000
"""Producer ids in the corpus that no broker has given out are at least this."""

FIRST_TIMESTAMP_MS: Final = round(time.time() * 1000)
"""Of records, in all replays of a run: so young that no retention takes them meanwhile."""


class Null(Enum):
    """A null where the protocol allows none."""

    NULL = "null"


NULL: Final = Null.NULL


@dataclass(frozen=True, slots=True)
class Saved:
    """A value that an earlier answer of the case had, or else `otherwise`, if that is given."""

    name: str
    otherwise: Any = NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch of values; all else is as a plain producer would send it, unless told.

    Attributes:
        values: one record each; a pair is a key and a value.
        change: what is done to the finished bytes, to break them.
    """

    values: Sequence[bytes | tuple[bytes | None, bytes | None] | None] = (b"one",)
    codec: int = 0
    transactional: bool = False
    control: bool = False
    producer_id: "int | Saved" = -1
    producer_epoch: "int | Saved" = -1
    base_sequence: int = -1
    base_offset: int = 0
    leader_epoch: int = -1
    last_offset_delta: int | None = None
    timestamp_ms: int = FIRST_TIMESTAMP_MS
    change: Callable[[bytes], bytes] = field(default=lambda data: data)


@dataclass(slots=True)
class Memory:
    """What one replay of one case knows.

    Attributes:
        here: replaces HERE; also part of every name that the case makes.
        saved: from earlier answers, by name.
        said: ids that the corpus itself made up; answers repeat them as they are.
        common: what is HERE in names that the case has in common with others.
        common_names: those names.
    """

    here: str
    saved: dict[str, Any] = field(default_factory=dict)
    said: set[Any] = field(default_factory=set)
    common: str = ""
    common_names: frozenset[str] = frozenset()

    def resolve(self, value: Any) -> Any:
        """Return `value` with everything looked up that was left open."""
        if isinstance(value, Mapping):
            return {name: self.resolve(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return tuple(self.resolve(one) for one in value)
        if isinstance(value, Batch):
            return self._batch(value)
        if isinstance(value, Saved):
            if value.otherwise is not NULL:
                return self.saved.get(value.name, value.otherwise)
            return self.saved[value.name]
        return self._say(value)

    def _say(self, value: Any) -> Any:
        said = self._named(value) if isinstance(value, str) else value
        if isinstance(said, str | UUID) or (isinstance(said, int) and said >= MADE_UP_ID):
            self.said.add(said)
        return said

    def _named(self, text: str) -> str:
        if text in self.common_names:
            return text.replace(HERE, self.common)
        return text.replace(HERE, self.here)

    def masked(self, text: str) -> str:
        """Return text of an answer, HERE put back."""
        text = text.replace(self.here, HERE)
        return text.replace(self.common, HERE) if self.common else text

    def _batch(self, batch: Batch) -> bytes:
        pairs = [one if isinstance(one, tuple) else (None, one) for one in batch.values]
        bits = TRANSACTIONAL_BIT if batch.transactional else 0
        bits |= CONTROL_BIT if batch.control else 0
        data = build_batch(
            [
                Record(offset_delta=at, key=key, value=value)
                for at, (key, value) in enumerate(pairs)
            ],
            attributes=batch.codec | bits,
            base_offset=batch.base_offset,
            base_timestamp_ms=batch.timestamp_ms,
            last_offset_delta=batch.last_offset_delta,
            leader_epoch=batch.leader_epoch,
            producer_id=self.resolve(batch.producer_id),
            producer_epoch=self.resolve(batch.producer_epoch),
            base_sequence=batch.base_sequence,
        )
        return batch.change(data)
