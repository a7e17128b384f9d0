"""Offsets of a group reset by every way there is, dry and in earnest; its offsets must be there."""

from typing import Final

from tests.oracle.calls import calls_of

_consumer_groups: Final = calls_of("consumer-groups")
_streams_application_reset: Final = calls_of("streams-application-reset")
_RESET: Final = "--reset-offsets --topic $run-grouped --group"
_reset: Final = calls_of("consumer-groups", names="reset-offsets-", entity=f"{_RESET} $run-classic")

CALLS: Final = (
    _reset("dry-run", "--to-earliest --dry-run", "^RUN-classic RUN-grouped 0 0$"),
    _reset("without-execute", "--to-earliest", "^RUN-classic RUN-grouped 0 0$"),
    _reset("to-latest", "--to-latest --dry-run", "^RUN-classic RUN-grouped 0 "),
    _reset("to-current", "--to-current --dry-run", "^RUN-classic RUN-grouped 0 "),
    _reset("to-offset", "--to-offset 2 --dry-run", "^RUN-classic RUN-grouped 0 2$"),
    _reset("to-offset-too-high", "--to-offset 1000 --dry-run", "^RUN-classic RUN-grouped 0 "),
    _reset("shift-back", "--shift-by -2 --dry-run", "^RUN-classic RUN-grouped 0 "),
    _reset("shift-too-far", "--shift-by 100 --dry-run", "^RUN-classic RUN-grouped 0 "),
    _reset("shift-below-zero", "--shift-by -100 --dry-run", "^RUN-classic RUN-grouped 0 0$"),
    _reset("by-duration", "--by-duration PT1H --dry-run", "^RUN-classic RUN-grouped 0 0$"),
    _reset(
        "to-datetime",
        "--to-datetime 2020-01-01T00:00:00.000 --dry-run",
        "^RUN-classic RUN-grouped 0 0$",
    ),
    _reset(
        "to-future",
        "--to-datetime 2200-01-01T00:00:00.000 --dry-run",
        "^RUN-classic RUN-grouped 0 ",
    ),
    _reset("bad-datetime", "--to-datetime yesterday --dry-run", "Error"),
    _reset("export", "--to-offset 1 --export", "^RUN-grouped,0,1$"),
    _consumer_groups(
        "reset-offsets-export-to-file",
        "--reset-offsets --all-topics --group $run-classic --to-offset 1 --export",
        "^RUN-grouped,1,1$",
        saves=r"(?P<offsets_csv>\A.*\Z)",
        given=True,
    ),
    _consumer_groups(
        "reset-offsets-from-file",
        "--reset-offsets --group $run-classic --from-file $files/offsets.csv --execute",
        "^RUN-classic RUN-grouped 1 1$",
        files={"offsets.csv": "$offsets_csv"},
    ),
    _consumer_groups(
        "reset-offsets-of-one-partition",
        "--reset-offsets --group $run-classic --topic $run-grouped:1 --to-earliest --execute",
        "^RUN-classic RUN-grouped 1 0$",
    ),
    _consumer_groups(
        "consumer-groups-describe-after-reset",
        "--describe --group $run-classic",
        "^RUN-classic RUN-grouped 1 0 ",
    ),
    _consumer_groups(
        "reset-offsets-of-consumer-group",
        f"{_RESET} $run-consumer --to-earliest --execute",
        "^RUN-consumer RUN-grouped 0 0$",
    ),
    _consumer_groups(
        "reset-offsets-of-all-groups",
        "--reset-offsets --all-groups --topic $run-grouped --to-latest --dry-run",
        "^RUN-consumer RUN-grouped 0 ",
        order_hidden=True,
    ),
    _consumer_groups(
        "reset-offsets-of-new-group",
        f"{_RESET} $run-made --to-earliest --execute",
        "^RUN-made RUN-grouped 0 0$",
    ),
    _consumer_groups(
        "reset-offsets-of-unknown-topic",
        "--reset-offsets --group $run-classic --topic $run-no --to-earliest --execute",
        "UnknownTopicOrPartitionException",
    ),
    _consumer_groups(
        "reset-offsets-of-unknown-partition",
        "--reset-offsets --group $run-classic --topic $run-grouped:9 --to-earliest --execute",
        "UnknownTopicOrPartitionException",
    ),
    _streams_application_reset(
        "streams-application-reset",
        "--application-id $run-streams --input-topics $run-grouped --dry-run",
        "RUN-grouped",
    ),
    _streams_application_reset(
        "streams-application-reset-unknown-topic",
        "--application-id $run-streams --input-topics $run-no --force",
        "RUN-no",
        code=1,
    ),
)
