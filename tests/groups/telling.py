"""What the member programs in Python share: they say events as JSON lines, and hear when to stop.

The events of a member, with what each has beside `event` and `at_s` (seconds since 1970):

    assigned    partitions  they are added to the member's
    revoked     partitions  everything read from them is committed, unless `refused` came before
    lost        partitions  as revoked, but too late to commit
    records     partition, offsets, values  in the order they were read
    committed   offsets     {partition: next offset}; the broker has confirmed it
    refused     error       a commit failed; the member tries again with the next one
    found       offsets     {partition: [committed offset, metadata] or null}; without a group
    error       error       the client reported it and the member has ended
    leaving                 everything read is committed, and the client is being closed
    closed      took_s      the client is closed

A Java member's events also have `generation` (generation id, or member epoch) and `member_id`.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

SOURCE = "source"
"""The header of a copied record: the partition and the offset that it was copied from."""


def say(event: str, **fields: Any) -> None:
    line = json.dumps({"event": event, "at_s": time.time(), **fields})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def stopping() -> Event:
    """Return what is set when standard input ends, which the parent's own end does, too."""
    stop = Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()

    Thread(target=listen, daemon=True).start()
    return stop


@dataclass(slots=True)
class Reading:
    """Records read and not yet told, and offsets not yet committed.

    Attributes:
        untold: offsets and values of each partition.
        uncommitted: the next offset of each partition.
    """

    untold: dict[int, tuple[list[int], list[str]]] = field(default_factory=dict)
    uncommitted: dict[int, int] = field(default_factory=dict)

    def add(self, partition: int, offset: int, value: bytes | None) -> None:
        offsets, values = self.untold.setdefault(partition, ([], []))
        offsets.append(offset)
        values.append((value or b"").decode())
        self.uncommitted[partition] = offset + 1

    def tell(self) -> None:
        """Say what was read; a record is told before its offset is committed."""
        for partition, (offsets, values) in self.untold.items():
            say("records", partition=partition, offsets=offsets, values=values)
        self.untold = {}

    def committed(self, offsets: dict[int, int]) -> None:
        """Say what is committed, and forget it unless more was read meanwhile."""
        say("committed", offsets=offsets)
        for partition, offset in offsets.items():
            if self.uncommitted.get(partition) == offset:
                del self.uncommitted[partition]

    def forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            self.uncommitted.pop(partition, None)
