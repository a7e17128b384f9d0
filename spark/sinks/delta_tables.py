"""Tables of Delta."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spark.sinks.tables import RUN, Batch, LakeTable, Overtaken, refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable(LakeTable):
    """A directory of Delta.

    Attributes:
        path: absolute, or a URL.
    """

    path: str

    @classmethod
    def at(cls, path: str) -> "DeltaTable":
        return cls(name=f"delta.`{path}`", path=path)

    @property
    def provider(self) -> str:
        return "delta"

    @property
    def upkeep(self) -> Mapping[str, str]:
        return {}  # its log is cleaned after 30 days

    def head(self, session: SparkSession) -> None:
        return None

    def last_batch(self, session: SparkSession, query_id: str) -> int:
        java = session.sparkContext._jvm  # noqa: SLF001 - SQL does not tell
        assert java is not None
        delta = java.org.apache.spark.sql.delta
        log = delta.DeltaLog.forTable(session._jsparkSession, self.path)  # noqa: SLF001
        return int(log.startTransaction().txnVersion(query_id))

    def append(self, rows: DataFrame, batch: Batch, *, after: int | None) -> None:
        assert after is None, "it tells runs apart"
        java = rows.sparkSession.sparkContext._jvm  # noqa: SLF001 - no writer of PySpark does this
        assert java is not None
        session, delta = rows.sparkSession._jsparkSession, java.org.apache.spark.sql.delta  # noqa: SLF001
        none, append = java.scala.Option.empty(), java.org.apache.spark.sql.SaveMode.Append
        once = {"txnAppId": batch.query_id, "txnVersion": str(batch.number)}
        words = java.PythonUtils.toScalaMap(once)
        options = delta.DeltaOptions(words, session.sessionState().conf())
        log = delta.DeltaLog.forTable(session, self.path)
        write = delta.commands.WriteIntoDelta(
            log,
            append,
            options,
            java.PythonUtils.toSeq([]),
            java.PythonUtils.toScalaMap({}),
            rows._jdf,  # noqa: SLF001
            none,
            none,
        )
        transaction = log.startTransaction()
        if transaction.metadata().configuration().get(RUN) != java.scala.Option.apply(batch.run):
            raise Overtaken(f"another run took {self.name}")
        if write.hasBeenExecuted(transaction, session, java.scala.Option.apply(options)):
            return
        operation = getattr(delta, "DeltaOperations$Write")(append, none, none, none)
        with refusals():
            transaction.commit(write.write(transaction, session, none, False), operation)
