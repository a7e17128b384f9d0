"""Limits and times of groups; broker/groups/group_setup.py fills them in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.shown_topics import Visibility

MAX_NAME_LENGTH: Final = 255
"""How much of a client's name its member id begins with; an id has to fit into an answer."""

MAX_SAID_BYTES: Final = 16 * 1024 * 1024
"""What all members of a group may say of themselves: it is told to the leader of a classic one, and
saved as a whole. Kafka keeps what fits into a record, a megabyte."""

MAX_MEMBER_BYTES: Final = 1024 * 1024
"""What one member of a consumer group may say of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConfig:
    """By Kafka's names.

    Attributes:
        initial_rebalance_delay_ms: how long the first rebalance of an empty group waits for more
            members (group.initial.rebalance.delay.ms); anew with each member that comes meanwhile,
            up to its rebalance timeout.
        max_size: group.max.size.
    """

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """By Kafka's names (KIP-848), without "group.consumer".

    Attributes:
        assignors: group.consumer.assignors; the first is used when members do not ask for one.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 1_000
    assignors: tuple[str, ...] = ("uniform", "range")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What a group needs to know.

    Attributes:
        new_uuid: makes a fresh text for a member id; the only randomness, so it is handed in.
        visible_to: tells which topics a user may know of; None where nothing is kept from anybody.
    """

    classic: ClassicConfig
    consumer: ConsumerConfig
    new_uuid: Callable[[], str]
    visible_to: Visibility | None = None

    def new_member_id(self, name: str) -> str:
        """Return a fresh id for a member that the client calls `name`."""
        return f"{name[:MAX_NAME_LENGTH]}-{self.new_uuid()}"
