"""Where a streaming query is, told to a consumer group, so that tools that show lag show its lag.

The query goes by its checkpoint alone: these offsets are a report. They are written as a group's
coordinator writes them (storage/metadata/groups.py), under an owner epoch of our own. A broker that
loads the group takes it from us, we take it back with the next report; nothing is lost by either. A
group with members belongs to them: it is refused, and never taken.
"""

from typing import Final

from protocol.ids import Partition
from spark.sources.stream_offset import Positions
from sql import query
from storage.metadata.groups import CommittedOffset, GroupWrite
from storage.metadata.metadata_group_writes import to_arguments, to_outcome
from storage.postgres.postgres_connection import Connection
from storage.postgres.postgres_text import to_stored

TRIES: Final = 3


class GroupHasMembers(Exception):
    """Consumers use the group; a query cannot report its offsets to it."""


class GroupProgress:
    """Reports of one query.

    Args:
        group_id: that lag is shown of.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._owner_epoch: int | None = None
        self._reported: Positions = {}

    async def report(self, connection: Connection, positions: Positions) -> None:
        """Commit offsets; those of partitions that are gone are left out.

        Raises:
            GroupHasMembers: somebody else uses the group.
        """
        changed = {each: at for each, at in positions.items() if self._reported.get(each) != at}
        if not changed:
            return
        for _ in range(TRIES):
            if self._owner_epoch is None:
                self._owner_epoch = await self._take(connection)
            write = GroupWrite(
                group_id=self._group_id,
                owner_epoch=self._owner_epoch,
                offsets={
                    Partition(each.topic_id, each.partition): CommittedOffset(offset=at)
                    for each, at in changed.items()
                },
            )
            row = await connection.fetchrow(query("group_write"), *to_arguments([write]))
            assert row is not None, "it is a function"
            if not to_outcome([write], row["fenced"], row["unknown"]).fenced:
                self._reported = dict(positions)
                return
            self._owner_epoch = None  # a broker has loaded the group since

    async def check(self, connection: Connection) -> None:
        """Refuse a group that others use.

        Raises:
            GroupHasMembers: it has members.
        """
        statement = query("group_find_members")
        if await connection.fetchval(statement, to_stored(self._group_id)):
            raise GroupHasMembers(
                f"option commitGroup: group {self._group_id!r} has members; name another one"
            )

    async def _take(self, connection: Connection) -> int:
        await self.check(connection)
        row = await connection.fetchrow(query("group_take"), [to_stored(self._group_id)], True)
        assert row is not None, "it is made"
        return int(row["owner_epoch"])
