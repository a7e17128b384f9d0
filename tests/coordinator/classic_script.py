"""Golden scenarios of classic groups: one event per line, and indented below it what comes out.

    # what the scenario shows
    limits max_size=3                         optional; fields of ClassicConfig
    0 join a1 client=a protocols=range:t1     time in ms, event, token of the request, fields
      reply a1 join MEMBER_ID_REQUIRED member=a-1
      arm 10000

Fields that are not named have the defaults below. Member ids end in 1, 2, 3 ... in the order in
which they are made. `restore` makes the group anew from the last save, as another coordinator
does; `commit`, `transact` (a commit in a transaction), `describe` and `topics` ask and change
nothing but the session.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from coordinator import classic_document
from coordinator.answers import (
    Answer,
    ConsumerHeartbeatAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from coordinator.classic import ClassicGroup
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.effects import ArmTimer, Effect, Expired, Reply, Save
from coordinator.events import (
    ClassicEvent,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    Protocol,
    Sync,
    TimerFired,
)
from coordinator.snapshots import GroupSnapshot

LIMITS = {"max_size": 10, "initial_rebalance_delay_ms": 3_000}


def subscription(*topics: str) -> bytes:
    """Return metadata of protocol type "consumer", version 1, without owned partitions."""
    names = [topic.encode() for topic in topics]
    written = b"".join(len(name).to_bytes(2) + name for name in names)
    return b"\0\1" + len(topics).to_bytes(4) + written + b"\xff\xff\xff\xff\0\0\0\0"


class Script:
    """Plays a scenario and writes down what really came out, in the scenario's own form."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def expected(self) -> list[str]:
        """Return the scenario without comments and empty lines."""
        return [line for line in self._lines if line.strip() and not line.startswith("#")]

    def play(self) -> list[str]:
        """Return the scenario as it should have been written."""
        return list(self._play())

    def _play(self) -> Iterator[str]:
        limits: dict[str, int] = dict(LIMITS)
        player: Player | None = None
        for line in self.expected():
            if line.startswith(" "):
                continue
            yield line
            first, *words = line.split()
            if first == "limits":
                limits |= {key: int(value) for key, value in _fields(words).items()}
                continue
            player = player or Player(ClassicConfig(**limits))
            for output in player.step(int(first), words):
                yield f"  {output}"


class Player:
    """One group and the time."""

    def __init__(self, limits: ClassicConfig) -> None:
        numbers = count(1)
        self._config = GroupConfig(
            classic=limits, consumer=ConsumerConfig(), new_uuid=lambda: str(next(numbers))
        )
        self._group = ClassicGroup("orders", self._config)
        self._saved: GroupSnapshot | None = None

    def step(self, now_ms: int, words: Sequence[str]) -> list[str]:
        verb, *rest = words
        if verb == "restore":
            assert self._saved is not None, "nothing was saved yet"
            self._group = ClassicGroup.restore(self._saved, self._config, now_ms=now_ms)
            return self._written(self._group.start())
        if verb == "commit":
            return [self._commit(_fields(rest), now_ms)]
        if verb == "transact":
            return [self._transact(_fields(rest))]
        if verb == "describe":
            return self._described()
        if verb == "topics":
            topics = self._group.subscribed_topics()
            return ["nobody knows" if topics is None else ",".join(sorted(topics)) or "none"]
        return self._written(self._group.handle(EVENTS[verb](rest), now_ms=now_ms))

    def _written(self, effects: Sequence[Effect]) -> list[str]:
        lines = []
        for effect in effects:
            match effect:
                case Save(group=group):
                    self._saved = group
                    restored = classic_document.restored_state(group, self._config, now_ms=0)
                    assert classic_document.save(restored).group == group
                    lines.append(_written_save(group))
                case Reply(token=token, answer=answer):
                    lines.append(f"reply {token} {written_answer(answer)}")
                case ArmTimer(deadline_ms=deadline_ms):
                    lines.append(f"arm {'never' if deadline_ms is None else deadline_ms}")
                case Expired(member_id=member_id, reason=reason):
                    lines.append(f"expired {member_id}: {reason}")
        return lines

    def _commit(self, fields: Mapping[str, str], now_ms: int) -> str:
        return self._group.check_commit(
            member_id=fields.get("member", ""),
            instance_id=fields.get("instance"),
            generation_id=int(fields.get("generation", "-1")),
            now_ms=now_ms,
        ).name.upper()

    def _transact(self, fields: Mapping[str, str]) -> str:
        return self._group.check_transactional_commit(
            member_id=fields.get("member", ""),
            instance_id=fields.get("instance"),
            generation_id=int(fields.get("generation", "-1")),
        ).name.upper()

    def _described(self) -> list[str]:
        group = self._group.describe()
        first = f"{group.state} type={group.protocol_type} protocol={group.protocol_name}"
        return [first] + [
            f"{member.member_id} instance={member.instance_id or ''} client={member.client_id}"
            f" host={member.client_host} metadata={_text(member.metadata)}"
            f" assignment={member.assignment.decode()}"
            for member in group.members
        ]


