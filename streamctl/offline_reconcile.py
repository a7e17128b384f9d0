"""One run of `streamctl reconcile`."""

import asyncio
from pathlib import Path

from storage.fsck.fsck import Progress, check_same_cluster
from storage.fsck.fsck_objects import SHARDS
from storage.fsck.orphans import OrphanNeeded
from storage.fsck.reconcile import IndexTooOld, Reconciler
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.wall_clock import now_ms
from streamctl.confirmation import asked
from streamctl.errors import Failure
from streamctl.offline_progress import progress_bars
from streamctl.offline_stores import POOL, open_stores
from streamctl.output import Json, counted, print_done, print_json, results, table
from streamctl.standard_streams import is_somebody_there, read_or_not
from streamctl.units import approximate_size


def run_reconcile(
    postgres: str | None,
    store: str | None,
    data: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Find objects without a row; delete them if that is wanted.

    Raises:
        Failure: nothing may be deleted.
    """
    try:
        asyncio.run(_reconcile(postgres, store, data, dry_run=dry_run, yes=yes, as_json=as_json))
    except IndexTooOld as error:
        raise Failure(
            f"{error}: it looks as if the database had lost them; nothing was deleted",
            fix="restore a newer backup of Postgres, or rebuild the index: streamctl recover",
        ) from error
    except OrphanNeeded as error:
        raise Failure(f"{error}; nothing was deleted", fix=error.fix) from error


async def _reconcile(
    postgres: str | None,
    store: str | None,
    data: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    async with open_stores(postgres, store, data) as (dsn, objects):
        metadata = await PostgresMetadata.open(dsn, POOL)
        try:
            await check_same_cluster(metadata, objects)
            reconciler = Reconciler(metadata=metadata, objects=objects, now_ms=now_ms)
            with progress_bars() as bars:
                async for done in reconciler.find():
                    bars.show(Progress(step="listing", done=done, total=len(SHARDS)))
            if not as_json:
                with read_or_not():
                    _print(reconciler)
            wanted = bool(reconciler.found.orphans) and not dry_run
            deleted = await reconciler.delete() if wanted and (yes or _confirmed(reconciler)) else 0
        finally:
            await metadata.close()
    if as_json:
        found = reconciler.found
        orphans: list[Json] = [{"path": one.path, "size": one.size} for one in found.orphans]
        print_json({"objects": found.objects, "orphans": orphans, "deleted": deleted})
    elif deleted:
        print_done(f"{counted(deleted, 'object')} deleted")


def _confirmed(reconciler: Reconciler) -> bool:
    if not is_somebody_there():
        raise Failure("nobody is there to confirm it", fix="--yes deletes without asking")
    count = counted(len(reconciler.found.orphans), "object")
    return asked(f"Delete {count} for good?")


def _print(reconciler: Reconciler) -> None:
    found = reconciler.found
    if not found.orphans:
        print_done(f"each of {counted(found.objects, 'object')} has a row, or is new")
        return
    listing = table("OBJECT WITHOUT A ROW", "SIZE", numbers=("SIZE",))
    for one in found.orphans:
        listing.add_row(one.path, approximate_size(one.size))
    results().print(listing)
