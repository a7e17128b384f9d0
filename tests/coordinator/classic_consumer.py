"""A classic consumer, eager or cooperative (KIP-429), that obeys the protocol; it may lead."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from coordinator.answers import Answer, HeartbeatAnswer, JoinAnswer, JoinedMember, SyncAnswer
from coordinator.catalog import Catalog
from coordinator.consumer_protocol import (
    read_assignment,
    read_subscription,
    to_partitions,
    write_assignment,
)
from coordinator.events import Heartbeat, Join, Leave, LeavingMember, Protocol, Sync
from protocol.ids import Partition

SESSION_MS = 45_000
REBALANCE_MS = 20_000


@dataclass(slots=True)
class ClassicConsumer:
    """A client; see consumer_simulation.Consumer for what is common to both.

    Attributes:
        next: what it sends next: "join", "sync" or "heartbeat".
        shares: as the leader of this generation, what it assigns.
    """

    names: tuple[str, ...]
    is_eager: bool
    catalog: Catalog
    member_id: str = ""
    generation: int = -1
    next: str = "join"
    shares: dict[str, bytes] = field(default_factory=dict)
    held: set[Partition] = field(default_factory=set)
    told: set[Partition] = field(default_factory=set)
    waits: object = None
    is_alive: bool = True

    def request(self, token: object, _: Catalog) -> Join | Sync | Heartbeat:
        self.waits = token
        if self.next == "heartbeat":
            return Heartbeat(
                token=token,
                generation_id=self.generation,
                member_id=self.member_id,
                instance_id=None,
            )
        if self.next == "sync":
            return Sync(
                token=token,
                generation_id=self.generation,
                member_id=self.member_id,
                instance_id=None,
                protocol_type="consumer",
                protocol_name="cooperative-sticky",
                assignments=self.shares,
            )
        if self.is_eager:
            self.held.clear()
            self.told.clear()
        return Join(
            token=token,
            member_id=self.member_id,
            instance_id=None,
            client_id="c",
            client_host="/10.0.0.2",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[Protocol(name="cooperative-sticky", metadata=self._metadata())],
            needs_member_id=False,
            skips_assignment=False,
        )

    def leave(self, token: object, _: int, __: Catalog) -> Leave:
        self.held.clear()
        self.is_alive = False
        return Leave(
            token=token, members=[LeavingMember(member_id=self.member_id, instance_id=None)]
        )

    def hear(self, answer: Answer) -> None:
        self.waits = None
        match answer:
            case JoinAnswer(error_code=ErrorCode.none):
                self.member_id = answer.member_id
                self.generation = answer.generation_id
                self.shares = {}
                if answer.leader == self.member_id:
                    self.shares = self._assigned(answer.members)
                self.next = "sync"
            case SyncAnswer(error_code=ErrorCode.none):
                by_name, _ = read_assignment(answer.assignment)
                self.told = set(to_partitions(by_name, self.catalog))
                self.held |= self.told
                self.next = "heartbeat"
            case HeartbeatAnswer(error_code=ErrorCode.none):
                pass
            case JoinAnswer() | SyncAnswer() | HeartbeatAnswer():
                self._refused(answer.error_code)
            case _:
                raise AssertionError(answer)

    def lose(self) -> None:
        self.waits, self.next = None, "join"

    def revoke(self) -> None:
        """Give up what it may not keep, and then tell so by joining again."""
        if self.held - self.told and self.next == "heartbeat":
            self.held &= self.told
            if self.waits is None:
                self.next = "join"

    def _refused(self, error_code: ErrorCode) -> None:
        self.next = "join"
        if error_code is ErrorCode.rebalance_in_progress:
            return
        assert error_code in {ErrorCode.unknown_member_id, ErrorCode.illegal_generation}, error_code
        self.held.clear()
        self.told.clear()
        if error_code is ErrorCode.unknown_member_id:
            self.member_id = ""

    def _metadata(self) -> bytes:
        names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in self.names)
        owned = write_assignment(self.held, self.catalog)[2:-4]
        return b"\0\1" + len(self.names).to_bytes(4) + names + b"\xff\xff\xff\xff" + owned

    def _assigned(self, members: Sequence[JoinedMember]) -> dict[str, bytes]:
        """Share everything out in turn, but nothing that another one has not given up yet."""
        claims = {
            member.member_id: to_partitions(read_subscription(member.metadata).owned, self.catalog)
            for member in members
        }
        ids = sorted(claims)
        shares: dict[str, set[Partition]] = {member_id: set() for member_id in ids}
        everything = sorted(
            Partition(topic.topic_id, index)
            for name, topic in self.catalog.by_name.items()
            if name in self.names
            for index in range(topic.partition_count)
        )
        for place, partition in enumerate(everything):
            member_id = ids[place % len(ids)]
            if not any(partition in claims[other] for other in ids if other != member_id):
                shares[member_id].add(partition)
        return {member_id: write_assignment(s, self.catalog) for member_id, s in shares.items()}
