"""The pictures: revenue by window, what came too late, how far a query is behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from matplotlib.figure import Figure

from spark.charts import canvas
from spark.charts.lag import Lag

MOST_LINES: Final = 6
BINS: Final = 20
SECOND: Final = timedelta(seconds=1)
_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_UNIT_NAMES: Final = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRevenue:
    """A window of event time.

    Attributes:
        is_open: more payments may come.
    """

    start: datetime
    end: datetime
    revenue: Decimal
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePayment:
    """A payment that came after the watermark.

    Attributes:
        late_by_ms: how far before the watermark its time lies.
    """

    event_time: datetime
    amount: Decimal
    late_by_ms: int


def revenue_figure(windows: Sequence[WindowRevenue]) -> Figure:
    """Return a bar for each tumbling window, and what they add up to."""
    if not windows:
        figure, (axes,) = canvas.new_figure("Revenue over time", "no payments in time yet")
        canvas.say_empty(axes, "No payment has been counted yet.")
        return figure
    length = windows[0].end - windows[0].start
    total = sum((each.revenue for each in windows), Decimal(0))
    still = sum(each.is_open for each in windows)
    subtitle = f"${total:,.2f} in {_many(len(windows), 'window')}; {still} still open"
    title = f"Revenue by window of {in_words(length)}, event time"
    figure, (axes,) = canvas.new_figure(title, subtitle)
    for is_open, colour, label in (
        (False, canvas.BLUE, "closed"),
        (True, canvas.PALE_BLUE, "open, so far"),
    ):
        shown = [each for each in windows if each.is_open == is_open]
        if shown:
            axes.bar(
                [canvas.days(each.start) for each in shown],
                [float(each.revenue) for each in shown],
                width=(length / timedelta(days=1)) * (0.92 if len(windows) <= 150 else 1.0),
                align="edge",
                color=colour,
                label=label,
            )
    canvas.time_axis(axes, "start of the window (UTC)")
    canvas.number_axis(axes, "revenue ($)")
    canvas.legend(axes)
    return figure


def late_figure(
    late: Sequence[LatePayment], *, count: int, amount: Decimal, counted: int
) -> Figure:
    """Return when late payments were made, and how late they came.

    Args:
        late: the latest of those that were kept aside, or all.
        count: of all that were.
        amount: of all that were.
        counted: payments in windows.
    """
    title = "Late payments, kept aside"
    if not late:
        figure, (axes,) = canvas.new_figure(title, f"none of {_many(counted, 'payment')}")
        canvas.say_empty(axes, "Every payment came before its watermark.")
        return figure
    subtitle = (
        f"{_many(count, 'payment')}, {count / (count + counted):.1%} of all, ${amount:,.2f}:"
        " in the running total, in no window"
    )
    if count > len(late):
        subtitle += f"; drawn are the {len(late):,} latest"
    figure, (when, how) = canvas.new_figure(title, subtitle, columns=2)
    when.hist(
        [canvas.days(each.event_time) for each in late],
        bins=BINS,
        color=canvas.ORANGE,
        edgecolor="white",
    )
    canvas.time_axis(when, "when they were made (UTC)")
    canvas.number_axis(when, "late payments", whole=True)
    longest = timedelta(milliseconds=max(each.late_by_ms for each in late))
    unit, seconds = _unit(longest)
    how.hist(
        [each.late_by_ms / 1000 / seconds for each in late],
        bins=BINS,
        range=(0.0, longest / SECOND / seconds),
        color=canvas.ORANGE,
        edgecolor="white",
    )
    how.set_xlim(left=0)
    how.set_xlabel(f"behind the watermark ({_UNIT_NAMES[unit]})", fontsize=10, color=canvas.INK)
    canvas.number_axis(how, "late payments", whole=True)
    return figure


def lag_figure(lags: Sequence[Lag]) -> Figure:
    """Return the records behind the end, over time: of each partition if there are few, and all."""
    title = "Lag of the consumer"
    if not lags:
        figure, (axes,) = canvas.new_figure(title, "no progress noted")
        canvas.say_empty(axes, "The query has not reported any progress yet.")
        return figure
    most, last = max(lag.total for lag in lags), lags[-1].total
    subtitle = f"records behind the end of the topic: {most:,} at most, {last:,} at the end"
    figure, (axes,) = canvas.new_figure(title, subtitle)
    times = [canvas.days(lag.at) for lag in lags]
    axes.step(
        times,
        [lag.total for lag in lags],
        where="post",
        color=canvas.INK,
        linewidth=2.2,
        marker="o",
        markersize=4 if len(lags) <= 60 else 0,
        label="all partitions",
    )
    partitions = sorted({place for lag in lags for place in lag.behind})
    if 1 < len(partitions) <= MOST_LINES:
        for place, colour in zip(partitions, canvas.LINES, strict=False):
            behind = [lag.behind.get(place, 0) for lag in lags]
            axes.step(times, behind, where="post", color=colour, linewidth=1.3, label=place)
    if len(lags) == 1:
        axes.set_xlim(times[0] - 1 / 1440, times[0] + 1 / 1440)
    canvas.time_axis(axes, "time (UTC)")
    canvas.number_axis(axes, "records behind", whole=True)
    if most == 0:
        axes.set_ylim(0, 1)
    canvas.legend(axes)
    return figure


def in_words(length: timedelta) -> str:
    """Return a length of time as people write it: 10 min, 1 h, 90 s."""
    seconds = length / SECOND
    for unit, size in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _unit(length: timedelta) -> tuple[str, int]:
    """Return the unit in which a length is 2 or more, and its seconds."""
    for unit, size in _UNITS:
        if length / SECOND >= 2 * size:
            return unit, size
    return "s", 1


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
