"""Options that jobs share, and how a job ends: typer's commands, the same names everywhere.

A job is a function whose own options stand in its signature. `@pipeline` gives it those of a job
that reads a topic and writes something, `@upkeep` those of a job on the whole log; the first
argument of the function is their outcome. `run(command)` is the main of its module.

    @pipeline
    def warehouse(options: PipelineOptions, table_format: TableFormat = ...) -> None: ...

    if __name__ == "__main__":
        run(warehouse)

Exit codes: 0 done, 1 failed, 2 the command line makes no sense, 130 Ctrl-C.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark.java_directory import absolute
from spark.jobs.java_words import hush_pyspark
from spark.jobs.option_groups import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    DEFAULTS,
    LOG_OPTIONS,
    LOOPBACK,
    METRICS_OPTIONS,
    OUTPUT_OPTIONS,
    RUN_OPTIONS,
    TOPIC_OPTIONS,
    Options,
    Source,
)
from spark.jobs.standard_output import OutputFull, standard_output
from spark.jobs.task_errors import FAILURES, advice, explain
from spark.log_location import DATA, POSTGRES, STORE, LogLocation
from spark.session import JavaMissing, UnsupportedSpark

_COMMAND: Final = "STREAMCTL_COMMAND"
"""Where streamctl tells what people typed, for help and mistakes (streamctl/spark_jobs.py)."""

_SECRET: Final = re.compile(r"password|secret|jaas|\.key$")

__all__ = [
    "JobFailed",
    "PipelineOptions",
    "Source",
    "UpkeepOptions",
    "WrongUsage",
    "parse_pairs",
    "pipeline",
    "run",
    "upkeep",
]


class JobFailed(Exception):
    """A job cannot do what it was asked; shown without a traceback.

    Attributes:
        fix: what the reader can do about it; empty when there is nothing to say.
        exit_code: 1; 2 for a command line that could never work.
    """

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class WrongUsage(JobFailed):
    """The options given do not go together."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """What the options of every job say.

    Attributes:
        log: options of `LogLocation`; what is missing is left to the environment.
        master: of Spark: local[2], spark://HOST:PORT, yarn, k8s://…
        report: directory for pictures and numbers, of jobs that take --report; None for none.
    """

    log: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str = DEFAULT_MASTER
    report: Path | None = None

    def location(self) -> LogLocation:
        """Return where the log is.

        Raises:
            WrongUsage: neither options nor environment say it.
        """
        try:
            return LogLocation.of(self.log)
        except ValueError as error:
            raise WrongUsage(
                f"the log is not found: {error}",
                fix="give --postgres and --store, or --data DIRECTORY",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions(UpkeepOptions):
    """What the options of every pipeline say.

    Attributes:
        source: brokers, or the log itself.
        bootstrap: HOST:PORT of brokers, separated by commas.
        topics: one or more.
        output: where results go: a directory or URL, or a name; the job says which.
        checkpoint: absolute directory or URL that tells a run that resumes where it was.
        follow: go on with what is still to come; else end at what was there at the start.
        client: properties of Kafka's Java client; may hold secrets.
        reader: options of the source, such as maxOffsetsPerTrigger, as it names them.
        metrics_port: of Prometheus' metrics at metrics_host; None for no HTTP.
        metrics_file: the same as a file; None for none.
    """

    source: Source = Source.kafka
    bootstrap: str = DEFAULT_BOOTSTRAP
    topics: tuple[str, ...] = ()
    output: str = ""
    checkpoint: str = ""
    follow: bool = False
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    reader: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK
    metrics_file: Path | None = None

    def trigger(self) -> dict[str, Any]:
        """Return the arguments of DataStreamWriter.trigger(): go on, or end with what is there."""
        return {"processingTime": "1 second"} if self.follow else {"availableNow": True}

    def with_reader(self, **options: str) -> "PipelineOptions":
        """Return these with defaults for the source, where the command line said nothing."""
        return replace(self, reader={**options, **self.reader})


def pipeline(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all pipelines; its first argument is PipelineOptions."""
    groups = {
        **TOPIC_OPTIONS,
        **OUTPUT_OPTIONS,
        **LOG_OPTIONS,
        **RUN_OPTIONS,
        **METRICS_OPTIONS,
    }
    return _with_options(command, groups, _pipeline_options)


