"""streamctl cost."""

import json
import sys
import time
from dataclasses import asdict
from enum import StrEnum
from http.client import NOT_FOUND, OK
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer
from rich.markup import escape

from streamctl.broker_http import DEFAULT_HTTP, HTTP_ENVIRONMENT, get_page
from streamctl.connection_options import Given
from streamctl.cost_prices import PriceList, default_text, read_prices
from streamctl.cost_report import CostLine, CostReport, make_report
from streamctl.errors import Failure, UsageError
from streamctl.options import FormatOption, JsonFlag, duration_ms, explained, flag
from streamctl.output import UNKNOWN, Format, note, print_json, results, table
from streamctl.printable import printable_text
from streamctl.units import DURATION_EXAMPLES, approximate_size, format_duration

ANSWER_S: Final = 150.0  # a broker may have to read an index of millions of rows
PRICES_ENVIRONMENT: Final = "STREAMCTL_PRICES"
NUMBERS: Final = ("PUTS", "LISTS", "GETS", "IN", "OUT", "STORED", "COST", "PER MONTH")


class CostBy(StrEnum):
    """What the lines of the table are."""

    TOPIC = "topic"
    CLIENT = "client"
    DAY = "day"


Since = Annotated[
    Any,
    typer.Option(
        "--since",
        parser=duration_ms,
        metavar="DURATION",
        help=f"How far back ({DURATION_EXAMPLES}). Hours count as a whole.",
    ),
]
By = Annotated[CostBy, typer.Option("--by", help="What to add up by.")]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        envvar=PRICES_ENVIRONMENT,
        help="A price list in TOML. Default: Amazon S3 Standard, us-east-1.",
    ),
]
ShowPrices = Annotated[
    bool, flag("--show-prices", text="Print the price list that comes with this; then edit it.")
]
Http = Annotated[
    str,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        envvar=HTTP_ENVIRONMENT,
        help="HTTP port of any broker of the cluster.",
    ),
]


@explained
def cost(
    ctx: typer.Context,
    *,
    since: Since = "7d",
    by: By = CostBy.TOPIC,
    prices: Prices = None,
    show_prices: ShowPrices = False,
    http: Http = DEFAULT_HTTP,
    output: FormatOption = Format.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show what topics and clients cost: requests to the object store, bytes, and money.

    PUTS, LISTS and GETS are requests to the object store. A PUT holds batches of many topics
    and clients, each of which pays its part by bytes; so there are fractions. IN and OUT are
    bytes of clients. STORED is what lies in the store now. COST is of the period, PER MONTH
    is what a month costs if it goes on like this.

    The broker itself is a client, (broker); so is its work in the background, (upkeep), which
    builds and compacts segments. Clients beyond the first 1,000 of an hour are (other).
    Bytes that no topic has any more, and that are about to go, are (to be removed).

    A broker whose HTTP port has a token is asked with STREAMHOUSE_SECRETS__HTTP_TOKEN.

    Examples:
      streamctl cost
      streamctl cost --since 24h --by client
      streamctl cost --since 30d --by day --json | jq .total.cost
      streamctl cost --show-prices > prices.toml
      streamctl cost --prices prices.toml --http 10.0.0.5:9644
    """
    if show_prices:
        sys.stdout.write(default_text())
        return
    _check_cluster(ctx)
    price_list = read_prices(prices)
    http = http.partition(",")[0]  # STREAMHOUSE_HTTP may name several, and each tells of all
    usage = _ask(http, since, by)
    try:
        report = make_report(usage, price_list)
    except (KeyError, TypeError) as error:
        raise _no_broker(http) from error
    if as_json or output is Format.JSON:
        print_json(_as_json(report, usage, price_list))
    else:
        _print(report, since, price_list)
    if report.total.stored_bytes is None:
        note("without what is stored: the broker could not tell, ask again later")


def _check_cluster(ctx: typer.Context) -> None:
    """Check that no cluster is named but by --http: another one's cost would be told for it."""
    source = ctx.get_parameter_source("http")
    is_given = source is not None and source.name == "COMMANDLINE"
    given = ctx.find_object(Given)
    if given is not None and given.servers is not None and not is_given:
        raise UsageError(
            "cost asks --http, not --bootstrap", fix="name a broker's HTTP port: --http HOST:PORT"
        )


def _ask(http: str, since_ms: int, by: CostBy) -> dict[str, Any]:
    """Return what the broker counted up to now."""
    now_ms = time.time_ns() // 1_000_000
    query = urlencode({"since_ms": max(now_ms - since_ms, 0), "by": by.value})
    status, text = get_page(http, f"/usage?{query}", answer_s=ANSWER_S)
    if status == NOT_FOUND:
        raise _no_broker(http)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise _no_broker(http) from error
    if not isinstance(answer, dict):
        raise _no_broker(http)
    if status != OK:
        raise Failure(f"http://{http}/usage: {answer.get('error', f'status {status}')}")
    return answer


def _no_broker(http: str) -> Failure:
    return Failure(
        f"what answers at http://{http} does not tell usage",
        fix="name the HTTP port of a StreamHouse broker of this version: --http HOST:PORT",
    )


def _as_json(report: CostReport, usage: dict[str, Any], prices: PriceList) -> Any:
    return {
        "by": report.by,
        "since_ms": usage["since_ms"],
        "until_ms": usage["until_ms"],
        "hours": report.hours,
        "prices": asdict(prices),
        "lines": [_line_as_json(line) for line in report.lines],
        "total": _line_as_json(report.total),
    }


def _line_as_json(line: CostLine) -> dict[str, Any]:
    return {
        "key": line.key,
        **asdict(line.counted),
        "stored_bytes": line.stored_bytes,
        "cost": line.cost,
        "per_month": line.per_month,
    }


def _print(report: CostReport, since_ms: int, prices: PriceList) -> None:
    columns = [report.by.upper(), *NUMBERS]
    if not report.total.counted.lists:
        columns.remove("LISTS")
    listing = table(*columns, numbers=NUMBERS)
    for line in (*report.lines, report.total):
        style = "bold" if line is report.total else None
        cells = {report.by.upper(): escape(printable_text(line.key)), **_cells(line)}
        listing.add_row(*(cells[column] for column in columns), style=style)
    results().print(listing)
    counted = f"{report.hours:,.0f} h" if report.hours > 1 else "an hour or less"
    note(
        f"the last {format_duration(since_ms)}, of which {counted} counted; {prices.currency}, "
        f"prices of {prices.name}; what is stored now is priced for all of that time"
    )


def _cells(line: CostLine) -> dict[str, Any]:
    counted = line.counted
    return {
        "PUTS": _requests(counted.puts),
        "LISTS": _requests(counted.lists),
        "GETS": _requests(counted.gets),
        "IN": approximate_size(counted.produced_bytes),
        "OUT": approximate_size(counted.fetched_bytes),
        "STORED": UNKNOWN if line.stored_bytes is None else approximate_size(line.stored_bytes),
        "COST": _money(line.cost),
        "PER MONTH": UNKNOWN if line.per_month is None else _money(line.per_month),
    }


def _requests(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def _money(amount: float) -> str:
    """Return cents, or what is left of one."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.4f}"
