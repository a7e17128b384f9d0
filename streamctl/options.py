"""Options that several commands share; the connection's stand before or after the command."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import typer
from typer.models import OptionInfo

from streamctl.arguments import check_text
from streamctl.connection_options import Bootstrap, ConfigFiles, Given, Properties
from streamctl.errors import UsageError
from streamctl.output import Format
from streamctl.topic_settings import CleanupPolicy, Compression
from streamctl.units import (
    DURATION_EXAMPLES,
    SIZE_EXAMPLES,
    parse_bytes,
    parse_duration,
    parse_retention,
    parse_size,
    parse_time,
)

Command = TypeVar("Command", bound=Callable[..., None])

_FORMAT: Final = "output"
_SHORT: Final = "as_json"

FormatOption = Annotated[
    Format, typer.Option("--format", help="A table to read, or JSON for programs.")
]


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the connection options after its own; its first argument is the outcome.

    People write `streamctl topic list --bootstrap …` as often as the other way round. A command
    that has --format (its parameter `output`) gets --json, too.
    """

    @wraps(command)
    def run(*, ctx: typer.Context, **given: Any) -> None:
        behind = Given.read(
            bootstrap=given.pop("bootstrap"),
            properties=given.pop("properties"),
            config=given.pop("config"),
        )
        connection = (ctx.find_object(Given) or Given()).then(behind).connection()
        connection.check()
        check_text(given.values())
        if given.pop(_SHORT, False):
            given[_FORMAT] = type(given[_FORMAT])("json")
        command(connection, **given)

    named = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(command).parameters.values())[1:]
    short = inspect.Parameter(_SHORT, named, annotation=JsonFlag, default=False)
    parameters = [
        inspect.Parameter("ctx", named, annotation=typer.Context),
        *(parameter.replace(kind=named) for parameter in own),
        *(short for parameter in own if parameter.name == _FORMAT),
        inspect.Parameter("bootstrap", named, annotation=Bootstrap, default=None),
        inspect.Parameter("properties", named, annotation=Properties, default=None),
        inspect.Parameter("config", named, annotation=ConfigFiles, default=None),
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)  # typer builds options from it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return explained(run)


def explained(command: Command) -> Command:
    """Make a docstring into help text: prose flows, the lines of its examples stand."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(
        paragraph.replace("Examples:\n", "[bold]Examples[/]\n")
        if paragraph.startswith("Examples:\n")
        else paragraph.replace("\n", " ")
        for paragraph in paragraphs
    )
    return command


def flag(*names: str, text: str) -> OptionInfo:
    """Return an option without a value; `text` explains it."""
    first, *others = names
    return cast("OptionInfo", typer.Option(first, *others, metavar="", help=text))


def duration_ms(text: str) -> int:
    """Parse an option's duration; a mistake is a usage error."""
    return _parsed(parse_duration, text)


def timestamp_ms(text: str) -> int:
    """Parse an option's time, ISO 8601 or milliseconds; a mistake is a usage error."""
    return _parsed(parse_time, text)


def retention_ms(text: str) -> int:
    """Parse --retention, which may be infinite; a mistake is a usage error."""
    return _parsed(parse_retention, text)


def size_bytes(text: str) -> int:
    """Parse --retention-bytes, which may be infinite; a mistake is a usage error."""
    return _parsed(parse_size, text)


def rate_bytes(text: str) -> int:
    """Parse a limit of bytes per second; a mistake is a usage error, infinite another one."""
    if text == "infinite":
        raise UsageError("there is no infinite limit", fix="streamctl quota delete takes one away")
    return _parsed(parse_bytes, text)


def data_directory(text: str) -> Path:
    """Return a broker's directory; an empty word, where a variable was not set, is none."""
    if not text.strip():
        raise UsageError("--data is empty", fix="name the --data of a broker")
    return Path(text)


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


JsonFlag = Annotated[bool, flag("--json", text="The same as --format json.")]
RetentionOption = Annotated[
    int | None,
    typer.Option(
        "--retention",
        parser=retention_ms,
        metavar="DURATION",
        help=f"How long records are kept ({DURATION_EXAMPLES}, infinite).",
    ),
]
RetentionBytesOption = Annotated[
    int | None,
    typer.Option(
        "--retention-bytes",
        parser=size_bytes,
        metavar="SIZE",
        help=f"How much of each partition is kept ({SIZE_EXAMPLES}, infinite).",
    ),
]
CompressionOption = Annotated[
    Compression | None,
    typer.Option("--compression", help="Codec of stored batches; producer keeps the sender's."),
]
CleanupOption = Annotated[
    CleanupPolicy | None,
    typer.Option("--cleanup-policy", help="Delete old records, or keep the last of each key."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A topic setting by Kafka's name. Repeatable."
    ),
]
