"""How all pictures look: size, colours, axes of time and of numbers, a word where there is nothing.

Figures are made without pyplot, so nothing is kept between them and no display is needed.
"""

from datetime import datetime
from typing import Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

WIDTH_INCHES: Final = 11.0
HEIGHT_INCHES: Final = 4.6
DOTS_PER_INCH: Final = 130

BLUE: Final = "#2563a8"
PALE_BLUE: Final = "#a9c8e8"
ORANGE: Final = "#d9731a"
GREY: Final = "#6b727c"
INK: Final = "#20242a"
LINES: Final = ("#2563a8", "#d9731a", "#2e8b57", "#8e4aa8", "#b8860b", "#c23b4b")


def new_figure(title: str, subtitle: str, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title over its axes, side by side."""
    layout = ConstrainedLayoutEngine(rect=(0.005, 0.01, 0.99, 0.835))  # the titles are over it
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), dpi=DOTS_PER_INCH, layout=layout)
    FigureCanvasAgg(figure)
    figure.text(0.012, 0.965, title, fontsize=14, weight="bold", color=INK, va="top")
    figure.text(0.012, 0.9, subtitle, fontsize=10, color=GREY, va="top")
    axes = [figure.add_subplot(1, columns, number + 1) for number in range(columns)]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.spines[["left", "bottom"]].set_color(GREY)
        each.tick_params(colors=INK, labelsize=9)
        each.grid(axis="y", color="#e4e7eb", linewidth=0.8)
        each.set_axisbelow(True)
    return figure, axes


def time_axis(axes: Axes, label: str) -> None:
    """Write times along the x axis, each as short as can be understood."""
    locator = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.set_xlabel(label, fontsize=10, color=INK)


def number_axis(axes: Axes, label: str, *, whole: bool = False) -> None:
    """Write numbers along the y axis, from 0 on, thousands apart."""
    if whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_ylabel(label, fontsize=10, color=INK)
    axes.set_ylim(bottom=0)


def legend(axes: Axes) -> None:
    """Name what is drawn, over the plot, where it hides nothing."""
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=min(len(handles), 7),
        fontsize=9,
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )


def say_empty(axes: Axes, text: str) -> None:
    """Say that there is nothing to draw, in place of empty axes."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=12, color=GREY)


def days(time: datetime) -> float:
    """Return a time as matplotlib counts it."""
    return float(date2num(time))  # type: ignore[no-untyped-call]
