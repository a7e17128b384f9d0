"""The metadata port's tasks, on Postgres."""

from collections.abc import Mapping, Sequence

from protocol.ids import Partition
from storage.metadata.tasks import TaskKind
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pool import PostgresPool


class PostgresTasks:
    """Tasks; see TaskStore for what each method promises."""

    _pool: PostgresPool

    async def begin_round(self, name: str, every_ms: int) -> bool:
        return bool(await self._pool.fetch("task_begin_round", name, every_ms))

    async def add_tasks(self, kind: TaskKind, partitions: Sequence[Partition]) -> None:
        columns = partition_columns(sorted(partitions))  # two brokers that add never deadlock
        await self._pool.fetch("task_add", kind.value, *columns)

    async def claim_task(self, kind: TaskKind, lease_ms: int) -> Partition | None:
        rows = await self._pool.fetch("task_claim", kind.value, lease_ms)
        return Partition(rows[0]["topic_id"], rows[0]["partition"]) if rows else None

    async def renew_task(self, kind: TaskKind, partition: Partition, lease_ms: int) -> None:
        await self._pool.fetch("task_renew", kind.value, *partition, lease_ms)

    async def finish_task(self, kind: TaskKind, partition: Partition) -> None:
        await self._pool.fetch("task_finish", kind.value, *partition)

    async def backlog(self) -> Mapping[str, int]:
        rows = await self._pool.fetch("task_find_backlog")
        none = dict.fromkeys((kind.value for kind in TaskKind), 0)
        return none | {row["name"]: row["waiting"] for row in rows}
