"""ShopFlow's revenue: a running total, and tumbling, sliding and session windows of event time.

    python -m spark.jobs.revenue --topic order_events --output revenue --report report

Into OUTPUT, as Parquet (spark/sinks/batch_tables.py says what a crash does to it: nothing):

    running      each payment, with the total of its partition and of its key after it
    windows      each window when it is closed, once
    aside        late payments and how late, duplicates, what is unreadable; not in windows
    open_windows, keys, partitions    values so far, as of the newest batch

Late is what comes after the watermark of its partition (spark/tables/late.py). Late payments are
in the running total and in no window, so windows and late payments add up to the total.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession

from spark.charts.lag import LagLog
from spark.charts.revenue_report import write_revenue_report
from spark.java_directory import absolute
from spark.jobs.durations import parse_duration
from spark.jobs.folding import Folding, Outcome
from spark.jobs.java_words import hush_streams
from spark.jobs.option_groups import Report
from spark.jobs.options import PipelineOptions, Source, WrongUsage, pipeline, run
from spark.jobs.queries import measured
from spark.session import Package, build_session
from spark.sinks.batch_tables import BatchTables
from spark.tables import orders, revenue
from spark.tables.late import ASIDE, Patience
from spark.tables.revenue import CARRIED_SCHEMAS, RUNNING, Carried, Rules
from spark.tables.windows import SCHEMA as WINDOWS
from spark.tables.windows import Lengths

ROWS = {"running": RUNNING, "windows": WINDOWS, "aside": ASIDE}
LAG_FILE = "lag.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevenueFold:
    """The job without input and output.

    Attributes:
        prices: of orders.PRICES; None where payments have their amounts.
    """

    decisions: Rules
    prices: DataFrame | None = None

    @property
    def carried(self) -> Mapping[str, str]:
        return CARRIED_SCHEMAS

    @property
    def rules(self) -> Mapping[str, Any]:
        return as_text({**asdict(self.decisions.patience), **asdict(self.decisions.lengths)})

    def judge(self, records: DataFrame, carried: Mapping[str, DataFrame]) -> DataFrame:
        events = orders.decode(records)
        if self.prices is not None:
            events = orders.priced(events, self.prices)
        return revenue.judged(events, Carried(**carried), self.decisions)

    def step(self, judged: DataFrame, carried: Mapping[str, DataFrame]) -> Outcome:
        made = revenue.step(judged, Carried(**carried), self.decisions)
        rows = {"running": made.running, "windows": made.closed_windows, "aside": made.aside}
        left = {one.name: getattr(made.carried, one.name) for one in fields(made.carried)}
        return Outcome(rows=rows, carried=left)


def run_revenue(session: SparkSession, options: PipelineOptions, fold: RevenueFold) -> None:
    """Fold the topic into OUTPUT; with a report, write that while it runs, and at the end.

    Raises:
        JobFailed: output, checkpoint, source and rules do not belong together, or a topic was made
            again.
        StreamingQueryException: a batch failed; a later run does it again.
    """
    lag = None if options.report is None else LagLog(path=options.report / LAG_FILE)

    def report() -> None:
        if options.report is not None and lag is not None:
            tables = BatchTables(session=session, path=options.output)
            write_report(tables, lag, options.report)

    folding = Folding(session=session, options=options, fold=fold, lag=lag, report=report)
    folding.run("revenue")


def write_report(tables: BatchTables, lag: LagLog, directory: Path) -> None:
    """Write pictures and a page of what the tables have now."""
    carried = Carried(**tables.newest(CARRIED_SCHEMAS))
    write_revenue_report(
        directory,
        closed=tables.table("windows", WINDOWS),
        still_open=carried.open_windows,
        aside=tables.table("aside", ASIDE),
        totals=revenue.totals(carried),
        lags=lag.read(),
    )


@pipeline
def main(
    options: PipelineOptions,
    delay: Annotated[
        str, typer.Option(metavar="TIME", help="Of the watermark behind the latest event.")
    ] = "10m",
    remember: Annotated[
        str, typer.Option(metavar="TIME", help="How long ids are known, to tell duplicates.")
    ] = "1d",
    keep_duplicates: Annotated[
        bool,
        typer.Option(
            "--keep-duplicates", metavar="", help="Take each record for a payment of its own."
        ),
    ] = False,
    tumbling: Annotated[
        str, typer.Option(metavar="TIME", help="Length of tumbling windows.")
    ] = "10m",
    sliding: Annotated[str, typer.Option(metavar="TIME", help="Length of sliding windows.")] = "1h",
    slide: Annotated[
        str, typer.Option(metavar="TIME", help="From a sliding window to the next.")
    ] = "10m",
    gap: Annotated[
        str, typer.Option(metavar="TIME", help="Without payments, that ends a session.")
    ] = "30m",
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Parquet with order_id and amount, for payments that have no amount themselves.",
        ),
    ] = None,
    report: Report = None,
) -> None:
    """Add up ShopFlow's revenue: running totals, and windows of event time."""
    patience = Patience(
        delay=parse_duration("--delay", delay),
        remember=None if keep_duplicates else parse_duration("--remember", remember),
    )
    lengths = Lengths(
        tumbling=parse_duration("--tumbling", tumbling),
        sliding=parse_duration("--sliding", sliding),
        slide=parse_duration("--slide", slide),
        gap=parse_duration("--gap", gap),
    )
    if lengths.slide > lengths.sliding:
        raise WrongUsage("--slide is longer than --sliding: payments would be in no window")
    session = open_session("streamhouse revenue", options)
    known = None if prices is None else session.read.parquet(absolute(prices))
    fold = RevenueFold(decisions=Rules(patience=patience, lengths=lengths), prices=known)
    with measured(session, options):
        run_revenue(session, replace(options, output=absolute(options.output), report=report), fold)


def open_session(name: str, options: PipelineOptions) -> SparkSession:
    """Start Spark with what the source needs."""
    direct = options.source is Source.direct
    session = build_session(
        name,
        master=options.master,
        packages=() if direct else (Package.KAFKA,),
        location=options.location() if direct else None,
    )
    hush_streams(session)
    return session


def as_text(rules: Mapping[str, Any]) -> dict[str, str]:
    """Return rules as words that JSON has, and that compare as they do."""
    return {name: str(value) for name, value in rules.items()}


if __name__ == "__main__":
    run(main)
