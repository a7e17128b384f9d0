"""What values are decoded into, where a table's own columns do not tell.

A change (--logic) may make another type of a column: values go on to be of the one before it. And
no column of a table has to be there, for dead letters and tombstones. So of what --schema or a
sample said, a table keeps what differs from its columns (`apart`), until another --schema names
them; later runs decode into these (`laid_over`).
"""

from collections.abc import Callable

from pyspark.sql.types import StructType

from spark.jobs.options import WrongUsage

_ANEW = "make the table anew: replay"


def laid_over(columns: StructType, *inputs: StructType) -> StructType:
    """Return columns as inputs have them; of two that name one, the later counts."""
    named = {one.name: one for each in inputs for one in each}
    return StructType([named.get(one.name, one) for one in columns])


def apart(inputs: StructType, columns: StructType) -> StructType:
    """Return the inputs that are not as a table's columns of their names, which may be null."""
    types = {one.name: one.dataType for one in columns}
    return StructType(
        [one for one in inputs if not one.nullable or one.dataType != types[one.name]]
    )


def refuse_other_types(
    there: StructType,
    inputs: StructType,
    named: StructType,
    changed: Callable[[StructType], StructType],
) -> None:
    """Refuse inputs that are not of a column's type, and are not made so by the change.

    Args:
        there: the table's columns.
        inputs: columns of values.
        named: those that --schema gives.
        changed: from inputs to what the change makes of them; it costs a plan.

    Raises:
        WrongUsage: there is one.
    """
    types = {one.name: one.dataType for one in there}
    others = [one for one in inputs if one.dataType != types.get(one.name, one.dataType)]
    made = changed(inputs) if others else inputs
    for one in others:
        kind = types[one.name]
        if made[one.name].dataType == kind:
            continue
        names = (kind.simpleString(), one.dataType.simpleString())
        if one.name in named.names:
            raise WrongUsage(
                f"--schema: {one.name} is {names[0]} in the table, not {names[1]}",
                fix=f"a column keeps its type; {_ANEW}",
            )
        raise WrongUsage(
            f"{one.name} is {names[0]} in the table, made of {names[1]}",
            fix=f"give the --logic that makes it, or {_ANEW}",
        )


def refuse_other_capitals(there: StructType, names: list[str]) -> None:
    """Refuse names that differ from a column's in case only: readers could not tell them apart.

    Raises:
        WrongUsage: there is one.
    """
    known_names = {name.lower(): name for name in there.names}
    for name in names:
        known = known_names.get(name.lower(), name)
        if known != name:
            raise WrongUsage(
                f"the column {name} is {known} in the table", fix=f"write {known}, or {_ANEW}"
            )
