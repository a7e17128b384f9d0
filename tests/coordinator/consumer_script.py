"""Golden scenarios of consumer groups: one event per line, indented below it what comes out.

    # what the scenario shows
    limits max_size=2                        optional; fields of ConsumerConfig
    0 topics t1=3 t2=1                       all topics from now on; a consumer group is told
    0 beat a1 member=a epoch=0               time in ms, event, token of the request, fields
      save Stable epoch=1/1 a@1 t1:0-1-2
      reply a1 NONE member=a epoch=1 assigned=t1:0-1-2
      arm 45000

A `beat` with epoch=0 has names=t1, rebalance=60000 and owned= unless it says otherwise; all others
have only what they say. Partitions are written t1:0-1,t2:0. A save shows group epoch and assignment
epoch, and of each member its epoch, its state unless stable, what it may hold, what it `revokes`
and, where it differs, its `target`. `join`, `sync`, `heartbeat`, `leave` are those of the classic
protocol (classic_script.py); metadata are subscriptions to the topic after the colon, a joining
member owns what owned= says. `restore` makes the group anew from the last save; `commit`,
`transact` (a commit in a transaction), `fetch`, `describe` and `subscribed` ask and change nothing;
a commit is `of` partitions, and a fetch may come while what was before is `saving`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

from coordinator.answers import Answer, ConsumerHeartbeatAnswer, SyncAnswer
from coordinator.catalog import Catalog, CatalogTopic
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_member import Member, MemberState
from coordinator.consumer_protocol import read_assignment
from coordinator.descriptions import ConsumerDescription
from coordinator.effects import ArmTimer, Effect, Expired, Reply, Save
from coordinator.events import ConsumerHeartbeat, Join, Protocol, TopicsChanged
from coordinator.group import Group
from coordinator.snapshots import GroupSnapshot, GroupType
from protocol.ids import Partition
from tests.coordinator.classic_script import EVENTS, written_answer

GROUP_ID = "orders"


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
        limits: dict[str, Any] = {}
        player: Player | None = None
        for line in self.expected():
            if line.startswith(" "):
                continue
            yield line
            first, *words = line.split()
            if first == "limits":
                limits |= {key: int(value) for key, value in fields_of(words).items()}
                continue
            player = player or Player(ConsumerConfig(**limits))
            for output in player.step(int(first), words):
                yield f"  {output}"


class Player:
    """One group, the topics and the time."""

    def __init__(self, limits: ConsumerConfig) -> None:
        numbers = count(1)
        self._config = GroupConfig(
            classic=ClassicConfig(initial_rebalance_delay_ms=0),
            consumer=limits,
            new_uuid=lambda: str(next(numbers)),
        )
        self._group = Group(GROUP_ID, self._config)
        self._saved: GroupSnapshot | None = None
        self._catalog = Catalog(version=0, by_name={})

    def step(self, now_ms: int, words: Sequence[str]) -> list[str]:
        verb, *rest = words
        ask = getattr(self, f"_ask_{verb}", None)
        if ask is not None:
            lines: list[str] = ask(fields_of(rest), now_ms)
            return lines
        if verb == "restore":
            assert self._saved is not None, "nothing was saved yet"
            self._group = Group.restore(self._saved, self._config, now_ms=now_ms)
            return self._written(self._group.start(now_ms=now_ms))
        if verb == "topics":
            self._set_topics(fields_of(rest))
            if not self._group.needs_catalog:
                return []
            changed = TopicsChanged(catalog=self._catalog)
            return self._written(self._group.handle(changed, now_ms=now_ms))
        event = self._beat(rest) if verb == "beat" else EVENTS[verb](rest)
        if isinstance(event, Join):
            event = _with_owned(event, fields_of(rest).get("owned", ""))
        return self._written(self._group.handle(event, now_ms=now_ms))

    def _set_topics(self, sizes: Mapping[str, str]) -> None:
        topics = {
            name: CatalogTopic(topic_id=topic_id(name), name=name, partition_count=int(size))
            for name, size in sizes.items()
        }
        self._catalog = Catalog(
            version=self._catalog.version + 1,
            by_name=topics,
            by_id={topic.topic_id: topic for topic in topics.values()},
        )

    def _beat(self, words: Sequence[str]) -> ConsumerHeartbeat:
        token, *rest = words
        fields = fields_of(rest)
        epoch = int(fields["epoch"])
        if epoch == 0:
            first = {"rebalance": "60000", "owned": ""} | ({} if "regex" in fields else NAMES)
            fields = first | fields
        names = fields.get("names")
        owned = fields.get("owned")
        return ConsumerHeartbeat(
            token=token,
            member_id=fields.get("member", ""),
            member_epoch=epoch,
            instance_id=fields.get("instance"),
            rack_id=fields.get("rack"),
            client_id=fields.get("client", "c"),
            client_host="/10.0.0.1",
            principal="ANONYMOUS",
            rebalance_timeout_ms=int(fields.get("rebalance", "-1")),
            subscribed_topic_names=None if names is None else [n for n in names.split(",") if n],
            subscribed_topic_regex=fields.get("regex"),
            server_assignor=fields.get("assignor"),
            owned_partitions=None if owned in {None, "null"} else parsed(owned or ""),
            catalog=self._catalog,
        )

    def _written(self, effects: Sequence[Effect]) -> list[str]:
        lines = []
        for effect in effects:
            match effect:
                case Save(group=group):
                    self._saved = group
                    lines.append(_written_save(group, self._config))
                case Reply(token=token, answer=answer):
                    lines.append(f"reply {token} {_written_answer(answer)}")
                case ArmTimer(deadline_ms=deadline_ms):
                    lines.append(f"arm {'never' if deadline_ms is None else deadline_ms}")
                case Expired(member_id=member_id, reason=reason):
                    lines.append(f"expired {member_id}: {reason}")
        return lines

    def _ask_commit(self, fields: Mapping[str, str], now_ms: int) -> list[str]:
        code = self._group.check_commit(
            member_id=fields.get("member", ""),
            instance_id=None,
            generation_id=int(fields.get("epoch", "-1")),
            partitions=set(parsed(fields.get("of", ""))),
            now_ms=now_ms,
        )
        return [code.name.upper()]

    def _ask_transact(self, fields: Mapping[str, str], _: int) -> list[str]:
        code = self._group.check_transactional_commit(
            member_id=fields.get("member", ""),
            instance_id=fields.get("instance"),
            generation_id=int(fields.get("epoch", "-1")),
            partitions=set(parsed(fields.get("of", ""))),
        )
        return [code.name.upper()]

    def _ask_fetch(self, fields: Mapping[str, str], _: int) -> list[str]:
        code = self._group.check_fetch(
            member_id=fields.get("member"),
            member_epoch=int(fields.get("epoch", "-1")),
            is_saving="saving" in fields,
        )
        return [code.name.upper()]

    def _ask_subscribed(self, _: Mapping[str, str], __: int) -> list[str]:
        topics = self._group.subscribed_topics()
        return ["nobody knows" if topics is None else ",".join(sorted(topics)) or "none"]

    def _ask_describe(self, _: Mapping[str, str], __: int) -> list[str]:
        group = self._group.describe()
        if not isinstance(group, ConsumerDescription):
            return [f"classic {group.state} type={group.protocol_type}"]
        epochs = f"epoch={group.group_epoch}/{group.assignment_epoch}"
        return [f"{group.state} {epochs} assignor={group.assignor_name}"] + [
            f"{member.member_id}@{member.member_epoch} instance={member.instance_id or ''}"
            f" rack={member.rack_id or ''} names={','.join(sorted(member.subscribed_topic_names))}"
            f" regex={member.subscribed_topic_regex or ''} assigned={written(member.assignment)}"
            f" target={written(member.target_assignment)}" + " classic" * member.is_classic
            for member in group.members
        ]


NAMES = {"names": "t1"}


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().rjust(16, b"\0"))


def written(partitions: Iterable[Partition]) -> str:
    indexes = defaultdict[UUID, list[str]](list)
    for partition in sorted(partitions):
        indexes[partition.topic_id].append(str(partition.index))
    return ",".join(
        f"{topic.bytes.lstrip(bytes(1)).decode()}:{'-'.join(numbers)}"
        for topic, numbers in indexes.items()
    )


def parsed(text: str) -> list[Partition]:
    topics = (part.split(":") for part in text.split(",") if part)
    return [
        Partition(topic_id(name), int(i)) for name, numbers in topics for i in numbers.split("-")
    ]


def fields_of(words: Sequence[str]) -> dict[str, str]:
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _with_owned(event: Join, owned: str) -> Join:
    """Write what a cooperative member owns into its metadata."""
    indexes = defaultdict[str, list[int]](list)
    for partition in parsed(owned):
        indexes[partition.topic_id.bytes.lstrip(bytes(1)).decode()].append(partition.index)
    claims = len(indexes).to_bytes(4) + b"".join(
        len(name).to_bytes(2)
        + name.encode()
        + len(numbers).to_bytes(4)
        + b"".join(number.to_bytes(4) for number in numbers)
        for name, numbers in indexes.items()
    )
    return replace(
        event,
        protocols=[
            Protocol(name=protocol.name, metadata=protocol.metadata.removesuffix(bytes(4)) + claims)
            if protocol.metadata.startswith(b"\0\1")
            else protocol
            for protocol in event.protocols
        ],
    )


def _written_answer(answer: Answer) -> str:
    match answer:
        case ConsumerHeartbeatAnswer():
            code = answer.error_code.name.upper()
            if answer.error_code:
                return f"{code} {answer.error_message}"
            assigned = answer.assignment
            return f"{code} member={answer.member_id} epoch={answer.member_epoch}" + (
                "" if assigned is None else f" assigned={written(assigned)}"
            )
        case SyncAnswer() if answer.assignment.startswith(b"\0"):
            by_name, _ = read_assignment(answer.assignment)
            text = ",".join(f"{n}:{'-'.join(map(str, found))}" for n, found in by_name.items())
            return written_answer(replace(answer, assignment=text.encode()))
        case _:
            return written_answer(answer)


def _written_save(group: GroupSnapshot, config: GroupConfig) -> str:
    if group.group_type is GroupType.CLASSIC:
        return f"save classic {group.state} generation={group.generation_id}"
    core = ConsumerCore.restore(group, config, now_ms=0)
    assert core.snapshot() == group
    return " ".join(
        [f"save {group.state} epoch={core.epoch}/{core.assignment_epoch}"]
        + [_written_member(member) for member in core.members]
    )


def _written_member(member: Member) -> str:
    said = f"{member.member_id}@{member.member_epoch}"
    if member.state is not MemberState.STABLE:
        said += f"/{member.state}"
    said += f" {written(member.assigned) or 'nothing'}"
    if member.pending_revocation:
        said += f" revokes {written(member.pending_revocation)}"
    if member.target != member.assigned:
        said += f" target {written(member.target)}"
    return said
