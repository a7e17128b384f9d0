"""Payments that look wrong, while they come: a live consumer beside whatever else reads the topic.

    python -m spark.jobs.fraud --topic order_events --output fraud --follow

Its place in the topic is its own, in its checkpoint, and shown as that of the consumer group
`--group`: a warehouse loader that replays from offset 0 neither moves it nor waits for it. With
--source direct the group hears of a batch when Spark asks for the next one, so without --follow it
does not hear of the last.

Into OUTPUT, as Parquet (spark/sinks/batch_tables.py): `alerts`, once each. With --alerts TOPIC also
as JSON into a topic: exactly once with --source direct; with --source kafka at least once, an
`alert_id` a second time only where the driver died in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession

from spark.charts.figures import lag_figure
from spark.charts.lag import LagLog
from spark.charts.page import Page, Picture, Table
from spark.java_directory import absolute
from spark.jobs.durations import parse_duration
from spark.jobs.folding import Folding, Outcome, no_more
from spark.jobs.group_commits import GroupCommits
from spark.jobs.option_groups import Report
from spark.jobs.options import PipelineOptions, Source, WrongUsage, pipeline, run
from spark.jobs.queries import measured
from spark.jobs.revenue import LAG_FILE, as_text, open_session
from spark.sinks.batch_tables import BatchTables
from spark.sources.kafka import client_options
from spark.tables import fraud, late, orders
from spark.tables.fraud import ALERTS, RECENT, Rules
from spark.tables.late import PARTITIONS, SEEN, Patience

MOST_ROWS = 50
COMMIT_GROUP = "commitGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class FraudFold:
    """The job without input and output."""

    decisions: Rules

    @property
    def carried(self) -> Mapping[str, str]:
        return {"partitions": PARTITIONS, "seen": SEEN, "recent": RECENT}

    @property
    def rules(self) -> Mapping[str, Any]:
        own = asdict(self.decisions)
        return as_text({**own.pop("patience"), **own})

    def judge(self, records: DataFrame, carried: Mapping[str, DataFrame]) -> DataFrame:
        events = orders.decode(records)
        return late.judge(events, carried["partitions"], carried["seen"], self.decisions.patience)

    def step(self, judged: DataFrame, carried: Mapping[str, DataFrame]) -> Outcome:
        patience = self.decisions.patience
        partitions = late.advance(judged, carried["partitions"], patience)
        left = {
            "partitions": partitions,
            "seen": late.remembered(judged, carried["seen"], partitions, patience),
            "recent": fraud.remembered(judged, carried["recent"], partitions, self.decisions),
        }
        alerts = fraud.alerts(judged, carried["recent"], self.decisions)
        return Outcome(rows={"alerts": alerts}, carried=left)


def run_fraud(
    session: SparkSession,
    options: PipelineOptions,
    fold: FraudFold,
    *,
    group: str,
    alerts_topic: str | None = None,
) -> None:
    """Watch the topic, and write alerts into OUTPUT, and into a topic if one is named.

    Raises:
        JobFailed: output, checkpoint, source and rules do not belong together, or a topic was made
            again.
        StreamingQueryException: a batch failed; a later run does it again.
    """
    commits = None
    if options.source is Source.direct:
        options = options.with_reader(**{COMMIT_GROUP: group})
    else:
        commits = GroupCommits(session, group, _client(options))
    lag = None if options.report is None else LagLog(path=options.report / LAG_FILE)

    def report() -> None:
        if options.report is not None and lag is not None:
            tables = BatchTables(session=session, path=options.output)
            write_report(tables.table("alerts", ALERTS), lag, options.report)

    also = no_more if alerts_topic is None else _publish(options, alerts_topic)
    folding = Folding(
        session=session,
        options=options,
        fold=fold,
        also=also,
        group=commits,
        lag=lag,
        report=report,
    )
    try:
        folding.run("fraud")
    finally:
        if commits is not None:
            commits.close()


def write_report(alerts: DataFrame, lag: LagLog, directory: Path) -> None:
    """Write lag.png and index.html: the newest alerts, and how far behind the query is."""
    counts = {row["rule"]: row["count"] for row in alerts.groupBy("rule").count().collect()}
    times = "date_format(event_time, 'yyyy-MM-dd HH:mm:ss') as time"
    newest = alerts.orderBy(alerts["event_time"].desc(), "alert_id").limit(MOST_ROWS)
    rows = newest.selectExpr(times, "rule", "key", "order_id", "amount", "payments").collect()
    lags = lag.read()
    Page(
        title="ShopFlow fraud alerts",
        subtitle=f"as of {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        tiles=(
            ("large payments", f"{counts.get(fraud.LARGE, 0):,}"),
            ("rapid payments", f"{counts.get(fraud.RAPID, 0):,}"),
            ("records behind", f"{lags[-1].total:,}" if lags else "unknown"),
        ),
        pictures=(
            Picture(
                name="lag",
                description="Records behind the end of the topic, over time",
                figure=lag_figure(lags),
            ),
        ),
        tables=(
            Table(
                heading="Newest alerts",
                columns=("made at (UTC)", "rule", "key", ">order", ">amount ($)", ">payments"),
                rows=[
                    (
                        row["time"],
                        row["rule"],
                        "(no key)" if row["key"] is None else row["key"],
                        "" if row["order_id"] is None else str(row["order_id"]),
                        f"{row['amount']:,.2f}",
                        "" if row["payments"] is None else str(row["payments"]),
                    )
                    for row in rows
                ],
                empty="Nothing looked wrong so far.",
            ),
        ),
    ).write(directory)


def _client(options: PipelineOptions) -> dict[str, str]:
    return {"bootstrap.servers": options.bootstrap, **options.client}


def _publish(options: PipelineOptions, topic: str) -> Callable[[Outcome, str, int], None]:
    """Return what writes the alerts of a batch into a topic."""

    def publish(outcome: Outcome, run_id: str, batch: int) -> None:
        rows = fraud.records(outcome.rows["alerts"])
        if options.source is Source.direct:
            writer = rows.write.format("streamhouse").option("topic", topic)
            writer = writer.option("idempotencyKey", run_id)
            writer.option("idempotencyVersion", str(batch)).mode("append").save()
            return
        writer = rows.write.format("kafka").option("topic", topic)
        client = _client(options)
        writer.options(**client_options(client["bootstrap.servers"], client)).save()

    return publish


@pipeline
def main(
    options: PipelineOptions,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="Consumer group that shows where this job is.")
    ] = "fraud",
    alerts: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Write alerts there, too.")
    ] = None,
    large: Annotated[
        str, typer.Option(metavar="AMOUNT", help="A payment of so much or more is reported.")
    ] = "1000",
    rapid: Annotated[
        int, typer.Option(metavar="COUNT", min=2, help="So many payments of a key,")
    ] = 4,
    within: Annotated[str, typer.Option(metavar="TIME", help="so close together.")] = "1m",
    delay: Annotated[
        str, typer.Option(metavar="TIME", help="Of the watermark behind the latest event.")
    ] = "10m",
    remember: Annotated[
        str, typer.Option(metavar="TIME", help="How long ids are known, to tell duplicates.")
    ] = "1d",
    report: Report = None,
) -> None:
    """Report payments that are too large, or too many in a short time, while they come."""
    rules = Rules(
        patience=Patience(
            delay=parse_duration("--delay", delay),
            remember=parse_duration("--remember", remember),
        ),
        large_amount=_amount(large),
        rapid_count=rapid,
        rapid_within=parse_duration("--within", within),
    )
    session = open_session("streamhouse fraud", options)
    options = replace(options, output=absolute(options.output), report=report)
    with measured(session, options):
        run_fraud(session, options, FraudFold(decisions=rules), group=group, alerts_topic=alerts)


def _amount(word: str) -> Decimal:
    try:
        amount = Decimal(word)
    except InvalidOperation as error:
        raise WrongUsage(f"--large {word!r} is no amount", fix="write 1000 or 999.95") from error
    if not amount.is_finite() or amount <= 0:
        raise WrongUsage(f"--large {word!r} is no amount", fix="write 1000 or 999.95")
    return amount


if __name__ == "__main__":
    run(main)
