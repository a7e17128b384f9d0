"""One member of a group, as a program; its arguments are MemberSettings as JSON and its ledger.

It reads, then commits synchronously, over and over, and writes what it did and was told to the
ledger, one JSON object a line, flushed. `at_s` is of the machine's monotonic clock.

    assigned   places, generation   before the committed offsets are asked for
    revoked    places               after they were committed
    lost       places
    records    place, offsets, values, times   in the order they were read
    commit     offsets, generation, began_s, confirmed, reason   [[place, next offset], ...]
    error      code, error, fatal   what the client reported
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.crash.cluster_ledger import NO_GENERATION, PARTITIONS, TOPICS, place_of
from tests.crash.payload import decode
from tests.groups.telling import stopping

POLL_S: Final = 0.05
BATCH: Final = 200
COMMIT_S: Final = 0.2
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
METADATA_HEAD: Final = b"CGMDv2:"  # then the generation id, by the machine's byte order
GENERATION_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Who a member is.

    Attributes:
        protocol: group.protocol, "classic" or "consumer" (KIP-848).
        assignor: of the client with the classic protocol, of the broker with KIP-848.
    """

    name: str
    bootstrap: str
    group: str
    protocol: str
    assignor: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def client(self) -> dict[str, Any]:
        """Return the settings of the client, with what makes it find new brokers soon."""
        protocol = (
            {"group.remote.assignor": self.assignor}
            if self.protocol == "consumer"
            else {
                "partition.assignment.strategy": self.assignor,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        )
        return protocol | {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.name,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 200,
            "log_level": 0,
        }


class Page:
    """The ledger of one member."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, "at_s": time.monotonic(), **fields})
        self._output.write(line + "\n")
        self._output.flush()


class Member:
    """A consumer that reads and commits until it is told to stop."""

    def __init__(self, settings: MemberSettings, page: Page) -> None:
        self._page = page
        self._consumer = Consumer(settings.client())
        self._unwritten: dict[int, list[tuple[int, int, float]]] = {}
        self._uncommitted: dict[int, int] = {}

    def run(self) -> None:
        stop = stopping()
        self._consumer.subscribe(
            list(TOPICS), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        due_s = time.monotonic() + COMMIT_S
        while not stop.is_set():
            self._read()
            self._write_reads()
            if time.monotonic() >= due_s:
                self._commit()
                due_s = time.monotonic() + COMMIT_S
        self._consumer.close()  # takes the partitions away as a rebalance does

    def _read(self) -> None:
        """Read what is there, up to BATCH records; wait for the first one only."""
        wait_s = POLL_S
        for _ in range(BATCH):
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            if error := message.error():
                self._hear(error)
                continue
            wait_s = 0
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            place = place_of(topic, partition)
            read = (offset, decode(message.value()), time.monotonic())
            self._unwritten.setdefault(place, []).append(read)
            self._uncommitted[place] = offset + 1

    def _write_reads(self) -> None:
        for place, reads in self._unwritten.items():
            offsets, values, times = zip(*reads, strict=True)
            self._page.write("records", place=place, offsets=offsets, values=values, times=times)
        self._unwritten = {}

    def _commit(self) -> None:
        """Commit what was read; what is refused is tried again with the next commit."""
        self._write_reads()
        offsets = dict(self._uncommitted)
        if not offsets:
            return
        generation = self._generation()
        began_s = time.monotonic()
        confirmed, reason = self._ask_to_commit(offsets)
        self._page.write(
            "commit",
            offsets=list(offsets.items()),
            generation=generation,
            began_s=began_s,
            confirmed=confirmed,
            reason=reason,
        )
        for place in confirmed:
            del self._uncommitted[place]

    def _ask_to_commit(self, offsets: Mapping[int, int]) -> tuple[list[int], str]:
        """Return the places whose commit the broker confirmed, and why others were refused."""
        asked = [
            TopicPartition(TOPICS[place // PARTITIONS], place % PARTITIONS, offset)
            for place, offset in offsets.items()
        ]
        try:
            answered = self._consumer.commit(offsets=asked, asynchronous=False) or []
        except KafkaException as refusal:
            return [], str(refusal)
        confirmed = [place_of(one.topic, one.partition) for one in answered if one.error is None]
        return confirmed, ", ".join({str(one.error) for one in answered if one.error is not None})

    def _generation(self) -> int:
        """Return the generation id or member epoch, which the client tells in its own encoding."""
        metadata = self._consumer.consumer_group_metadata() or b""
        if not metadata.startswith(METADATA_HEAD):
            return NO_GENERATION
        number = metadata[len(METADATA_HEAD) :][:GENERATION_BYTES]
        return int.from_bytes(number, sys.byteorder, signed=True)

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._write_reads()
        self._page.write("assigned", places=_places(partitions), generation=self._generation())

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._gone("revoked", _places(partitions))

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._write_reads()
        self._gone("lost", _places(partitions))

    def _gone(self, event: str, places: list[int]) -> None:
        self._page.write(event, places=places)
        for place in places:
            self._uncommitted.pop(place, None)

    def _hear(self, error: KafkaError) -> None:
        self._page.write("error", code=error.code(), error=str(error), fatal=error.fatal())


def _places(partitions: list[TopicPartition]) -> list[int]:
    return [place_of(one.topic, one.partition) for one in partitions]


if __name__ == "__main__":
    with Path(sys.argv[2]).open("a") as ledger:
        Member(MemberSettings(**json.loads(sys.argv[1])), Page(ledger)).run()