def written_answer(answer: Answer) -> str:
    match answer:
        case JoinAnswer(generation_id=-1):
            return f"join {answer.error_code.name.upper()} member={answer.member_id}"
        case JoinAnswer():
            members = ",".join(
                f"{member.member_id}:{_text(member.metadata)}" for member in answer.members
            )
            return (
                f"join {answer.error_code.name.upper()} generation={answer.generation_id}"
                f" {answer.protocol_type}/{answer.protocol_name} leader={answer.leader}"
                f" member={answer.member_id}"
                + (f" members={members}" if members else "")
                + (" skip_assignment" if answer.skip_assignment else "")
            )
        case SyncAnswer():
            named = f" {answer.protocol_type}/{answer.protocol_name}" * (not answer.error_code)
            assignment = f" assignment={answer.assignment.decode()}" * (not answer.error_code)
            return f"sync {answer.error_code.name.upper()}{named}{assignment}"
        case HeartbeatAnswer():
            return f"heartbeat {answer.error_code.name.upper()}"
        case LeaveAnswer():
            return "leave " + " ".join(
                _identity(left.member_id, left.instance_id) + f":{left.error_code.name.upper()}"
                for left in answer.members
            )
        case ConsumerHeartbeatAnswer():
            raise AssertionError("a classic group answers no consumer heartbeats")


def _written_save(group: GroupSnapshot) -> str:
    document = json.loads(group.document.text)
    members = ",".join(
        f"{member['id']}:{b64decode(member['assignment']).decode()}"
        for member in document["members"]
    )
    return (
        f"save {group.state} generation={group.generation_id}"
        f" {group.protocol_type}/{document['protocol'] or ''} leader={document['leader'] or ''}"
        f" members={members}"
    )


def _identity(member_id: str, instance_id: str | None) -> str:
    return member_id if instance_id is None else f"{member_id}/{instance_id}"


def _text(metadata: bytes) -> str:
    """Return the topic in a subscription, or what else was said."""
    if metadata.startswith(b"\0\1"):
        return metadata[8:-8].decode()
    return metadata.decode()


def _fields(words: Sequence[str]) -> dict[str, str]:
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _pairs(value: str) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in (pair.partition(":") for pair in value.split(","))]


def _join(words: Sequence[str]) -> Join:
    token, *rest = words
    fields = _fields(rest)
    version = int(fields.get("version", "9"))
    protocol_type = fields.get("type", "consumer")
    chosen = fields.get("protocols", "range:t1")
    return Join(
        token=token,
        member_id=fields.get("member", ""),
        instance_id=fields.get("instance"),
        client_id=fields.get("client", token[0]),
        client_host=fields.get("host", "/10.0.0.1"),
        session_timeout_ms=int(fields.get("session", "10000")),
        rebalance_timeout_ms=int(fields.get("rebalance", "60000")),
        protocol_type=protocol_type,
        protocols=[
            Protocol(
                name=name,
                metadata=subscription(text) if protocol_type == "consumer" else text.encode(),
            )
            for name, text in (_pairs(chosen) if chosen else ())
        ],
        needs_member_id=version >= 4,
        skips_assignment=version >= 9,
    )


def _sync(words: Sequence[str]) -> Sync:
    token, *rest = words
    fields = _fields(rest)
    assignments = fields.get("assign", "")
    return Sync(
        token=token,
        generation_id=int(fields["generation"]),
        member_id=fields["member"],
        instance_id=fields.get("instance"),
        protocol_type=fields.get("type"),
        protocol_name=fields.get("protocol"),
        assignments={
            name: text.encode() for name, text in (_pairs(assignments) if assignments else ())
        },
    )


def _heartbeat(words: Sequence[str]) -> Heartbeat:
    token, *rest = words
    fields = _fields(rest)
    return Heartbeat(
        token=token,
        generation_id=int(fields["generation"]),
        member_id=fields["member"],
        instance_id=fields.get("instance"),
    )


def _leave(words: Sequence[str]) -> Leave:
    token, *rest = words
    identities = (word.partition("/") for word in rest)
    return Leave(
        token=token,
        members=[
            LeavingMember(member_id=member_id, instance_id=instance_id if slash else None)
            for member_id, slash, instance_id in identities
        ],
    )


def _timer(_: Sequence[str]) -> TimerFired:
    return TimerFired()


EVENTS: Mapping[str, Callable[[Sequence[str]], ClassicEvent]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "timer": _timer,
}
