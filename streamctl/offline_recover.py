"""One run of `streamctl recover`."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from storage.recovery.recover import Recovery
from storage.recovery.recover_postgres import DatabaseNotEmpty, EmptyDatabase
from storage.recovery.recover_report import NOT_RECOVERED, RecoveryReport
from storage.wall_clock import now_ms
from streamctl.errors import Failure
from streamctl.offline_progress import progress_bars
from streamctl.offline_stores import POOL, open_stores
from streamctl.output import counted, note, print_done, print_json, results, table

NUMBERS = ("PARTITIONS", "RECORDS", "BUILT", "LOST", "MOVED", "ABORTED")
SHOWN = 20


def run_recover(
    postgres: str | None, store: str | None, data: Path | None, *, dry_run: bool, as_json: bool
) -> None:
    """Rebuild the index, and show what was found.

    Raises:
        Failure: it cannot be rebuilt; the database is as it was.
        Exit: (1) it is rebuilt, but not from all that there was.
    """
    try:
        report = asyncio.run(_recover(postgres, store, data, dry_run=dry_run))
    except DatabaseNotEmpty as error:
        raise Failure(
            str(error), fix="make a new database, and name it with --postgres; keep the old one"
        ) from error
    try:
        if as_json:
            shown: Any = asdict(report)
            print_json({**shown, "not_recovered": list(NOT_RECOVERED), "dry_run": dry_run})
        else:
            _print(report, dry_run=dry_run)
    finally:  # also if nobody reads it
        if not report.is_whole:
            raise typer.Exit(1)


async def _recover(
    postgres: str | None, store: str | None, data: Path | None, *, dry_run: bool
) -> RecoveryReport:
    async with (
        open_stores(postgres, store, data, is_new=True) as (dsn, objects),
        EmptyDatabase.open(dsn, POOL, keep=not dry_run) as database,
    ):
        recovery = Recovery(objects=objects, database=database, now_ms=now_ms, dry_run=dry_run)
        with progress_bars() as bars:
            async for step in recovery.run():
                bars.show(step)
    return recovery.report


def _print(report: RecoveryReport, *, dry_run: bool) -> None:
    listing = table("TOPIC", *NUMBERS, numbers=NUMBERS)
    for topic in report.topics:
        lost = sum(last - first + 1 for _, first, last in topic.lost)
        numbers = (topic.partitions, topic.records, topic.built_records, lost)
        shown = [f"{number:,}" for number in (*numbers, topic.moved, topic.unfinished)]
        listing.add_row(escape(topic.name), *shown)
    results().print(listing)
    for topic in report.topics:
        for partition, first, last in topic.lost[:SHOWN]:
            note(f"{topic.name}-{partition}: nobody has offsets {first:,} to {last:,}")
        if topic.moved:
            note(f"{topic.name}: {counted(topic.moved, 'record')} put at the end: no place fits")
        if topic.unfinished:
            ended = counted(topic.unfinished, "transaction")
            note(f"{topic.name}: {ended} aborted, because nobody has their end")
        if topic.note:
            note(f"{topic.name}: {topic.note}")
    _print_leftovers(report)
    if report.keeping:
        _print_keeping(report.keeping)
    note("not recovered, because no object has it:")
    for line in NOT_RECOVERED:
        note(f"  {line}")
    verb = "can be recovered (dry run: nothing was written)" if dry_run else "recovered"
    print_done(f"cluster {report.cluster_id}: {counted(len(report.topics), 'topic')} {verb}")


def _print_keeping(keeping: Mapping[str, str]) -> None:
    configs = ", ".join(f"{name}={value}" for name, value in keeping.items())
    unset = " ".join(f"--unset {name}" for name in keeping)
    note(f"the whole cluster has {configs}: no topic that follows it loses a record until you set")
    note(f"  what it had; for the defaults: streamctl config alter broker {unset}")


def _print_leftovers(report: RecoveryReport) -> None:
    note(
        f"{counted(report.segments, 'segment')} and {counted(report.uploads, 'wal object')} read; "
        f"{counted(report.unneeded, 'object')} of no log, which the sweeper takes away in a while"
    )
    for line in report.left_out:
        note(f"left out: topic {line}")
    for line in report.unreadable[:SHOWN]:
        note(f"unreadable: {line}")
    if len(report.unreadable) > SHOWN:
        note(f"unreadable: … and {len(report.unreadable) - SHOWN:,} more")
