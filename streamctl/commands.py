"""The command tree of `streamctl`, and how failures end a process.

Exit codes: 0 done, 1 failed, 2 the command line makes no sense, 130 Ctrl-C, 143 SIGTERM.
"""

import signal
import sys
from importlib.metadata import version
from typing import Annotated, Final

import typer

from streamctl import (
    acl_commands,
    cluster_commands,
    config_commands,
    group_commands,
    pipeline_commands,
    quota_commands,
    segment_commands,
    snapshot_commands,
    topic_commands,
    user_commands,
)
from streamctl.connection_options import Bootstrap, ConfigFiles, Given, Properties
from streamctl.consume_command import consume
from streamctl.cost_command import cost
from streamctl.errors import Failure
from streamctl.offline_commands import fsck, reconcile, recover
from streamctl.options import explained
from streamctl.output import print_failure
from streamctl.plain_values import PlainGroup
from streamctl.produce_command import produce
from streamctl.sql_command import sql

INTERRUPTED: Final = 128 + signal.SIGINT

app = typer.Typer(
    name="streamctl",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback is for a bug; python's own shows it best
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topic_commands.app, name="topic")
app.add_typer(group_commands.app, name="group")
app.add_typer(config_commands.app, name="config")
app.add_typer(user_commands.app, name="user")
app.add_typer(acl_commands.app, name="acl")
app.add_typer(quota_commands.app, name="quota")
app.add_typer(cluster_commands.app, name="cluster")
app.add_typer(segment_commands.app, name="segment")
app.add_typer(snapshot_commands.app, name="snapshot")
app.command()(produce)
app.command()(consume)
app.command()(cost)
app.command()(fsck)
app.command()(reconcile)
app.command()(recover)
pipeline_commands.register(app)
app.command()(sql)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamctl {version('streamhouse')}")
        raise typer.Exit


@app.callback()
@explained
def root(
    ctx: typer.Context,
    bootstrap: Bootstrap = None,
    properties: Properties = None,
    config: ConfigFiles = None,
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            metavar="",
            callback=lambda value: _show_version(wanted=value),
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    r"""Work with a StreamHouse cluster, or any other that speaks Kafka's protocol.

    Examples:
      streamctl topic create --name user-events --partitions 6 \
          --retention 30d --compression lz4
      streamctl produce --topic user-events --key user-123 \
          --message '{"event": "login"}'
      streamctl consume --topic user-events --from-beginning
      streamctl consume --topic user-events --group analytics --auto-commit
      streamctl group describe analytics
      streamctl topic describe user-events
      streamctl config alter broker --set log.retention.ms=604800000
      streamctl quota set --user alice --produce-rate 10MB
      streamctl cost --since 24h --by client

    Every command explains itself with examples: streamctl COMMAND --help.
    Tab completes commands, options, topics and groups once this was run:
    streamctl --install-completion.

    Environment: STREAMHOUSE_BOOTSTRAP (brokers to start from), STREAMHOUSE_HTTP (a broker's
    HTTP port), NO_COLOR (plain text).

    Exit status: 0 done; 1 failed, and said why; 2 the command line makes no sense; 130 ended
    with Ctrl-C; 143 ended by SIGTERM.
    """
    ctx.obj = Given.read(bootstrap=bootstrap, properties=properties, config=config)


def run() -> None:
    """Run the command line of this process, and exit."""
    try:
        app(prog_name="streamctl")
    except Failure as failure:
        print_failure(failure)
        sys.exit(failure.exit_code)
    except KeyboardInterrupt:  # before typer listens: it makes its commands first
        sys.exit(INTERRUPTED)
