"""streamctl snapshot create, list, describe and delete: moments of topics to be read again."""

from typing import Annotated

import typer

from streamctl.offline_commands import DataOption, JsonOption, PostgresOption
from streamctl.options import explained, flag, retention_ms
from streamctl.units import DURATION_EXAMPLES

HELP = "Write moments of topics down, for Spark to read again (asOf)."

app = typer.Typer(no_args_is_help=True, help=HELP)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A letter, then letters, digits and . _ - only.")
]


@app.callback()
def snapshot_group() -> None:
    """Write moments of topics down, for Spark to read again (asOf)."""


@app.command()
@explained
def create(
    snapshot_id: IdArgument,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="A topic that is in it. Repeatable."),
    ] = None,
    all_topics: Annotated[bool, flag("--all-topics", text="All topics there are.")] = False,
    retention: Annotated[
        int,
        typer.Option(
            "--retention",
            parser=retention_ms,
            metavar="DURATION",
            help=f"How long it can be read ({DURATION_EXAMPLES}, infinite).",
        ),
    ] = "30d",  # type: ignore[assignment]  # typer parses the default, too
    postgres: PostgresOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Write down where all partitions of some topics are, at one moment.

    Every record that was acknowledged before is in it, and of each transaction everything or
    nothing, across topics. Spark reads it with option("asOf", ID), `streamctl sql` with --as-of ID.

    It holds nothing back: retention, compaction and the deletion of topics take records as if it
    were not there, and who reads it then is told. What has expired is removed by the next create.

    Examples:
      streamctl snapshot create before-backfill --topic orders --topic payments \
          --postgres postgresql://user@db/streamhouse
      streamctl snapshot create nightly-2026-06-24 --all-topics --retention 7d \
          --data ./streamhouse-data
    """
    from streamctl.offline_snapshots import run_create  # noqa: PLC0415 (no other command needs it)

    run_create(
        postgres,
        data,
        snapshot_id,
        topic,
        all_topics=all_topics,
        kept_ms=retention,
        as_json=as_json,
    )


@app.command("list")
@explained
def list_snapshots(
    *, postgres: PostgresOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    r"""List the snapshots that can be read, the oldest first.

    Examples:
      streamctl snapshot list --data ./streamhouse-data
      streamctl snapshot list --postgres postgresql://user@db/streamhouse --json | jq '.[].id'
    """
    from streamctl.offline_snapshots import run_list  # noqa: PLC0415 (as above)

    run_list(postgres, data, as_json=as_json)


@app.command()
@explained
def describe(
    snapshot_id: IdArgument,
    *,
    postgres: PostgresOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show where each partition of a snapshot began and ended, and what has been lost of it.

    LOST counts offsets that retention, the deletion of records or that of the topic took since.
    COMPACTED says that there may be more: records whose keys were written again later.

    Examples:
      streamctl snapshot describe before-backfill --data ./streamhouse-data
    """
    from streamctl.offline_snapshots import run_describe  # noqa: PLC0415 (as above)

    run_describe(postgres, data, snapshot_id, as_json=as_json)


@app.command()
@explained
def delete(
    snapshot_id: IdArgument, *, postgres: PostgresOption = None, data: DataOption = None
) -> None:
    r"""Forget a snapshot; records stay as they are.

    Examples:
      streamctl snapshot delete before-backfill --data ./streamhouse-data
    """
    from streamctl.offline_snapshots import run_delete  # noqa: PLC0415 (as above)

    run_delete(postgres, data, snapshot_id)
