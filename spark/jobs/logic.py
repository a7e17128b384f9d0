"""How values become rows in one run of a job: what its options say, and what the table has.

What is not told is found out: columns from a sample of the topic, schemas from the registry. The
table is the memory of it: a later run starts from its columns.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from spark.jobs.options import WrongUsage
from spark.sources.registry import Registered, Registry
from spark.tables import drift
from spark.tables.decoded import PLACES, Values, body, decode, rows_of, schema_id

Change = Callable[[DataFrame], DataFrame]


class UnknownFields(StrEnum):
    """What becomes of a field that the table has no column for."""

    add = "add"
    reject = "reject"
    ignore = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic:
    """How values become rows.

    Attributes:
        columns: that the options name; None if they are to be found out.
        unknown: see there.
        registry: where the schemas of values are; None for plain JSON.
        change: from rows to rows with the same places; None to leave them as they are.
    """

    columns: StructType | None = None
    unknown: UnknownFields = UnknownFields.add
    registry: Registry | None = None
    change: Change | None = None

    def described(self) -> str:
        """Return a text that is the same for the same options."""
        change = self.change
        parts = {
            "columns": None if self.columns is None else self.columns.jsonValue(),
            "unknown": self.unknown,
            "registry": None if self.registry is None else self.registry.url,
            "change": None if change is None else f"{change.__module__}:{change.__qualname__}",
        }
        return json.dumps(parts, sort_keys=True)

    def values(self, records: DataFrame, columns: StructType) -> Values:
        """Return how these records are decoded into columns, new ones of theirs included.

        Args:
            records: a batch; it is read when columns may be added, or ids are to be known.
            columns: of values, that the table has.

        Raises:
            RegistryUnavailable: the registry gave no answer.
        """
        registered = self._registered(records)
        if self.unknown is UnknownFields.add:
            found = self._found(records, columns, registered)
            columns = StructType([*columns, *drift.additions(columns, found)])
        return self.fixed(columns, registered)

    def fixed(self, columns: StructType, registered: Mapping[int, Registered]) -> Values:
        """Return how records are decoded into these columns, whatever they hold."""
        return Values(
            columns=columns,
            registered=None if self.registry is None else _writers(registered),
            ignore_unknown=self.unknown is UnknownFields.ignore,
        )

    def of_subjects(self, session: SparkSession, topics: tuple[str, ...]) -> dict[int, Registered]:
        """Return the schemas that the registry has for the values of topics, by id."""
        if self.registry is None:
            return {}
        ids = {number for topic in topics for number in self.registry.ids_of(f"{topic}-value")}
        found = {number: self.registry.schema(session, number) for number in sorted(ids)}
        return {number: one for number, one in found.items() if one is not None}

    def rows(self, decoded: DataFrame) -> DataFrame:
        """Return the rows of decoded records, as this logic wants them. Raises WrongUsage."""
        return self.changed(rows_of(decoded))

    def changed(self, rows: DataFrame) -> DataFrame:
        """Return rows after the change.

        Raises:
            WrongUsage: it leaves out columns.
        """
        if self.change is None:
            return rows
        changed = self.change(rows)
        if missing := [name for name in rows.columns if name not in changed.columns]:
            raise WrongUsage(f"--logic has to keep the columns {', '.join(missing)}")
        return changed

    def table_columns(self, records: DataFrame, columns: StructType) -> StructType:
        """Return what a new table has: columns of values, places, and what the change adds."""
        decoded = decode(records, Values(columns=columns))
        nullable = [StructField(one.name, one.dataType) for one in self.rows(decoded).schema]
        return StructType(nullable)

    def _registered(self, records: DataFrame) -> dict[int, Registered]:
        if self.registry is None:
            return {}
        ids = records.select(schema_id().alias("id")).where("id is not null").distinct().collect()
        session = records.sparkSession
        found = {row["id"]: self.registry.schema(session, row["id"]) for row in ids}
        return {number: one for number, one in found.items() if one is not None}

    def _found(
        self, records: DataFrame, columns: StructType, registered: Mapping[int, Registered]
    ) -> StructType:
        value = F.col("value")
        if self.registry is not None:
            json_ids = [number for number, one in registered.items() if one.kind == "JSON"]
            value = F.when(schema_id().isin(json_ids), body())
        texts = drift.new_shapes(records, columns, value)
        from_avro = {number: one.columns for number, one in registered.items() if one.columns}
        avro = drift.columns_of_registered(from_avro)
        return StructType([*avro, *drift.infer(records.sparkSession, texts)])


def value_columns(columns: StructType) -> StructType:
    """Return a table's columns without places."""
    return StructType([one for one in columns if one.name not in PLACES.names])


def parse_columns(ddl: str) -> StructType:
    """Return the columns of a DDL text such as `id bigint not null, name string`.

    Raises:
        WrongUsage: it is none, or has names that a table cannot have.
    """
    try:
        columns = cast("StructType", StructType.fromDDL(ddl))
    except ParseException as error:
        raise WrongUsage("--schema takes columns such as: id bigint, name string") from error
    if len(drift.additions(StructType(), columns)) != len(columns):
        raise WrongUsage(
            "--schema: names are letters, digits and _, each once, letters first;"
            f" {drift.COLUMNS_COUNT:,} at most, inner ones counted"
        )
    return columns


def parse_change(word: str) -> Change:
    """Return the function of MODULE:FUNCTION.

    Raises:
        WrongUsage: there is none.
    """
    module, _, name = word.partition(":")
    try:
        change = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise WrongUsage(f"--logic {word}: {error}", fix="give MODULE:FUNCTION") from error
    if not callable(change):
        raise WrongUsage(f"--logic {word} is no function")
    result: Change = change
    return result


def _writers(registered: Mapping[int, Registered]) -> dict[int, str | None]:
    """Return what can be decoded; a record of any other schema is a dead letter."""
    json_ids: dict[int, str | None] = {
        number: None for number, one in registered.items() if one.kind == "JSON"
    }
    return json_ids | {number: one.text for number, one in registered.items() if one.columns}