def upkeep(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of jobs on the whole log; its first argument is UpkeepOptions."""
    return _with_options(command, {**LOG_OPTIONS, **RUN_OPTIONS}, _upkeep_options)


def run(command: Callable[..., None]) -> None:
    """Run a job with the command line of this process; what it cannot do ends it with a line."""
    hush_pyspark()
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(_told(command))
    try:
        app(prog_name=os.environ.get(_COMMAND))
    except JobFailed as failed:
        sys.stderr.write(f"error: {failed.message}\n")
        if failed.fix:
            sys.stderr.write(f"fix:   {failed.fix}\n")
        sys.exit(failed.exit_code)
    except (JavaMissing, UnsupportedSpark, OutputFull) as failed:
        sys.stderr.write(f"error: {failed}\n")
        sys.exit(JobFailed.exit_code)
    except FAILURES as error:
        sys.stderr.write(f"error: {explain(error)}\nfix:   {advice(error)}\n")
        sys.exit(JobFailed.exit_code)


def _told(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose broken pipes typer does not see: it would end with 1, silently."""

    @wraps(command)
    def told(**given: Any) -> None:
        try:
            with standard_output():
                command(**given)
        except (ConnectionError, EOFError) as error:
            raise JobFailed(explain(error), fix=advice(error)) from error

    return told


def parse_pairs(option: str, words: Iterable[str]) -> dict[str, str]:
    """Return `name=value` words as a mapping.

    Raises:
        WrongUsage: one has no equals sign; it is not repeated in the message, as it may be secret.
    """
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise WrongUsage(f"{option} takes name=value")
        pairs[name.strip()] = value
    return pairs


def _with_options(
    command: Callable[..., None],
    groups: Options,
    outcome: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    @wraps(command)
    def with_options(**given: Any) -> None:
        shared = {name: given.pop(name) for name in groups}
        command(outcome(shared), **given)

    named = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = [
        inspect.Parameter(
            name, named, annotation=Annotated[kind, option], default=DEFAULTS.get(name)
        )
        for name, (kind, option) in groups.items()
    ]
    parameters = [*(parameter.replace(kind=named) for parameter in own), *shared]
    with_options.__dict__["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def _log(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(given[name]) for name in (POSTGRES, STORE, DATA) if given[name] is not None}


def _upkeep_options(given: dict[str, Any]) -> UpkeepOptions:
    return UpkeepOptions(log=_log(given), master=given["master"])


def _pipeline_options(given: dict[str, Any]) -> PipelineOptions:
    from_files: dict[str, str] = {}
    for path in given["config"] or ():
        from_files |= _properties_of(path)
    from_words = parse_pairs("-X", given["properties"] or ())
    if secret := next((name for name in from_words if _SECRET.search(name)), None):
        raise WrongUsage(f"-X {secret}: ps shows command lines", fix="put it into a --config file")
    output = given["output"]
    return PipelineOptions(
        log=_log(given),
        master=given["master"],
        source=given["source"],
        bootstrap=given["bootstrap"],
        topics=tuple(given["topic"]),
        output=output,
        checkpoint=absolute(given["checkpoint"] or f"{output.rstrip('/')}.checkpoint"),
        follow=given["follow"],
        client={**from_files, **from_words},
        reader=parse_pairs("--read-option", given["reader"] or ()),
        metrics_port=given["metrics_port"],
        metrics_host=given["metrics_host"],
        metrics_file=given["metrics_file"],
    )


def _properties_of(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"cannot read --config {path}: {type(error).__name__}") from error
    lines = (line.strip() for line in text.splitlines())
    return parse_pairs(f"--config {path}", (line for line in lines if line and line[0] not in "#!"))
