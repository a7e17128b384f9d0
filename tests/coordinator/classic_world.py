"""Clients of one classic group, and a coordinator that runs its effects and may die at any of them.

`Runner` checks what every reader of the group relies on, whatever happens: each request is answered
at most once, a generation is told only after it is saved and is the same for all who hear of it,
and no partition belongs to two members of one generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from kio.schema.errors import ErrorCode

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
from coordinator.events import ClassicEvent, Heartbeat, Join, Leave, Sync, TimerFired
from coordinator.snapshots import GroupSnapshot, GroupState

PARTITIONS = range(5)


@dataclass(slots=True, kw_only=True)
class Client:
    """What one process believes.

    Attributes:
        wants: what a well-behaved client asks next.
        assignments: what it would send as the leader of the generation it was told of.
        past: all (member id, generation) that it was ever told of.
    """

    name: str
    instance_id: str | None
    wants: Literal["join", "sync", "heartbeat"] = "join"
    member_id: str = ""
    generation_id: int = -1
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    past: list[tuple[str, int]] = field(default_factory=list)

    def hear(self, answer: Answer) -> None:
        match answer:
            case JoinAnswer(error_code=ErrorCode.member_id_required):
                self.member_id = answer.member_id
            case JoinAnswer(error_code=ErrorCode.none):
                self.member_id, self.generation_id = answer.member_id, answer.generation_id
                self.assignments = assign([member.member_id for member in answer.members])
                self.past.append((answer.member_id, answer.generation_id))
                self.wants = "sync"
            case SyncAnswer(error_code=ErrorCode.none):
                self.wants = "heartbeat"
            case JoinAnswer() | SyncAnswer() | HeartbeatAnswer():
                self._hear_error(answer.error_code)
            case LeaveAnswer() | ConsumerHeartbeatAnswer():
                pass

    def _hear_error(self, error_code: ErrorCode) -> None:
        if error_code is ErrorCode.none:
            return
        self.wants = "join"
        if error_code is not ErrorCode.rebalance_in_progress:
            self.member_id, self.generation_id, self.assignments = "", -1, {}


def assign(member_ids: list[str]) -> dict[str, bytes]:
    """Deal the partitions out, each to one member."""
    return {
        member_id: bytes(PARTITIONS[turn :: len(member_ids)])
        for turn, member_id in enumerate(member_ids)
    }


class Crash(Exception):
    """The coordinator died at an effect; those after it never happen."""


class Runner:
    """The broker around the group."""

    def __init__(self, *, initial_rebalance_delay_ms: int, max_size: int) -> None:
        numbers = count(1)
        self.config = GroupConfig(
            classic=ClassicConfig(
                initial_rebalance_delay_ms=initial_rebalance_delay_ms,
                max_size=max_size,
            ),
            consumer=ConsumerConfig(),
            new_uuid=lambda: str(next(numbers)),
        )
        self.group = ClassicGroup("orders", self.config)
        self.saved: GroupSnapshot | None = None
        self.now_ms = 0
        self.deadline_ms: int | None = None
        self.asked: dict[object, tuple[Client, ClassicEvent]] = {}
        self.told_generation = 0
        self._tokens = count(1)
        self._members_told: dict[int, frozenset[str]] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._instances: dict[str, str | None] = {}

    def ask(
        self, client: Client, event: Join | Sync | Heartbeat | Leave, crash_at: int | None = None
    ) -> None:
        """Send a request; the coordinator dies at the effect with that number, if any."""
        token = next(self._tokens)
        event = replace(event, token=token)
        self.asked[token] = (client, event)
        self._handle(event, crash_at)
        if isinstance(event, Heartbeat):
            assert token not in self.asked, "a heartbeat is answered at once"

    def advance(self, by_ms: int) -> None:
        """Let time pass, and the timer fire when it is due."""
        end_ms = self.now_ms + by_ms
        while self.deadline_ms is not None and self.deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.deadline_ms)
            self.deadline_ms = None
            self._handle(TimerFired(), None)
        self.now_ms = end_ms

    def waits(self, client: Client) -> bool:
        """Whether a request of the client is parked."""
        return any(asker is client for asker, _ in self.asked.values())

    def restore(self) -> None:
        """Another coordinator takes over; parked requests are lost with their connections."""
        self.asked.clear()
        self.group = self._taken(self.saved)
        assert self.group.generation_id >= self.told_generation
        self.deadline_ms = None
        self._run(self.group.start(), None)

    @property
    def _saved_generation(self) -> int:
        return 0 if self.saved is None else self.saved.generation_id

    def identity(self, member_id: str) -> str:
        return self._instances.get(member_id) or member_id

    def _handle(self, event: ClassicEvent, crash_at: int | None) -> None:
        generation_id = self.group.generation_id
        effects = self.group.handle(event, now_ms=self.now_ms)
        assert self.group.generation_id >= generation_id
        self._check_order(effects)
        self._check_saved(effects)
        try:
            self._run(effects, crash_at)
        except Crash:
            self.restore()

    def _check_order(self, effects: list[Effect]) -> None:
        arms = [position for position, each in enumerate(effects) if isinstance(each, ArmTimer)]
        assert arms in ([], [len(effects) - 1]), "ArmTimer is the last effect"

    def _check_saved(self, effects: list[Effect]) -> None:
        if self.group.state is not GroupState.PREPARING_REBALANCE:
            saves = [effect.group for effect in effects if isinstance(effect, Save)]
            again = self._taken(saves[-1] if saves else self.saved)
            assert again.describe() == self.group.describe()

    def _taken(self, saved: GroupSnapshot | None) -> ClassicGroup:
        """Return the group of a coordinator that takes it over; new, if nothing was saved yet."""
        if saved is None:
            return ClassicGroup("orders", self.config)
        return ClassicGroup.restore(saved, self.config, now_ms=self.now_ms)

    def _run(self, effects: list[Effect], crash_at: int | None) -> None:
        for position, effect in enumerate(effects):
            if position == crash_at:
                raise Crash
            match effect:
                case Save(group=snapshot):
                    assert snapshot.generation_id >= self._saved_generation
                    self.saved = snapshot
                case Reply():
                    self._reply(effect)
                case ArmTimer(deadline_ms=deadline_ms):
                    assert deadline_ms is None or deadline_ms >= self.now_ms
                    self.deadline_ms = deadline_ms
                case Expired(member_id=member_id):
                    assert member_id not in {one.member_id for one in self.group.describe().members}

    def _reply(self, reply: Reply) -> None:
        assert reply.token in self.asked, "a request is answered once"
        client, event = self.asked.pop(reply.token)
        if isinstance(reply.answer, JoinAnswer):
            self._instances[reply.answer.member_id] = client.instance_id
            if reply.answer.error_code is ErrorCode.none:
                self._check_generation(reply.answer)
        elif isinstance(reply.answer, SyncAnswer) and reply.answer.error_code is ErrorCode.none:
            assert isinstance(event, Sync)
            for partition in reply.answer.assignment:
                key = (event.generation_id, partition)
                owner = self.identity(event.member_id)
                assert self._owners.setdefault(key, owner) == owner
        client.hear(reply.answer)

    def _check_generation(self, answer: JoinAnswer) -> None:
        assert answer.generation_id <= self._saved_generation, "told before it was saved"
        self.told_generation = max(self.told_generation, answer.generation_id)
        if answer.members:
            members = frozenset(each.instance_id or each.member_id for each in answer.members)
            assert self._members_told.setdefault(answer.generation_id, members) == members
