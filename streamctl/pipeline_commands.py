"""streamctl pipeline: Spark's jobs by name, each a process of its own.

This package shares no code with them: it knows where they are, and starts them.
"""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from streamctl.connection_options import BOOTSTRAP_ENVIRONMENT, Given
from streamctl.errors import UsageError
from streamctl.options import explained
from streamctl.output import results, table
from streamctl.spark_jobs import become_job

JOBS: Final = "spark.jobs"
_MAIN: Final = re.compile(r"^if __name__ == .__main__.:$", re.MULTILINE)
_PASSED_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],  # --help is the job's
}


@explained
def pipeline(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Of the job; none lists them.")] = None,
) -> None:
    r"""Run one of Spark's jobs on the log; the arguments after its name are its own.

    Needs Java 17, and Spark: make spark (for an image: uv sync --extra spark).

    Examples:
      streamctl pipeline
      streamctl pipeline warehouse --help
      streamctl pipeline warehouse --topic order_events --format delta \
          --output ./lake/orders --follow
      streamctl pipeline replay --topic order_events --format delta \
          --output ./lake/orders --schema 'order_id bigint, amount double'
      streamctl pipeline deadletter --topic order_events --format delta \
          --output ./lake/orders
    """
    if name in {None, "-h", "--help"}:
        _list_jobs()
        return
    jobs = _jobs()
    if name not in jobs:
        raise UsageError(f"there is no pipeline {name!r}", fix=f"one of: {', '.join(jobs)}")
    environment = _reached(ctx.find_object(Given) or Given())
    become_job(f"{JOBS}.{name}", ctx.args, environment, command=f"streamctl pipeline {name}")


def register(app: typer.Typer) -> None:
    """Add the command to a command line."""
    app.command(context_settings=dict(_PASSED_ON), add_help_option=False)(pipeline)


def _reached(given: Given) -> dict[str, str]:
    """Return the environment that tells a job which brokers were named before its name.

    Raises:
        UsageError: client properties were, too; a job's are those of another client.
    """
    if given.properties:
        raise UsageError(
            "-X and --config before a pipeline's name are librdkafka's",
            fix="give the job its own after its name; they are the Java client's",
        )
    return {} if given.servers is None else {BOOTSTRAP_ENVIRONMENT: given.servers}


def _list_jobs() -> None:
    listing = table("PIPELINE", "WHAT IT DOES")
    for name, does in _jobs().items():
        listing.add_row(name, does)
    results().print(listing)


def _jobs() -> dict[str, str]:
    """Return what each job does, by name: the modules of jobs that can be run."""
    package = find_spec(JOBS)
    assert package is not None, "installed together with this command"
    assert package.submodule_search_locations is not None
    (directory,) = package.submodule_search_locations
    sources = {path.stem: path.read_text() for path in sorted(Path(directory).glob("*.py"))}
    return {name: _does(text) for name, text in sources.items() if _MAIN.search(text)}


def _does(text: str) -> str:
    first, *_ = (ast.get_docstring(ast.parse(text)) or "").splitlines() or [""]
    return first.partition(": `")[0].partition(" (`")[0].rstrip(".")
