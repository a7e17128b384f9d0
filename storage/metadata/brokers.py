"""The metadata port's brokers: who is alive, by the database's clock.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_brokers.py:
- Whoever registers with an identity (its first advertised address) that was seen in the last day
  gets the node id that it had; nobody else gets it as long as it is alive, and a day longer. But
  only the MOST_DEAD are known, or as many as are alive, if that is more: those that were heard of
  last, but first of all those that had been alive for SETTLED_MS by then, without a gap.
- Who gets a node id that another identity had finds nothing set of it, neither configs nor how it
  was started (EntityKind.BROKER, BROKER_START). Whoever had it last finds what is set, even if it
  was forgotten.
- Who registers with the identity of a broker that is alive is refused. One that was heard of within
  the time to live is alive, unless it is known to have ended (Postgres: so have its sessions).
- The generation grows with every change of the set of live brokers or of known ones, and never for
  anything else but a registration: two brokers that know the same generation know the same sets.
  One that a broker has seen is not given again, even by a database that forgot it (a standby that
  lagged).
- A broker that has not been heard of for the time to live is dead as soon as another one sends its
  heartbeat, unless that one was away, too: then it is the database that was away, and everybody
  gets the time to come back. For half of that time, the other one must have been heard of.
  (Postgres: a heartbeat that finds the cluster locked for long, as by who deletes a big topic,
  leaves it to a later one.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

MOST_DEAD: Final = 50
"""Brokers that are known and not alive: no fewer than a cluster may have that starts anew."""

SETTLED_MS: Final = 10 * 60 * 1000
"""A broker that starts over and over under new addresses is never alive for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """A broker.

    Attributes:
        addresses: as advertised, one for each of its listeners: HOST:PORT of one that speaks
            PLAINTEXT, else PROTOCOL://HOST:PORT.
        rack: where it stands (broker.rack), if it was told.
    """

    node_id: int
    addresses: tuple[str, ...]
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The cluster at one moment.

    Attributes:
        node_id: of the broker that asked.
        generation: of this set of brokers.
        brokers: those that are alive, in the order of their node ids.
        dead: those that are not and whose node ids nobody else gets; without their addresses.
    """

    node_id: int
    generation: int
    brokers: Sequence[BrokerRecord]
    dead: Sequence[BrokerRecord] = ()


class BrokerLife(StrEnum):
    """What the cluster knows of a node id.

    Attributes:
        UNKNOWN: nobody has it.
    """

    LIVE = "live"
    DEAD = "dead"
    UNKNOWN = "unknown"


class BrokerStore(Protocol):
    """Part of MetadataStore; see the module's docstring for what every implementation promises.

    Every call raises MetadataUnavailable when Postgres gives no answer in time.
    """

    async def register_broker(
        self,
        incarnation: UUID,
        addresses: Sequence[str],
        *,
        rack: str | None,
        preferred_node_id: int,
        alone: bool,
        time_to_live_ms: int,
    ) -> Membership:
        """Join the cluster.

        `incarnation` is of this process: who registers with the same identity once it is dead
        displaces it. An identity that is new gets the first free node id from `preferred_node_id`
        on. If `alone`, every other broker is known to be dead.

        Raises:
            IdentityTaken: a broker with that identity is alive.
            DatabaseNotSupported: a newer version has come, which stops this one.
        """

    async def broker_heartbeat(
        self, node_id: int, incarnation: UUID, *, known_generation: int, time_to_live_ms: int
    ) -> Membership:
        """Say that this broker is alive, and see who else is.

        Raises:
            BrokerDisplaced: another process has registered with this broker's identity, or a newer
                version has come while this broker was away.
        """

    async def deregister_broker(self, node_id: int, incarnation: UUID) -> Membership:
        """Leave the cluster, and see who is left. To leave twice is to leave once."""

    async def dead_brokers(self) -> list[BrokerRecord]:
        """Return the brokers that are known and not alive, in the order of their node ids."""

    async def forget_broker(self, node_id: int) -> BrokerLife:
        """Forget a dead broker, so that its node id is free; return what the broker was.

        One that comes back after that is new; a process that was only silent is displaced.
        """
