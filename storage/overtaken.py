"""Idempotent producers of whose batches one was refused because its leader was overtaken.

What such a producer has sent behind that batch leaves a gap. That is no mistake of the producer's,
and it hears the same until the batch has come again. Told that something is out of order,
librdkafka begins a new epoch, in which it repeats what it has no answer for in all partitions: what
is in the log of one of them already would be there twice.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from protocol.batch import NO_PRODUCER_ID, BatchHeader
from protocol.ids import Partition
from storage.errors import FencedLeaderEpoch, OutOfOrderSequence
from storage.metadata.port import BatchOutcome

KEPT_S: Final = 30.0
"""Longer than a client waits before it repeats a batch; one that never does learns of the gap."""

MOST_KEPT: Final = 10_000

_Key = tuple[Partition, int, int]
_NEVER: Final = (-math.inf, -1)


class OvertakenProducers:
    """What a writer knows of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[_Key, tuple[float, int]] = {}
        """When, and which sequence it began with; the oldest first."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._refused)

    def remember(self, partition: Partition, header: BatchHeader) -> None:
        """Another broker leads, or has led since: a batch is refused."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        now_s = self._clock()
        while self._refused:
            oldest = next(iter(self._refused))
            if now_s - self._refused[oldest][0] < KEPT_S and len(self._refused) < MOST_KEPT:
                break
            del self._refused[oldest]
        self._refused.setdefault(_key(partition, header), (now_s, header.base_sequence))

    def judge(
        self, partition: Partition, header: BatchHeader, outcome: BatchOutcome
    ) -> BatchOutcome:
        """Return what a batch's producer is to hear; outcomes come in the order of the log."""
        if isinstance(outcome.refusal, FencedLeaderEpoch):
            self.remember(partition, header)
            return outcome
        key = _key(partition, header)
        refused_s, sequence = self._refused.get(key, _NEVER)
        if isinstance(outcome.refusal, OutOfOrderSequence):
            if self._clock() - refused_s < KEPT_S:
                behind = FencedLeaderEpoch(f"{outcome.refusal} comes behind what was refused")
                return replace(outcome, refusal=behind)
        elif outcome.refusal is None and header.base_sequence == sequence:
            self._refused.pop(key, None)
        return outcome


def _key(partition: Partition, header: BatchHeader) -> _Key:
    return partition, header.producer_id, header.producer_epoch
