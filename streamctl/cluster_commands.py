"""streamctl cluster describe."""

import typer

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.options import FormatOption, connected
from streamctl.output import UNKNOWN, Format, counted, print_json, results, table

app = typer.Typer(no_args_is_help=True, help="Look at the cluster.")


@app.callback()
def cluster_group() -> None:
    """Look at the cluster."""


@app.command()
@connected
def describe(connection: Connection, *, output: FormatOption = Format.TABLE) -> None:
    """Show the cluster's id, its controller and its brokers.

    Examples:
      streamctl cluster describe
      streamctl --bootstrap 10.0.0.5:9092 cluster describe --format json
    """
    identity = Cluster(connection).identity()
    if output is Format.JSON:
        print_json(
            {
                "cluster_id": identity.cluster_id,
                "controller": identity.controller_id,
                "brokers": [
                    {
                        "node_id": broker.node_id,
                        "host": broker.host,
                        "port": broker.port,
                        "rack": broker.rack,
                    }
                    for broker in identity.brokers
                ],
            }
        )
        return
    console = results()
    console.print(
        f"cluster [bold]{identity.cluster_id}[/], {counted(len(identity.brokers), 'broker')}"
    )
    listing = table("NODE", "ADDRESS", "RACK", "ROLE", numbers=("NODE",))
    for broker in identity.brokers:
        listing.add_row(
            f"[cyan]{broker.node_id}[/]",
            f"{broker.host}:{broker.port}",
            broker.rack or UNKNOWN,
            "[green]controller[/]" if broker.node_id == identity.controller_id else "",
        )
    console.print(listing)
