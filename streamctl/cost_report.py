"""What a broker's /usage says, and what it costs by a price list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from streamctl.cost_prices import PriceList

MONTH_HOURS: Final = 730.0
HOUR_MS: Final = 3_600_000
NO_TOPIC: Final = "(no topic)"
NO_CLIENT: Final = "(no client id)"
NOT_INDEXED: Final = "(to be removed)"
STORED: Final = "(stored)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted; as in a broker's /usage, with its names."""

    puts: float = 0.0
    put_bytes: int = 0
    gets: float = 0.0
    get_bytes: int = 0
    lists: float = 0.0
    deletes: float = 0.0
    produced_bytes: int = 0
    fetched_bytes: int = 0

    def plus(self, other: "Counted") -> "Counted":
        return Counted(**{name: getattr(self, name) + getattr(other, name) for name in COUNTED})


COUNTED: Final = tuple(field.name for field in fields(Counted))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One topic, client or day; or all of them.

    Attributes:
        stored_bytes: now; None: the broker could not tell.
        cost: of the period: requests, transfer, and what is stored now for so long, if it is known.
        per_month: if it goes on like this; None where that says nothing.
    """

    key: str
    counted: Counted = field(default_factory=Counted)
    stored_bytes: int | None = 0
    cost: float = 0.0
    per_month: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What a period cost.

    Attributes:
        hours: that were counted; at least one.
        lines: those that cost most first; days in order.
    """

    by: str
    hours: float
    lines: Sequence[CostLine]
    total: CostLine


def make_report(usage: Mapping[str, Any], prices: PriceList) -> CostReport:
    """Price what /usage said.

    Raises:
        KeyError, TypeError: it is not what a broker says.
    """
    by = usage["by"]
    counted = {
        _name(by, line["key"]): Counted(**{name: line[name] for name in COUNTED})
        for line in usage["usage"]
    }
    is_known = usage["stored"] is not None
    stored = _stored(by, usage["stored"]) if is_known else {}
    none_stored = 0 if is_known else None
    first_ms = min((line["first_hour_ms"] for line in usage["usage"]), default=usage["now_ms"])
    end_ms = min(usage["now_ms"], usage["until_ms"])
    hours = max((end_ms - max(first_ms, usage["since_ms"])) / HOUR_MS, 1.0)
    lines = [
        _line(key, counted.get(key, Counted()), stored.get(key, none_stored), hours, prices, by)
        for key in {**counted, **stored}
    ]
    together = Counted()
    for one in counted.values():
        together = together.plus(one)
    all_stored = sum(stored.values()) if is_known else None
    total = _line("total", together, all_stored, hours, prices, "")
    lines.sort(key=lambda line: line.key if by == "day" else (-line.cost, line.key))
    return CostReport(by=by, hours=hours, lines=lines, total=total)


def _stored(by: str, stored: Mapping[str, Any]) -> dict[str, int]:
    """Return what is stored, by line: only topics are known to have something."""
    topics, total = dict(stored["topics"]), stored["total"]
    left = total - sum(topics.values())
    if by != "topic":
        return {STORED: total} if total else {}
    return topics | ({NOT_INDEXED: left} if left > 0 else {})


def _line(
    key: str, counted: Counted, stored_bytes: int | None, hours: float, prices: PriceList, by: str
) -> CostLine:
    used = _price_of_use(counted, prices)
    month = (stored_bytes or 0) / prices.gb_bytes * prices.stored_gb_month
    return CostLine(
        key=key,
        counted=counted,
        stored_bytes=stored_bytes,
        cost=used + month * hours / MONTH_HOURS,
        per_month=None
        if by == "day" or stored_bytes is None
        else used * MONTH_HOURS / hours + month,
    )


def _price_of_use(counted: Counted, prices: PriceList) -> float:
    """Return what requests and transfer cost."""
    requests = (
        counted.puts * prices.put_per_1000
        + counted.lists * prices.list_per_1000
        + counted.gets * prices.get_per_1000
        + counted.deletes * prices.delete_per_1000
    )
    transfer = (
        counted.put_bytes * prices.put_gb
        + counted.get_bytes * prices.get_gb
        + counted.produced_bytes * prices.produced_gb
        + counted.fetched_bytes * prices.fetched_gb
    )
    return requests / 1000 + transfer / prices.gb_bytes


def _name(by: str, key: str) -> str:
    return key or (NO_TOPIC if by == "topic" else NO_CLIENT)
