"""streamctl fsck, reconcile and recover: work on the stores themselves, without a broker."""

from pathlib import Path
from typing import Annotated

import typer

from streamctl.arguments import not_empty
from streamctl.options import data_directory, explained, flag

PANEL = "Stores"

PostgresOption = Annotated[
    str | None,
    typer.Option(
        "--postgres",
        parser=not_empty("--postgres"),
        metavar="DSN",
        envvar="STREAMHOUSE_POSTGRES",
        rich_help_panel=PANEL,
        help="The cluster's Postgres, as brokers are told.",
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        parser=not_empty("--store"),
        metavar="URL",
        envvar="STREAMHOUSE_STORE",
        rich_help_panel=PANEL,
        help="file://DIR or s3://BUCKET/PREFIX?endpoint=URL&region=R, as brokers are told.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        parser=data_directory,
        rich_help_panel=PANEL,
        help="The --data of a broker with an embedded Postgres, in place of the other two.",
    ),
]
JsonOption = Annotated[bool, flag("--json", text="Print JSON for programs.")]


@explained
def fsck(
    *,
    postgres: PostgresOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    deep: Annotated[
        bool, flag("--deep", text="Read every byte, too, and check all checksums.")
    ] = False,
    repair: Annotated[
        bool, flag("--repair", text="Give up live objects that no row names, at once.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Prove that the index in Postgres and the object store belong together.

    The rows of each partition have to have every offset from its log start to its high watermark
    once, and every object that a row names has to be in the store, as it was uploaded. With
    --deep every byte is read, and has to be what was written.

    Brokers may go on meanwhile. What is left over by crashes is counted, and is no error. The
    exit code is 1 if anything is damaged or missing.

    Examples:
      streamctl fsck --data ./streamhouse-data
      streamctl fsck --postgres postgresql://user@db/streamhouse \
          --store 's3://records/log?region=eu-west-1' --deep
      streamctl fsck --data ./streamhouse-data --json | jq '.findings[] | select(.damage)'
    """
    from streamctl.offline_fsck import run_fsck  # noqa: PLC0415 (no other command needs it)

    run_fsck(postgres, store, data, deep=deep, repair=repair, as_json=as_json)


@explained
def reconcile(
    *,
    postgres: PostgresOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    dry_run: Annotated[bool, flag("--dry-run", text="List them; delete nothing.")] = False,
    yes: Annotated[bool, flag("--yes", "-y", text="Delete without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Delete objects of the store that no row in Postgres knows.

    There are next to none: uploads are registered before they begin, and the sweeper of the
    brokers takes away what was given up. Objects of the last two hours are left alone.

    Nothing is deleted where it looks as if Postgres had lost something (because it was restored
    from an older backup, say): where the store is another cluster's, where more than one object
    in a hundred or more than 1,000 have no row, or where one has records from behind the end of
    a log; nor where one may have what `streamctl recover` did not find: a segment that cannot be
    read, or offsets that a log has only a gap for.

    Examples:
      streamctl reconcile --data ./streamhouse-data --dry-run
      streamctl reconcile --postgres postgresql://user@db/streamhouse \
          --store 's3://records/log?region=eu-west-1' --yes
    """
    from streamctl.offline_reconcile import run_reconcile  # noqa: PLC0415 (as above)

    run_reconcile(postgres, store, data, dry_run=dry_run, yes=yes, as_json=as_json)


@explained
def recover(
    *,
    postgres: PostgresOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    dry_run: Annotated[
        bool, flag("--dry-run", text="Show what would be recovered; write nothing but the schema.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Rebuild the index of a lost Postgres from the objects of the store.

    Every object tells what it has. Topics, partitions, offsets, idempotent producers and aborted
    transactions are put together from that, up to the last object that was uploaded, and written
    into an EMPTY database, all at once. No broker may run meanwhile. The exit code is 1 if objects
    were unreadable, offsets lost, records moved or something left out, though the rest is there.

    What only Postgres had is not brought back, and told: what groups have committed, users, ACLs,
    quotas, configs of the cluster, and what was altered last of topics. So that nothing expires by
    a default, topics that follow the cluster's configs keep all records until you set what it had.

    A backup of Postgres has that, but not what was written after it: brokers may refuse to start
    on one (docs/operations.md tells what to do then). Restore it instead only if that matters more.

    Examples:
      streamctl recover --postgres postgresql://user@db/new_database \
          --store 's3://records/log?region=eu-west-1' --dry-run
      streamctl recover --postgres postgresql://user@db/new_database \
          --store 's3://records/log?region=eu-west-1'
      mv streamhouse-data/postgres broken && streamctl recover --data ./streamhouse-data
    """
    from streamctl.offline_recover import run_recover  # noqa: PLC0415 (as above)

    run_recover(postgres, store, data, dry_run=dry_run, as_json=as_json)
