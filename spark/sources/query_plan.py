"""What a query asks for before it runs: the tables that it names, and what it leaves of each.

Spark's own parser and optimizer do the work. The query is planned once over placeholders, which
have the columns of the topics and no rows; the optimizer pushes what it can of each condition down
to them: through joins, subqueries and names, with constants computed. Read from there, a condition
on partition, offset or timestamp is one that a read may be narrowed by.
"""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark.sources.wanted import Span, Wanted

MARK: Final = "topic:"
_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical"
_STATEMENTS: Final = (f"{_LOGICAL}.Command", f"{_LOGICAL}.ParsedStatement")
_COLUMNS: Final = ("partition", "offset", "timestamp")
_MIRRORED: Final = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}
"""Comparisons, and what they are with their sides exchanged."""


class NotAQuery(ValueError):
    """The text is a statement that changes something, or a setting."""


def find_tables(session: SparkSession, text: str) -> list[tuple[str, ...]]:
    """Return the names of tables in a query, each once, in parts as dots divide them.

    Names that the query itself gives (WITH) are among them.

    Raises:
        ParseException: it is no SQL.
        NotAQuery: it is no SELECT.
    """
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001
    jvm = session._jvm  # noqa: SLF001
    assert jvm is not None, "this is no session of Spark Connect"
    is_instance = jvm.py4j.reflection.TypeUtil.isInstanceOf
    names: dict[tuple[str, ...], None] = {}
    for node in _all_nodes(plan):
        if any(is_instance(statement, node) for statement in _STATEMENTS):
            raise NotAQuery("only queries are run: SELECT ... FROM topic ...")
        if node.getClass().getSimpleName() == "UnresolvedRelation":
            names[tuple(_each(node.multipartIdentifier()))] = None
    return list(names)


def find_names(session: SparkSession, text: str) -> set[str]:
    """Return what a query calls its own tables (WITH name AS …), in small letters."""
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001
    return {
        pair._1().lower()  # noqa: SLF001 - of a Scala tuple
        for node in _all_nodes(plan)
        if node.getClass().getSimpleName() == "UnresolvedWith"
        for pair in _each(node.cteRelations())
    }


def placeholder(session: SparkSession, topic: str, columns: str) -> DataFrame:
    """Return no rows with the columns of a read, which a plan can be recognized by.

    Args:
        session: to plan in.
        topic: whose rows they stand for.
        columns: of the read, as DDL.
    """
    mark = f"`{MARK}{topic.replace('`', '``')}` int"
    return session.createDataFrame(session.sparkContext.emptyRDD(), f"{columns}, {mark}")


def find_wanted(planned: DataFrame) -> dict[str, tuple[Wanted, frozenset[str]]]:
    """Return what a query over placeholders leaves of each topic, and which columns it looks at.

    A topic that the optimizer has no use for is not there.
    """
    found: dict[str, tuple[Wanted, frozenset[str]]] = {}
    plan = planned._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    for topic, wanted, columns in _leaves(plan, Wanted(), None):
        before = found.get(topic)
        if before is None:
            found[topic] = wanted, columns
        else:
            found[topic] = before[0].either(wanted), before[1] | columns
    return found


def keep_wanted(frame: DataFrame) -> DataFrame:
    """Return rows without the mark of placeholders."""
    return frame.select(*(F.col(f"`{name}`") for name in frame.columns if MARK not in name))


def _leaves(
    node: Any, wanted: Wanted, used: frozenset[str] | None
) -> Iterator[tuple[str, Wanted, frozenset[str]]]:
    """Yield placeholders with the conditions right above them, and the columns used there."""
    kind = node.getClass().getSimpleName()
    if kind == "LogicalRDD":
        columns = frozenset(each.name() for each in _each(node.output()))
        marks = [name for name in columns if name.startswith(MARK)]
        if marks:
            yield marks[0].removeprefix(MARK), wanted, columns if used is None else used
        return
    if kind == "Filter":
        wanted = wanted.both(_wanted(node.condition()))
        if used is not None:
            used |= _references(node)
    elif kind == "Project":
        # What stands above it sees nothing else; and a name there may be that of anything.
        wanted, used = Wanted(), _references(node)
    else:
        wanted, used = Wanted(), None
    for child in _each(node.children()):
        yield from _leaves(child, wanted, used)
    for plan in _each(node.subqueries()):
        yield from _leaves(plan, Wanted(), None)


def _wanted(condition: Any) -> Wanted:
    match condition.getClass().getSimpleName():
        case "And":
            return _wanted(condition.left()).both(_wanted(condition.right()))
        case "Or":
            return _wanted(condition.left()).either(_wanted(condition.right()))
        case "In":
            return _among(condition.value(), [_literal(each) for each in _each(condition.list())])
        case "InSet":
            return _among(condition.child(), list(_each(condition.hset().toSeq())))
        case kind if kind in _MIRRORED:
            return _compared(condition, kind)
        case _:
            return Wanted()


def _compared(condition: Any, kind: str) -> Wanted:
    column, number = _column(condition.left()), _literal(condition.right())
    if column is None:
        column, number = _column(condition.right()), _literal(condition.left())
        kind = _MIRRORED[kind]
    if column is None or number is None:
        return Wanted()
    match kind:
        case "GreaterThan":
            return _of(column, Span(first=number + 1))
        case "GreaterThanOrEqual":
            return _of(column, Span(first=number))
        case "LessThan":
            return _of(column, Span(last=number - 1))
        case "LessThanOrEqual":
            return _of(column, Span(last=number))
        case _:
            return _of(column, Span(first=number, last=number))


def _among(value: Any, numbers: list[Any]) -> Wanted:
    column = _column(value)
    known = [number for number in numbers if type(number) is int]
    if column is None or not known or len(known) != len(numbers):
        return Wanted()
    return _of(column, Span(first=min(known), last=max(known)))


def _of(column: str, span: Span) -> Wanted:
    match column:
        case "partition":
            return Wanted(partitions=span)
        case "offset":
            return Wanted(offsets=span)
        case _:
            return Wanted(timestamps_us=span)


def _column(expression: Any) -> str | None:
    if expression.getClass().getSimpleName() != "AttributeReference":
        return None
    name: str = expression.name()
    return name if name in _COLUMNS else None


def _literal(expression: Any) -> int | None:
    """Return a whole number, or microseconds."""
    if expression.getClass().getSimpleName() != "Literal":
        return None
    value = expression.value()
    return value if type(value) is int else None


def _references(node: Any) -> frozenset[str]:
    return frozenset(each.name() for each in _each(node.references().toSeq()))


def _all_nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in (*_each(plan.children()), *_each(plan.innerChildren())):
        yield from _all_nodes(child)


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
