"""streamctl quota list | set | delete."""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.text import Text

from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.options import FormatOption, connected, rate_bytes
from streamctl.output import Format, note, print_done, print_json, results, table
from streamctl.quota_requests import (
    EntityName,
    Limit,
    Quota,
    Who,
    alter_quota,
    described,
    find_quotas,
)
from streamctl.units import SIZE_EXAMPLES, approximate_size
from streamctl.wire import Wire

_ENTITY = "Who"
_UNITS = {
    Limit.REQUEST: "%",
    Limit.MUTATION: " partitions/s",
    Limit.CONNECTION: " connections/s",
}

app = typer.Typer(no_args_is_help=True, help="Limit how much users, clients and hosts may use.")


def _who(option: str, what: str) -> object:
    return typer.Option(option, metavar="NAME", rich_help_panel=_ENTITY, help=what)


def _default(option: str, what: str) -> object:
    return typer.Option(
        option, metavar="", rich_help_panel=_ENTITY, help=f"All {what} that have none."
    )


User = Annotated[str | None, _who("--user", "A user.")]
ClientId = Annotated[str | None, _who("--client-id", "A client id; with --user, of that user.")]
Ip = Annotated[str | None, _who("--ip", "An address that connections come from.")]
AnyUser = Annotated[bool, _default("--user-default", "users")]
AnyClientId = Annotated[bool, _default("--client-id-default", "client ids")]
AnyIp = Annotated[bool, _default("--ip-default", "addresses")]
ProduceRate = Annotated[
    int | None,
    typer.Option(
        "--produce-rate",
        parser=rate_bytes,
        metavar="SIZE",
        help=f"Bytes produced per second ({SIZE_EXAMPLES}).",
    ),
]
FetchRate = Annotated[
    int | None,
    typer.Option(
        "--fetch-rate", parser=rate_bytes, metavar="SIZE", help="Bytes fetched per second."
    ),
]
RequestPercentage = Annotated[
    float | None,
    typer.Option("--request-percentage", metavar="N", help="Of a broker's time for requests."),
]
MutationRate = Annotated[
    float | None,
    typer.Option("--mutation-rate", metavar="N", help="Partitions created and deleted per second."),
]
ConnectionRate = Annotated[
    float | None,
    typer.Option("--connection-rate", metavar="N", help="New connections per second (--ip)."),
]


@app.command(name="list")
@connected
def list_quotas(connection: Connection, *, output: FormatOption = Format.TABLE) -> None:
    """List all quotas. Each is a limit per broker.

    Examples:
      streamctl quota list
      streamctl quota list --format json
    """
    with Wire.connect(connection) as wire:
        quotas = find_quotas(wire, (), strict=False)
    if output is Format.JSON:
        print_json(
            [
                {
                    "entity": {part.value: name for part, name in quota.entity.items()},
                    "limits": dict(quota.limits),
                }
                for quota in quotas
            ]
        )
    elif quotas:
        _print(quotas)
    else:
        note("no quotas; set one: streamctl quota set --user alice --produce-rate 10MB")


@app.command(name="set")
@connected
def set_quota(
    connection: Connection,
    *,
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    produce_rate: ProduceRate = None,
    fetch_rate: FetchRate = None,
    request_percentage: RequestPercentage = None,
    mutation_rate: MutationRate = None,
    connection_rate: ConnectionRate = None,
) -> None:
    r"""Set limits; those that are not named stay as they are.

    A client that goes over a limit is answered at once; what it sends next on that connection
    waits until it is within again. Over --mutation-rate a request is refused, if its version knows
    that answer, and over --connection-rate a new connection is closed. The most specific quota
    counts: user and client id, then user, then client id.

    Examples:
      streamctl quota set --user alice --produce-rate 10MB --fetch-rate 20MB
      streamctl quota set --user alice --client-id etl --request-percentage 50
      streamctl quota set --client-id-default --produce-rate 1MiB
      streamctl quota set --ip 10.0.0.7 --connection-rate 5
    """
    limits: dict[Limit, float | None] = {
        limit: value
        for limit, value in (
            (Limit.PRODUCE, produce_rate),
            (Limit.FETCH, fetch_rate),
            (Limit.REQUEST, request_percentage),
            (Limit.MUTATION, mutation_rate),
            (Limit.CONNECTION, connection_rate),
        )
        if value is not None
    }
    if not limits:
        raise UsageError("no limit given", fix="say which: --produce-rate 10MB, --fetch-rate 10MB")
    if any(value is not None and not value > 0 for value in limits.values()):  # nor is NaN
        raise UsageError("a limit is more than 0", fix="streamctl quota delete takes one away")
    entity = _entity(
        (Who.USER, user, user_default),
        (Who.CLIENT_ID, client_id, client_id_default),
        (Who.IP, ip, ip_default),
    )
    _check_limits(entity, limits)
    with Wire.connect(connection) as wire:
        alter_quota(wire, entity, limits)
    said = ", ".join(_limit(limit, value or 0.0) for limit, value in limits.items())
    print_done(f"{described(entity)}: {said}")


