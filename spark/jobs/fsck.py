"""Check a whole store on Spark: `streamctl fsck`, on as many cores as there are.

    python -m spark.jobs.fsck --data DIR [--deep] [--topic NAME ...]

1. The rows of each partition tile its log. 2. The store has every object that a row names, as it
was uploaded. 3. With --deep, every byte is read, and every checksum is right. Besides, it counts
what is left over, objects that the index does not know among it. With --topic, only rows and bytes
of topics are looked at. Nothing is changed; `streamctl fsck --repair` does that.

Exit code: 0 nothing is damaged or missing, 1 something is (or the check could not be done).
--report DIR leaves fsck.json there, and all findings as Parquet.
"""

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from spark.jobs.option_groups import Report
from spark.jobs.options import UpkeepOptions, run, upkeep
from spark.upkeep.checking import PIECE_BYTES, check_pieces, plan_check
from spark.upkeep.found import CheckReport
from spark.upkeep.job import job_session
from spark.upkeep.output import (
    approximate_size,
    counted,
    note,
    print_json,
    print_table,
    progress,
)
from spark.upkeep.settings import AsJson, Topics, report_directory
from spark.upkeep.spread import spread
from storage.fsck.fsck_findings import EXAMPLES, Kind


@upkeep
def fsck(
    options: UpkeepOptions,
    topic: Topics = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte.")] = False,
    piece_bytes: Annotated[
        int, typer.Option("--piece-bytes", min=1, help="About how much a piece of work reads.")
    ] = PIECE_BYTES,
    as_json: AsJson = False,
    report_to: Report = None,
) -> None:
    """Check on Spark that index and store belong together; exit code 1 if they do not."""
    location = options.location()
    with job_session("fsck", options) as session:
        pieces = asyncio.run(
            plan_check(location, deep=deep, topics=topic or (), piece_bytes=piece_bytes)
        )
        with progress("fsck") as tell:
            results = spread(
                session, pieces, partial(check_pieces, location), name="fsck", tell=tell
            )
        report = CheckReport.of(results)
        directory = report_directory(replace(options, report=report_to))
        if directory is not None:
            text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
            (directory / "fsck.json").write_text(text + "\n", encoding="utf-8")
            findings = report.frame(session).coalesce(1)
            findings.write.mode("overwrite").parquet(str(directory / "findings"))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report, deep=deep)
    if report.damaged:
        raise typer.Exit(1)


def _print(report: CheckReport, *, deep: bool) -> None:
    for is_damage in (True, False):
        kinds = [kind for kind in Kind if kind.is_damage is is_damage and report.of_kind(kind)]
        if not kinds:
            continue
        heading = "DAMAGED" if is_damage else "LEFT OVER"
        rows = [_row(report, kind) for kind in kinds]
        print_table([heading, "COUNT", "WHERE"], rows, numbers=["COUNT"])
        for kind in kinds:
            note(f"{kind.text}: {kind.advice}")
    checked = report.checked
    read = f", {approximate_size(checked.read_bytes)} of records read" if deep else ""
    note(
        f"{counted(checked.partitions, 'partition')}, {counted(checked.rows, 'row')}, "
        f"{counted(checked.objects, 'object')} of {approximate_size(checked.stored_bytes)}{read}"
    )
    if not report.damaged:
        note("index and store belong together: nothing is damaged or missing")


def _row(report: CheckReport, kind: Kind) -> list[str]:
    found = report.of_kind(kind)
    shown = [each.place for each in found[: EXAMPLES if kind.is_damage else 3]]
    more = f"\n… and {len(found) - len(shown):,} more" if len(found) > len(shown) else ""
    count = sum(each.count for each in found)
    return [kind.text, f"{count:,}", "\n".join(shown) + more]


if __name__ == "__main__":
    run(fsck)
