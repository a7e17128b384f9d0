"""The process of some members of a crowd: librdkafka consumers that do as they are told."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, Literal, TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition

POLL_S: Final = 0.1

Properties: TypeAlias = Mapping[str, str | int | bool]
Happening = Literal["created", "joining", "owned", "leaving", "closed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make consumers; they do not join yet."""

    names: Sequence[str]
    properties: Properties
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    names: Sequence[str]


Command: TypeAlias = Create | Join | Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened to one member.

    Attributes:
        at_s: when, before it for "joining" and "leaving", after it for all others.
        owned: with "owned": the partitions assigned and not revoked.
        error: with "failed": what the client said.
    """

    name: str
    happening: Happening
    at_s: float
    owned: frozenset[int] = frozenset()
    error: str = ""


class _Member:
    """One consumer in a thread of its own."""

    def __init__(self, name: str, create: Create, tell: Callable[[Event], None]) -> None:
        self._name = name
        self._create = create
        self._tell_parent = tell
        self._owned: frozenset[int] = frozenset()
        self.join = threading.Event()
        self.leave = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._live()
        except KafkaException as error:
            self._tell("failed", str(error))

    def _live(self) -> None:
        properties = {**self._create.properties, "client.id": self._name}
        consumer = Consumer(properties)
        self._tell("created")
        self.join.wait()
        self._tell("joining")
        consumer.subscribe(
            [self._create.topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        while not self.leave.is_set():
            message = consumer.poll(POLL_S)
            if message is not None and (error := message.error()):
                raise KafkaException(error)
        self._tell("leaving")
        consumer.close()
        self._tell("closed")

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._owned |= {place.partition for place in places}
        self._tell("owned")

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._owned -= {place.partition for place in places}
        self._tell("owned")

    def _tell(self, happening: Happening, error: str = "") -> None:
        self._tell_parent(
            Event(
                name=self._name,
                happening=happening,
                at_s=time.monotonic(),
                owned=self._owned,
                error=error,
            )
        )


def work(commands: "Connection[None, Command]", events: "multiprocessing.Queue[Event]") -> None:
    """Do as told, until the parent has closed its end."""
    members: dict[str, _Member] = {}
    while True:
        try:
            command = commands.recv()
        except EOFError:
            return
        match command:
            case Create():
                for name in command.names:
                    members[name] = _Member(name, command, events.put)
            case Join():
                for name in command.names:
                    members[name].join.set()
            case Leave():
                for name in command.names:
                    members.pop(name).leave.set()
