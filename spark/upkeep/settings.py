"""Options of the jobs that write segments: what brokers are told with their own settings."""

from pathlib import Path
from typing import Annotated, Final

import typer

from spark.jobs.options import UpkeepOptions, WrongUsage, parse_pairs
from spark.upkeep.stores import UpkeepOrder
from spark.upkeep.topic_policies import read_started_with
from storage.config import UpkeepConfig
from storage.configs.config_types import InvalidConfig

DEFAULTS: Final = UpkeepConfig()
_PANEL: Final = "As brokers are set"

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="Only this one. Repeatable. Default: all."),
]
StartedWith = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        rich_help_panel=_PANEL,
        help="A broker config that brokers are started with, by Kafka's name. Repeatable.",
    ),
]
SegmentBytes = Annotated[
    int,
    typer.Option(
        "--segment-bytes",
        min=1,
        rich_help_panel=_PANEL,
        envvar="STREAMHOUSE_UPKEEP__SEGMENT_BYTES",
        help="The most that a segment has of batches.",
    ),
]
SegmentRows = Annotated[
    int,
    typer.Option(
        "--segment-rows",
        min=1,
        rich_help_panel=_PANEL,
        envvar="STREAMHOUSE_UPKEEP__SEGMENT_ROWS",
        help="A partition with so many rows that are not built is due.",
    ),
]
SegmentAge = Annotated[
    int,
    typer.Option(
        "--segment-age-ms",
        min=1,
        rich_help_panel=_PANEL,
        envvar="STREAMHOUSE_UPKEEP__SEGMENT_AGE_MS",
        help="So is one whose oldest such row was written so long ago.",
    ),
]
KeyMapBytes = Annotated[
    int,
    typer.Option(
        "--key-map-bytes",
        min=1,
        rich_help_panel=_PANEL,
        envvar="STREAMHOUSE_UPKEEP__KEY_MAP_BYTES",
        help="Memory of a task for the latest offset of each key.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def upkeep_order(
    options: UpkeepOptions, started_with: list[str] | None, config: UpkeepConfig
) -> UpkeepOrder:
    """Return what executors are told.

    Raises:
        WrongUsage: the log is not found, or `--set` has no equals sign, or no value that brokers
            take.
    """
    settings = parse_pairs("--set", started_with or ())
    try:
        read_started_with(settings)
    except InvalidConfig as invalid:
        raise WrongUsage(f"--set: {invalid}") from invalid
    return UpkeepOrder(
        location=options.location(),
        config=config,
        started_with=settings,
    )


def report_directory(options: UpkeepOptions) -> Path | None:
    """Return where a report goes, absolute and there; None if nobody asked for one."""
    if options.report is None:
        return None
    directory = options.report.absolute()  # Java writes there, too, and may work elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    return directory
