"""streamctl segment dump: what an object of the store holds, without a broker."""

from typing import Annotated

import typer

from streamctl.options import explained, flag

app = typer.Typer(no_args_is_help=True, help="Look into stored objects, without a broker.")


@app.callback()
def segment_group() -> None:
    """Look into stored objects, without a broker."""


@app.command()
@explained
def dump(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PATH|URL",
            help="A file, file:///PATH, or s3://BUCKET/KEY?endpoint=URL&region=R.",
        ),
    ],
    *,
    records: Annotated[
        bool, flag("--records", text="Show the records of each batch, too.")
    ] = False,
    as_json: Annotated[
        bool, flag("--json", text="Print JSON: one object a line, told apart by its type.")
    ] = False,
) -> None:
    r"""Show what a built segment (.seg) or an object of the writer (wal/…) holds.

    Everything is checked, checksums included: the command fails if anything is damaged, says
    what and where, and shows all that is not.

    Batches of a segment have their offsets. Those of a writer's object got theirs from the
    database: what the writer expected is shown, and records count from the start of their batch.

    S3 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as for the broker.

    Examples:
      streamctl segment dump 00000000-00004999.seg
      streamctl segment dump --records streamhouse-data/objects/wal/5e/0190…
      streamctl segment dump --json 's3://records/wal/5e/0190…?region=R' \
          | jq 'select(.type == "batch")'
    """
    from streamctl.offline_dump import dump_object  # noqa: PLC0415 (no other command needs it)

    dump_object(place, records=records, as_json=as_json)
