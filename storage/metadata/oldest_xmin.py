"""Who holds back Postgres' oldest xmin, by a snapshot or a transaction (none of Kafka's).

Each commit writes the rows of its partitions anew. What it leaves of the old ones is removed once
nobody can see it any more; until then later commits go through all of it, and get slower.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestXmin:
    """Who keeps dead rows from being removed longest.

    Attributes:
        kind: `session`, `standby`, `prepared transaction` or `replication slot`.
        name: of the user, the prepared transaction, or the slot; None if Postgres tells none.
        application: what a session or standby calls itself.
        pid: of the server's process for it, if it has one.
        seconds: since it began; None if Postgres does not tell this role.
        transactions: those that were begun since, in all databases of the server.
    """

    kind: str
    name: str | None
    application: str | None
    pid: int | None
    seconds: float | None
    transactions: int
