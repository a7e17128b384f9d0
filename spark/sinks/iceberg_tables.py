"""Tables of Iceberg."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.sinks.tables import Batch, LakeTable, refusals

QUERY: Final = "streamhouse.query-id"
BATCH: Final = "streamhouse.batch-id"
_UPKEEP: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Each commit writes all snapshots anew: with one a second, a day leaves more than a terabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable(LakeTable):
    """A table of a catalog."""

    @property
    def provider(self) -> str:
        return "iceberg"

    @property
    def upkeep(self) -> Mapping[str, str]:
        return _UPKEEP

    def head(self, session: SparkSession) -> int | None:
        session.catalog.refreshTable(self.name)  # a catalog may keep what it was
        main = session.table(f"{self.name}.refs").where("name = 'main'").head()
        return None if main is None else main["snapshot_id"]

    def last_batch(self, session: SparkSession, query_id: str) -> int:
        session.catalog.refreshTable(self.name)
        summary = F.col("summary")
        mine = session.table(f"{self.name}.snapshots").where(summary[QUERY] == query_id)
        found = mine.agg(F.max(summary[BATCH].cast("bigint")).alias("last")).head()
        return -1 if found is None or found["last"] is None else int(found["last"])

    def append(self, rows: DataFrame, batch: Batch, *, after: int | None) -> int | None:
        if rows.isEmpty() or self._snapshot(rows.sparkSession, batch) is not None:
            return after
        writer = rows.writeTo(self.name).option("isolation-level", "serializable")
        if after is not None:
            writer = writer.option("validate-from-snapshot-id", str(after))
        for name, value in ((QUERY, batch.query_id), (BATCH, str(batch.number))):
            writer = writer.option(f"snapshot-property.{name}", value)
        with refusals():
            writer.overwrite(F.lit(False))  # no row of those that are there
        return self._snapshot(rows.sparkSession, batch)

    def _snapshot(self, session: SparkSession, batch: Batch) -> int | None:
        """Return the snapshot that a batch made."""
        summary = F.col("summary")
        same = (summary[QUERY] == batch.query_id) & (summary[BATCH] == str(batch.number))
        made = session.table(f"{self.name}.snapshots").where(same).head()
        return None if made is None else made["snapshot_id"]


def iceberg_at(session: SparkSession, path: str) -> IcebergTable:
    """Return the Iceberg table of a directory: its parent is a catalog of directories.

    Only one process may commit to such a table at a time where the file system cannot rename
    without replacing (S3): name a table of a REST or Hive catalog there.
    """
    parent, _, name = path.rstrip("/").rpartition("/")
    catalog = f"directory_{sha256(parent.encode()).hexdigest()[:12]}"
    prefix = f"spark.sql.catalog.{catalog}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{prefix}.type", "hadoop")
    session.conf.set(f"{prefix}.warehouse", parent)
    session.conf.set(f"{prefix}.cache-enabled", "false")  # other processes commit, too
    return IcebergTable(name=f"{catalog}.`{name}`")
