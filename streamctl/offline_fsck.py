"""One run of `streamctl fsck`."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from storage.fsck.fsck import Fsck
from storage.fsck.fsck_findings import Findings
from storage.fsck.fsck_index import FsckIndex
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.wall_clock import now_ms
from streamctl.offline_progress import progress_bars
from streamctl.offline_stores import POOL, open_stores
from streamctl.output import Json, counted, note, print_done, print_json, results, table
from streamctl.units import approximate_size


def run_fsck(
    postgres: str | None,
    store: str | None,
    data: Path | None,
    *,
    deep: bool,
    repair: bool,
    as_json: bool,
) -> None:
    """Check, and show what was found.

    Raises:
        Failure: it cannot be checked.
        Exit: (1) something is damaged.
    """
    check, repaired = asyncio.run(_check(postgres, store, data, deep=deep, repair=repair))
    try:
        if as_json:
            print_json(_as_json(check, repaired))
        else:
            _print(check, repaired, deep=deep)
    finally:  # also if nobody reads it
        if check.findings.damaged:
            raise typer.Exit(1)


async def _check(
    postgres: str | None, store: str | None, data: Path | None, *, deep: bool, repair: bool
) -> tuple[Fsck, int]:
    async with open_stores(postgres, store, data) as (dsn, objects):
        metadata = await PostgresMetadata.open(dsn, POOL)
        try:
            async with FsckIndex.open(dsn, POOL) as index:
                check = Fsck(index=index, metadata=metadata, objects=objects, now_ms=now_ms)
                with progress_bars() as bars:
                    async for step in check.run(deep=deep):
                        bars.show(step)
            return check, await check.repair() if repair else 0
        finally:
            await metadata.close()


def _as_json(check: Fsck, repaired: int) -> Json:
    return {
        "damaged": check.findings.damaged,
        "checked": asdict(check.checked),
        "findings": [
            {
                "kind": kind.text,
                "damage": kind.is_damage,
                "count": count,
                "examples": list(check.findings.examples[kind]),
                "advice": kind.advice,
            }
            for kind, count in check.findings.counts.items()
        ],
        "repaired": repaired,
    }


def _print(check: Fsck, repaired: int, *, deep: bool) -> None:
    checked, findings = check.checked, check.findings
    for is_damage in (True, False):
        if any(kind.is_damage is is_damage for kind in findings.counts):
            _print_findings(findings, is_damage=is_damage)
    read = f", {approximate_size(checked.read_bytes)} of records read" if deep else ""
    note(
        f"{counted(checked.partitions, 'partition')}, {counted(checked.rows, 'row')}, "
        f"{counted(checked.objects, 'object')} of {approximate_size(checked.stored_bytes)}{read}"
    )
    if repaired:
        print_done(f"{counted(repaired, 'live object')} that no row names given up")
    if not findings.damaged:
        print_done("index and store belong together: nothing is damaged or missing")


def _print_findings(findings: Findings, *, is_damage: bool) -> None:
    listing = table("DAMAGED" if is_damage else "LEFT OVER", "COUNT", "WHERE", numbers=("COUNT",))
    advice: list[str] = []
    for kind, count in findings.counts.items():
        if kind.is_damage is not is_damage:
            continue
        examples = findings.examples[kind]
        more = (
            f"\n… and {count - len(examples):,} more" if is_damage and count > len(examples) else ""
        )
        shown = "\n".join(examples if is_damage else examples[:3]) + more
        listing.add_row(kind.text, f"{count:,}", escape(shown))
        advice.append(f"{kind.text}: {kind.advice}")
    results().print(listing)
    for line in advice:
        note(line)
