"""Tables of Iceberg and Delta that take each micro-batch once.

Delta knows the last version of each application (txnAppId, txnVersion): of a repeated batch it
writes nothing. Iceberg has the query and the batch in the summary of each snapshot: they are looked
up before a batch is written. Both are committed with the rows, in one step.

A loader that was halted may commit when another one has taken the table: also in that one step the
table refuses what does not come from the run that has it. Delta looks at the run in the transaction
that appends, which fails if properties change meanwhile. Iceberg cannot; it refuses rows if any
were added after the snapshot that their writer names as the last it knows of.

`replace` puts other rows in the place of all, in one commit too: who reads sees the rows of before
or the new ones. The number of the generation is a property of the table and changes with them, and
so do the ids of the topics that the rows are of: rows are told apart by offsets, which begin anew
when a topic is made again. The run that took it last to load it is another one.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

GENERATION: Final = "streamhouse.generation"
RUN: Final = "streamhouse.run"
TOPICS: Final = "streamhouse.topics"
PARTITION_BY: Final = "streamhouse.partition-by"
_MISSING: Final = frozenset(
    {
        "TABLE_OR_VIEW_NOT_FOUND",
        "PATH_NOT_FOUND",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_PATH_DOES_NOT_EXIST",
    }
)
_REFUSALS: Final = (
    "io.delta.exceptions.MetadataChangedException",
    "io.delta.exceptions.ConcurrentTransactionException",
    "org.apache.iceberg.exceptions.ValidationException",
)
"""Of commits that another one made impossible."""


class Overtaken(RuntimeError):
    """The table was changed by others meanwhile: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Which micro-batch is written, and by whom.

    Attributes:
        run: that took the table.
        number: of the batch within its query.
    """

    run: str
    query_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable(ABC):
    """A table that has transactions.

    Attributes:
        name: as SQL takes it.
    """

    name: str

    @property
    @abstractmethod
    def provider(self) -> str:
        """What SQL calls the format."""

    @property
    @abstractmethod
    def upkeep(self) -> Mapping[str, str]:
        """Properties by which it is made, so that it does not keep what nobody reads."""

    @abstractmethod
    def head(self, session: SparkSession) -> int | None:
        """Return what the table's rows are as of; None if it has no rows, or need not know."""

    @abstractmethod
    def append(self, rows: DataFrame, batch: Batch, *, after: int | None) -> int | None:
        """Write a micro-batch, or nothing if it was written before.

        Args:
            rows: of the batch; nothing of them is written if any cannot be.
            batch: see there.
            after: the last `head` whose rows are known, or what the append before this returned.

        Returns:
            What the next one comes after.

        Raises:
            Overtaken: other rows came after `after`, or another run took the table.
        """

    @abstractmethod
    def last_batch(self, session: SparkSession, query_id: str) -> int:
        """Return the last micro-batch of a query that is known to be in it; -1 if none is."""

    def add_columns(self, session: SparkSession, added: StructType) -> None:
        """Add nullable columns; those that are there already are left as they are."""
        there = self.read(session).columns
        missing = [one for one in added if one.name not in there]
        if missing:
            named = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in missing)
            session.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({named})")

    def add(self, rows: DataFrame) -> None:
        """Append rows in one commit, as often as this is called."""
        rows.writeTo(self.name).append()

    def columns(self, session: SparkSession) -> StructType | None:
        """Return the columns, or None if there is no such table."""
        try:
            return self.read(session).schema
        except AnalysisException as error:
            if error.getCondition() in _MISSING:
                return None
            raise

    def read(self, session: SparkSession) -> DataFrame:
        """Return what the table has now."""
        return session.table(self.name)

    def generation(self, session: SparkSession) -> int:
        """Return how often all rows were replaced, plus one; 0 if there is no such table."""
        if self.columns(session) is None:
            return 0
        return int(self._properties(session).get(GENERATION, "1"))

    def take(self, session: SparkSession, run: str, topics: Mapping[str, str]) -> None:
        """Make a run the one that loads the table: whichever did before finds out.

        The ids of topics that are new to the table are kept.
        """
        ids = {**topics, **self.topics(session)}
        properties = f"'{RUN}' = '{run}', '{TOPICS}' = '{_unlike_secrets(ids)}'"
        session.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({properties})")

    def topics(self, session: SparkSession) -> dict[str, str]:
        """Return the ids of the topics that the rows are of, by name; none of older versions."""
        if self.columns(session) is None:
            return {}
        kept = self._properties(session).get(TOPICS, _unlike_secrets({}))
        found: dict[str, str] = json.loads(bytes.fromhex(kept))
        return found

    def run(self, session: SparkSession) -> str | None:
        """Return the run that took the table last."""
        return self._properties(session).get(RUN)

    def partition_by(self, session: SparkSession) -> tuple[str, ...]:
        """Return the columns that make partitions, of a table that `create` or `replace` made."""
        names = self._properties(session).get(PARTITION_BY, "")
        return tuple(names.split(",")) if names else ()

    def create(
        self, session: SparkSession, columns: StructType, partition_by: tuple[str, ...]
    ) -> None:
        """Make the table, unless it is there."""
        if self.columns(session) is None:
            self._writer(session.createDataFrame([], columns), 1, partition_by, {}).create()

    def replace(
        self,
        rows: DataFrame,
        *,
        generation: int,
        partition_by: tuple[str, ...],
        topics: Mapping[str, str],
    ) -> None:
        """Put rows and what is told of them in the place of those that are there: one commit."""
        self._writer(rows, generation, partition_by, topics).createOrReplace()

    def _properties(self, session: SparkSession) -> dict[str, str]:
        rows = session.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return {row["key"]: row["value"] for row in rows}

    def _writer(
        self,
        rows: DataFrame,
        generation: int,
        partition_by: tuple[str, ...],
        topics: Mapping[str, str],
    ) -> DataFrameWriterV2:
        writer = rows.writeTo(self.name).using(self.provider)
        writer = writer.tableProperty(GENERATION, str(generation))
        writer = writer.tableProperty(PARTITION_BY, ",".join(partition_by))
        writer = writer.tableProperty(TOPICS, _unlike_secrets(topics))
        for name, value in self.upkeep.items():
            writer = writer.tableProperty(name, value)
        return writer.partitionedBy(*map(F.col, partition_by)) if partition_by else writer


def _unlike_secrets(ids: Mapping[str, str]) -> str:
    """Return ids by topic in hexadecimal: Spark shows no property that has "token" or "url" in it.

    See SPARK-39342; names of topics may have such words.
    """
    return json.dumps(dict(ids)).encode().hex()


@contextmanager
def refusals() -> Iterator[None]:
    """Raise Overtaken for what a table says of a commit that came too late."""
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() not in _REFUSALS:
            raise
        raise Overtaken(error.java_exception.getMessage()) from error
