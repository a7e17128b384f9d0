"""Tables that a fold writes, a directory for each micro-batch: Parquet, once each by its number.

    OUTPUT/running/batch=0/…     rows that became final; Spark reads OUTPUT/running as one table
    OUTPUT/keys/batch=7/…        what is carried, as of a batch; the newest two are kept
    OUTPUT/_run.json             which checkpoint all this belongs to, and the rules of the run

A batch that is done again writes the same rows into the same directories, in the place of those
that are there. Nothing is added up in files, so it does not matter where the driver died:
- before or in the middle of a batch: the checkpoint has its offsets; the next run does it again,
  from what batch - 1 carried, which is kept until the batch after it has begun.
- after its last table, before Spark has noted it: the same, with the same rows.
- in the middle of removing what batch - 2 carried: the rest goes with a later batch, or stays.
Two drivers at a time on one checkpoint are not kept apart: that is for whoever starts them.
Who reads meanwhile may see one table a batch ahead of another, and that batch missing while it is
written again. An output with rows and another checkpoint are not brought together: `claim` refuses.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from spark.sinks.hadoop_files import HadoopFiles

RUN: Final = "_run.json"
CLAIMED: Final = "streamhouse-run.json"
BATCH: Final = "batch="
SUCCESS: Final = "_SUCCESS"


class OtherRun(ValueError):
    """Output, checkpoint and rules are not those of one run; the message says what to do."""


class CarriedMissing(RuntimeError):
    """What the batch before carried is gone, so the run cannot go on from its checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTables:
    """The tables of one output.

    Attributes:
        path: directory or URL.
    """

    session: SparkSession
    path: str

    def claim(self, checkpoint: str, rules: Mapping[str, Any]) -> str:
        """Bind output, checkpoint and rules together, or find that they are; return the run's id.

        The checkpoint is written first: a run that dies between the two is resumed by the next.

        Raises:
            OtherRun: they belong to different runs.
        """
        beside = HadoopFiles(session=self.session, path=checkpoint)
        here = self._files()
        mine, theirs = beside.read_text(CLAIMED), here.read_text(RUN)
        if mine is None and theirs is not None:
            raise OtherRun(
                f"{self.path} has rows of another run: give its checkpoint, or another output"
            )
        if mine is None:
            mine = json.dumps({"run": str(uuid4()), "rules": rules}, sort_keys=True)
            beside.write_text(CLAIMED, mine)
        if theirs is None:
            here.write_text(RUN, mine)
        elif theirs != mine:
            raise OtherRun(f"{self.path} belongs to another checkpoint than {checkpoint}")
        began = json.loads(mine)
        began_with = began["rules"]
        if began_with != rules:
            changed = [name for name, value in rules.items() if began_with.get(name) != value]
            raise OtherRun(
                f"the run began with other rules ({', '.join(sorted(changed))}): resume it with"
                " those, or begin with another checkpoint and output"
            )
        run_id: str = began["run"]
        return run_id

    def write(self, name: str, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch, in the place of those that it wrote before."""
        rows.write.mode("overwrite").parquet(f"{self.path}/{name}/{BATCH}{batch}")

    def carried(self, schemas: Mapping[str, str], after: int) -> dict[str, DataFrame]:
        """Return what a batch left for the next; empty tables after batch -1.

        Args:
            schemas: by name.
            after: number of the batch.

        Raises:
            CarriedMissing: it is gone.
        """
        if after < 0:
            return {
                name: self.session.createDataFrame([], schema) for name, schema in schemas.items()
            }
        files = self._files()
        for name in schemas:
            if not files.exists(f"{name}/{BATCH}{after}/{SUCCESS}"):
                raise CarriedMissing(
                    f"{self.path}/{name} has nothing of batch {after}, which the checkpoint goes on"
                    " from: begin with another checkpoint and output"
                )
        return {name: self._of_batch(name, schema, after) for name, schema in schemas.items()}

    def newest(self, schemas: Mapping[str, str]) -> dict[str, DataFrame]:
        """Return the carried tables after the last batch that has all of them."""
        complete = [set(self._batches(name)) for name in schemas]
        return self.carried(schemas, max(set.intersection(*complete), default=-1))

    def last_batch(self, names: Collection[str]) -> int:
        """Return the last batch that one of some tables has; -1 if none has."""
        return max((batch for name in names for batch in self._batches(name)), default=-1)

    def table(self, name: str, schema: str) -> DataFrame:
        """Return the rows of all batches."""
        if not any(True for _ in self._batches(name)):
            return self.session.createDataFrame([], schema)
        rows = self.session.read.schema(f"{schema}, batch long").parquet(f"{self.path}/{name}")
        return rows.drop("batch")

    def forget(self, name: str, before: int) -> None:
        """Delete a carried table as of batches before that one."""
        files = self._files()
        for batch in self._batches(name):
            if batch < before:
                files.delete(f"{name}/{BATCH}{batch}")

    def _files(self) -> HadoopFiles:
        return HadoopFiles(session=self.session, path=self.path)

    def _batches(self, name: str) -> Iterator[int]:
        files = self._files()
        numbers = [
            int(found.removeprefix(BATCH)) for found in files.names(name) if found.startswith(BATCH)
        ]
        return (each for each in numbers if files.exists(f"{name}/{BATCH}{each}/{SUCCESS}"))

    def _of_batch(self, name: str, schema: str, batch: int) -> DataFrame:
        return self.session.read.schema(schema).parquet(f"{self.path}/{name}/{BATCH}{batch}")
