"""Measure consumer groups on any broker: rebalances, commits, heartbeats, failover.

python -m bench.groups --bootstrap HOST:PORT; bench/README.md tells how to compare two brokers.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from bench import failover, rates, rebalance
from bench.cluster import Cluster
from bench.results import Row, show
from bench.victims import CommandVictims, TrioVictims, Victims
from tests.support.three_brokers import three_brokers


class Part(StrEnum):
    REBALANCE = rebalance.PART
    COMMITS = rates.COMMITS
    HEARTBEATS = rates.HEARTBEATS
    FAILOVER = failover.PART


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How each part is measured."""

    rebalance: rebalance.RebalanceConfig
    rates: rates.RateConfig
    failover: failover.FailoverConfig


Bootstrap = Annotated[str | None, typer.Option(help="HOST:PORT of a running broker, or several.")]
OwnCluster = Annotated[
    bool, typer.Option("--cluster", help="Start three brokers of our own instead.")
]
BrokerSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="For the brokers of --cluster."),
]
Parts = Annotated[
    list[Part] | None, typer.Option("--part", help="Measure only this; may be repeated.")
]
Restart = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="For failover: starts the killed broker again."),
]
KillPidFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For failover: where the broker's process id is."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Few members, one round, short rates, two kills.")
]


def main(
    *,
    bootstrap: Bootstrap = None,
    cluster: OwnCluster = False,
    broker_settings: BrokerSettings = None,
    parts: Parts = None,
    restart: Restart = None,
    kill_pid_file: KillPidFile = None,
    quick: Quick = False,
    members: Annotated[int, typer.Option(help="Of the group that rebalances.", min=2)] = 50,
    partitions: Annotated[int, typer.Option(help="More than members.", min=4)] = 100,
    rounds: Annotated[int, typer.Option(help="Of rebalances.", min=1)] = 3,
    heartbeat_ms: Annotated[int, typer.Option(help="Of classic members.", min=1)] = 1_000,
    seconds: Annotated[float, typer.Option(help="For each rate.", min=0.1)] = 4.0,
    kills: Annotated[int, typer.Option(help="kill -9 of the coordinator.", min=0)] = 20,
    terms: Annotated[int, typer.Option(help="SIGTERM of the coordinator.", min=0)] = 5,
    failover_seconds: Annotated[
        float, typer.Option(help="After these no more broker is ended.", min=1)
    ] = 140.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure consumer groups on any broker.

    Failover is measured with --cluster, which by itself measures nothing else, or with --restart
    and --kill-pid-file.
    """
    if (bootstrap is None) is not cluster:
        raise typer.BadParameter("give either --bootstrap or --cluster")
    if (restart is None) is not (kill_pid_file is None):
        raise typer.BadParameter("--restart and --kill-pid-file belong together")
    if partitions <= members + 1:
        raise typer.BadParameter("each member shall own a partition: --partitions > --members + 1")
    plan = (
        _quick_plan()
        if quick
        else Plan(
            rebalance=rebalance.RebalanceConfig(
                members=members, partitions=partitions, rounds=rounds, heartbeat_ms=heartbeat_ms
            ),
            rates=rates.RateConfig(duration_s=seconds),
            failover=failover.FailoverConfig(kills=kills, terms=terms, limit_s=failover_seconds),
        )
    )
    chosen = list(dict.fromkeys(parts or _default_parts(cluster, restart)))
    progress = Console(stderr=True)
    with (
        progress.status("starting") as status,
        _measured(bootstrap, broker_settings or [], restart, kill_pid_file) as (where, victims),
    ):
        if Part.FAILOVER in chosen and victims is None:
            raise typer.BadParameter("failover needs --cluster, or --restart and --kill-pid-file")
        began_s = time.monotonic()
        rows = _run(chosen, where, victims, plan, _reporter(status, progress))
        took_s = time.monotonic() - began_s
        status.stop()
        settings = {"bootstrap": where.bootstrap, "took_s": took_s, **asdict(plan)}
        show(rows, settings, as_json=as_json)


def _run(
    parts: Sequence[Part],
    cluster: Cluster,
    victims: Victims | None,
    plan: Plan,
    say: Callable[[str], None],
) -> list[Row]:
    rows: list[Row] = []
    with cluster.tidied():
        for part in parts:
            match part:
                case Part.REBALANCE:
                    rows += rebalance.measure(cluster, plan.rebalance, say)
                case Part.COMMITS:
                    rows += rates.measure_commits(cluster, plan.rates, say)
                case Part.HEARTBEATS:
                    rows += rates.measure_heartbeats(cluster, plan.rates, say)
                case Part.FAILOVER:
                    assert victims is not None, "asked for before"
                    rows += failover.measure(cluster, victims, plan.failover, say)
    return rows


def _default_parts(cluster: bool, restart: str | None) -> list[Part]:
    if cluster:
        return [Part.FAILOVER]
    return [part for part in Part if part is not Part.FAILOVER or restart is not None]


def _quick_plan() -> Plan:
    return Plan(
        rebalance=rebalance.RebalanceConfig(members=10, partitions=20, rounds=1),
        rates=rates.RateConfig(duration_s=1.0),
        failover=failover.FailoverConfig(kills=2, terms=1, limit_s=60.0),
    )


@contextmanager
def _measured(
    bootstrap: str | None,
    broker_settings: Sequence[str],
    restart: str | None,
    kill_pid_file: Path | None,
) -> Iterator[tuple[Cluster, Victims | None]]:
    """Give the brokers to measure, and those that may be ended, if any may."""
    if bootstrap is not None:
        if restart is None or kill_pid_file is None:
            yield Cluster(bootstrap), None
        else:
            with tempfile.TemporaryFile() as output:
                yield Cluster(bootstrap), CommandVictims(restart, kill_pid_file, output)
        return
    arguments = [word for setting in broker_settings for word in ("--set", setting)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-groups-") as home,
        three_brokers(Path(home), *arguments) as trio,
    ):
        yield Cluster(trio.bootstrap), TrioVictims(trio)


def _reporter(status: Status, console: Console) -> Callable[[str], None]:
    """Show what is being done: in place on a terminal, else as lines."""

    def say(what: str) -> None:
        status.update(what)
        if not console.is_terminal:
            console.print(what)

    return say


if __name__ == "__main__":
    typer.run(main)