@app.command()
@connected
def delete(
    connection: Connection,
    *,
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    only: Annotated[
        list[Limit] | None, typer.Option("--only", help="Only this limit. Repeatable.")
    ] = None,
) -> None:
    """Take the limits of a user, client id or address away.

    Examples:
      streamctl quota delete --user alice
      streamctl quota delete --client-id-default --only producer_byte_rate
    """
    entity = _entity(
        (Who.USER, user, user_default),
        (Who.CLIENT_ID, client_id, client_id_default),
        (Who.IP, ip, ip_default),
    )
    with Wire.connect(connection) as wire:
        found = find_quotas(wire, list(entity), strict=True)
        present = next((dict(one.limits) for one in found if one.entity == entity), {})
        gone = [limit for limit in only or Limit if limit.value in present]
        if not gone:
            raise Failure(
                f"{described(entity)} has no such quota", fix="streamctl quota list shows all"
            )
        alter_quota(wire, entity, dict.fromkeys(gone))
    print_done(f"deleted of {described(entity)}: {', '.join(gone)}")


def _entity(*parts: tuple[Who, str | None, bool]) -> EntityName:
    entity: dict[Who, str | None] = {}
    for who, name, default in parts:
        if name is not None and default:
            raise UsageError(f"--{who} and --{who}-default do not go together")
        if name is not None or default:
            entity[who] = name
    if not entity:
        raise UsageError(
            "whose quota?", fix="say it: --user NAME, --client-id NAME or --ip ADDRESS"
        )
    if Who.IP in entity and len(entity) > 1:
        raise UsageError("--ip stands alone: a quota is for addresses, or for users and client ids")
    return entity


def _check_limits(entity: EntityName, limits: Iterable[Limit]) -> None:
    """Raise UsageError for limits that Kafka has for others than the entity."""
    is_address = Who.IP in entity
    if not is_address and Limit.CONNECTION in limits:
        raise UsageError("--connection-rate is for --ip")
    if is_address and set(limits) != {Limit.CONNECTION}:
        raise UsageError("--ip has only --connection-rate; the others are of users and client ids")


def _print(quotas: list[Quota]) -> None:
    listing = table("USER", "CLIENT ID", "IP", "LIMITS")
    for quota in quotas:
        cells = [_name(quota.entity, part) for part in Who]
        known = {limit.value: limit for limit in Limit}
        limits = ", ".join(
            _limit(known[name], value) if name in known else f"{name} {value:g}"
            for name, value in sorted(quota.limits.items())
        )
        listing.add_row(*cells, Text(limits, style="cyan"))
    results().print(listing)


def _name(entity: EntityName, part: Who) -> Text:
    if part not in entity:
        return Text("-", style="dim")
    name = entity[part]
    return Text("(default)", style="yellow") if name is None else Text(name)


def _limit(limit: Limit, value: float) -> str:
    if limit in (Limit.PRODUCE, Limit.FETCH):
        verb = "produce" if limit is Limit.PRODUCE else "fetch"
        return f"{verb} {approximate_size(value)}/s"
    return f"{limit.value.rpartition('_')[0].replace('_', ' ')} {value:g}{_UNITS[limit]}"
