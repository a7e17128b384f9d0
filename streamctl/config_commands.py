"""streamctl config list | describe | alter: configs of topics, brokers, groups, client metrics."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from streamctl.arguments import not_empty
from streamctl.config_requests import (
    Config,
    Operation,
    Resource,
    ResourceKind,
    alter_configs,
    changes_of,
    describe_configs,
    list_resources,
)
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.options import FormatOption, connected, flag
from streamctl.output import Format, note, print_done, print_json, results, table
from streamctl.properties import parse_lists, parse_pairs
from streamctl.topic_settings import readable
from streamctl.wire import Wire

app = typer.Typer(
    no_args_is_help=True, help="Look at and change configs of topics, brokers, groups …"
)

KindArgument = Annotated[
    ResourceKind, typer.Argument(metavar="KIND", help="topic, broker, group or client-metrics.")
]
ResourceArgument = Annotated[
    str | None,
    typer.Argument(
        parser=not_empty("NAME"),
        metavar="[NAME]",
        show_default=False,
        help="Of the topic or group; a broker's node id. Without one: all brokers of the cluster.",
    ),
]


@app.command(name="list")
@connected
def list_configs(
    connection: Connection,
    *,
    kind: Annotated[
        list[ResourceKind] | None,
        typer.Option("--kind", help="Only resources of this kind. Repeatable."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List what has configs: topics, brokers, groups and client metrics subscriptions.

    Examples:
      streamctl config list
      streamctl config list --kind group --format json
    """
    with Wire.connect(connection) as wire:
        resources = list_resources(wire, kind or list(ResourceKind))
    if output is Format.JSON:
        print_json([{"kind": one.kind.value, "name": one.name} for one in resources])
        return
    listing = table("KIND", "NAME")
    for one in resources:
        listing.add_row(one.kind.value, Text(one.name))
    results().print(listing)


@app.command()
@connected
def describe(
    connection: Connection,
    *,
    kind: KindArgument,
    name: ResourceArgument = None,
    everything: Annotated[
        bool, flag("--all", "-a", text="Show configs that have their default, too.")
    ] = False,
    explain: Annotated[bool, flag("--explain", text="Say what each config is for.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the configs of a resource, with who set each value.

    SET BY tells where a value comes from: the resource itself, the broker, the whole cluster,
    or the start of the broker (--set NAME=VALUE). Configs marked fixed need a restart.

    Examples:
      streamctl config describe topic user-events --all --explain
      streamctl config describe broker 0
      streamctl config describe broker
      streamctl config describe group analytics --format json
    """
    resource = _resource(kind, name)
    with Wire.connect(connection) as wire:
        configs = describe_configs(wire, resource)
    shown = [config for config in configs if everything or not config.is_default]
    if output is Format.JSON:
        print_json(
            [
                {
                    "name": config.name,
                    "value": config.value,
                    "set_by": config.source,
                    "fixed": config.read_only,
                    "sensitive": config.sensitive,
                    "documentation": config.documentation,
                }
                for config in shown
            ]
        )
    elif shown:
        _print(shown, explain=explain)
    else:
        note(f"nothing is set of {resource}; --all shows the defaults")


@app.command()
@connected
def alter(
    connection: Connection,
    *,
    kind: KindArgument,
    name: ResourceArgument = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Give it this value. Repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Back to what stands behind it. Repeatable."),
    ] = None,
    append: Annotated[
        list[str] | None,
        typer.Option("--append", metavar="NAME=ITEM", help="Add to a list. Repeatable."),
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="NAME=ITEM", help="Take from a list. Repeatable."),
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", text="Only ask whether it could be done.")] = False,
) -> None:
    r"""Change configs while the cluster runs; all that is given, or nothing.

    A broker's own value counts before the one for all brokers. What is done for all of them at
    once, such as retention and compaction, can be set for all of them only. Some configs of brokers
    are fixed at their start: `streamctl config describe broker 0 --all` marks them.

    Examples:
      streamctl config alter topic user-events --set retention.ms=86400000
      streamctl config alter broker --set log.retention.ms=604800000
      streamctl config alter broker 0 --unset max.connections
      streamctl config alter group analytics \
          --set consumer.session.timeout.ms=50000
      streamctl config alter client-metrics producers --set interval.ms=10000 \
          --set metrics=org.apache.kafka.producer.
    """
    resource = _resource(kind, name)
    changes = changes_of(
        {
            Operation.SET: parse_pairs("--set", setting or ()),
            Operation.APPEND: parse_lists("--append", append or ()),
            Operation.SUBTRACT: parse_lists("--subtract", subtract or ()),
        },
        unset or (),
    )
    if not changes:
        raise UsageError("nothing to change", fix="say what: --set NAME=VALUE, --unset NAME")
    names = [change.name for change in changes]
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise UsageError(f"{', '.join(twice)}: given more than once")
    with Wire.connect(connection) as wire:
        idle = _not_set(wire, resource, unset or ())
        alter_configs(wire, resource, changes, dry_run=dry_run)
    done = "could alter" if dry_run else "altered"
    print_done(f"{done} {resource}: {', '.join(names)}")
    if idle:
        note(f"{resource} does not set {', '.join(idle)}; nothing was there to unset")


def _not_set(wire: Wire, resource: Resource, names: Sequence[str]) -> list[str]:
    """Return which of these a resource does not set itself: brokers unset them without a word.

    None where that cannot be told: who may alter configs may not be allowed to describe them.
    """
    if not names:
        return []
    try:
        configs = describe_configs(wire, resource)
    except Failure:
        return []
    own = {config.name for config in configs if config.source == resource.source}
    return [name for name in names if name not in own]


def _resource(kind: ResourceKind, name: str | None) -> Resource:
    if kind is ResourceKind.BROKER and name and not _is_node_id(name):
        raise UsageError(
            f"{name!r} is not a broker", fix="give its node id: streamctl cluster describe"
        )
    if kind is not ResourceKind.BROKER and not name:
        raise UsageError(f"which {kind}?", fix=f"name it: streamctl config … {kind} NAME")
    return Resource(kind, name or "")


def _is_node_id(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _print(configs: list[Config], *, explain: bool) -> None:
    columns = ("NAME", "VALUE", "SET BY", "")
    listing = table(*columns, "WHAT FOR") if explain else table(*columns)
    for config in configs:
        cells = [
            Text(config.name),
            _value(config),
            Text(config.source, style="dim" if config.is_default else "green"),
            Text("fixed" if config.read_only else "", style="dim"),
        ]
        listing.add_row(*cells, *([Text(config.documentation)] if explain else []))
    results().print(listing)


def _value(config: Config) -> Text:
    if config.sensitive:
        return Text("(hidden)", style="dim")
    if config.value is None:
        return Text("-", style="dim")
    said = readable(config.name, config.value)
    value = Text(config.value, style="cyan")
    return value.append(f" ({said})", style="dim") if said else value
