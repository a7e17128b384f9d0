"""Plots of a report: all ratios that have targets, and each figure by contender."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("agg")  # files only; no display is asked for

from matplotlib import pyplot as plt

from bench.versus.ratios import Line, Verdict

COLOURS: Final = {
    "kafka": "#8c8c8c",
    "kafka-flush": "#c4c4c4",
    "ours": "#1f6fb4",
    "ours-s3": "#5ba3d9",
    "ours-s3-50": "#a6cdeb",
    "ours-2": "#0b3d68",
}
KEPT: Final = "#2a8f4f"
MISSED: Final = "#c0392b"
ROW_INCHES: Final = 0.24
DPI: Final = 110
WIDE_SPREAD: Final = 100.0
"""Figures of a plot that differ more than so many times are drawn on a logarithmic scale."""


def draw(lines: Sequence[Line], contenders: Sequence[str], directory: Path) -> list[Path]:
    """Write ratios.png, and PART-FIGURE.png of each figure; return those with something in them."""
    files = draw_ratios(lines, directory / "ratios.png")
    for part, figure in dict.fromkeys((line.part, line.figure) for line in lines):
        of_figure = [line for line in lines if (line.part, line.figure) == (part, figure)]
        files.append(_draw_figure(of_figure, contenders, directory / f"{part}-{figure}.png"))
    return files


def draw_ratios(lines: Sequence[Line], file: Path) -> list[Path]:
    """Draw a row for each target that is a ratio: median, spread, and the limit.

    Returns:
        the file; nothing if no such target was measured.
    """
    judged = [
        (line, verdict)
        for line in lines
        for verdict in line.verdicts
        if verdict.target.of and verdict.measured is not None
    ]
    return [_draw_ratios(judged, file)] if judged else []


def _draw_ratios(judged: Sequence[tuple[Line, Verdict]], file: Path) -> Path:
    figure, axes = plt.subplots(figsize=(10, 1.4 + ROW_INCHES * len(judged)))
    for row, (_, verdict) in enumerate(judged):
        spread, target = verdict.measured, verdict.target
        assert spread is not None, "left out before"
        colour = KEPT if verdict.kept else MISSED
        limit = target.at_least if target.at_least is not None else target.at_most
        assert limit is not None, "one of them is there"
        axes.plot([spread.least, spread.most], [row, row], color=colour, linewidth=2)
        axes.plot([spread.median], [row], "o", color=colour, markersize=5)
        better = ">" if target.at_least is not None else "<"
        axes.plot([limit], [row], better, color="black", markersize=4)
    axes.set_yticks(range(len(judged)), [_label(line, verdict) for line, verdict in judged])
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylim(len(judged) - 0.4, -0.6)  # the first row on top
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.6)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.grid(axis="x", which="both", linewidth=0.3)
    axes.set_xlabel("ratio: median, least and most of all rounds; > at least, < at most")
    axes.set_title("targets kept (green) and missed (red)", fontsize=10)
    return _save(figure, file)


def _label(line: Line, verdict: Verdict) -> str:
    who = verdict.target.who
    return f"{line.case}: {_words(line.figure)}{f', {who}' if who else ''}"


def _draw_figure(lines: Sequence[Line], contenders: Sequence[str], file: Path) -> Path:
    """Draw a row for each contender of each case, with the least and the most of all rounds.

    It is a bar from 0, or a dot on a logarithmic scale where figures differ too much for bars.
    """
    rows = [
        (line, name, line.spreads[name])
        for line in lines
        for name in contenders
        if name in line.spreads
    ]
    medians = [spread.median for _, _, spread in rows]
    logarithmic = min(medians) > 0 and max(medians) / min(medians) > WIDE_SPREAD
    figure, axes = plt.subplots(figsize=(10, 1.2 + ROW_INCHES * len(rows)))
    for at, (_, name, spread) in enumerate(rows):
        if logarithmic:
            axes.plot([spread.median], [at], "o", color=COLOURS[name])
        else:
            axes.barh(at, spread.median, color=COLOURS[name])
        axes.plot([spread.least, spread.most], [at, at], "|-", color="black", linewidth=0.8)
    cases = [line.case for line, _, _ in rows]
    labels = [
        f"{'' if at and cases[at - 1] == line.case else line.case}   {name}"
        for at, (line, name, _) in enumerate(rows)
    ]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top
    axes.set_xscale("log" if logarithmic else "linear")
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.set_title(f"{lines[0].part}: {_words(lines[0].figure)}", fontsize=10, loc="left")
    return _save(figure, file)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _save(figure: Any, file: Path) -> Path:
    figure.tight_layout()
    figure.savefig(file, dpi=DPI)
    plt.close(figure)
    return file
