"""One run of `streamctl produce`: send, show how it goes, tell what became of every message."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from streamctl.errors import Failure
from streamctl.lines import LineSource
from streamctl.output import counted, note, notes
from streamctl.sending import SHOWN, Outgoing, Sender
from streamctl.standard_streams import read_or_not
from streamctl.units import approximate_size

_REDRAW_S: Final = 0.1
_LOOK_EVERY: Final = 100  # records between looks at the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One run; `started` is a monotonic time in seconds."""

    sender: Sender
    topic: str
    started: float


def run(
    work: Sending,
    records: Iterable[Outgoing | None],
    *,
    interactive: bool = False,
    size: int | None = None,
) -> None:
    """Send all records and tell the outcome; raises Failure if any was not delivered.

    A None among them is a moment without a record, in which outcomes are looked at.
    """
    sender = work.sender
    is_cut_short = False
    try:
        if interactive:
            _send_one_by_one(sender, records)
        else:
            is_cut_short = not _send_all(sender, records, size)
    except KeyboardInterrupt:
        sender.give_up()
        others = "; others may be in the log, too" if sender.delivered < sender.sent else ""
        note(f"interrupted: {sender.delivered:,} of {sender.sent:,} messages acknowledged{others}")
        raise
    except Failure as stopped:
        sender.wait()
        _tell(work, interactive=interactive)
        if not sender.failed:
            raise
        failed = _failure(sender, is_cut_short=False)
        fix = "; ".join(filter(None, ("the rest of the input was not sent", failed.fix)))
        raise Failure(f"{stopped.message}; {failed.message}", fix=fix) from stopped
    _tell(work, interactive=interactive)
    if sender.failed:
        raise _failure(sender, is_cut_short=is_cut_short)


def _send_one_by_one(sender: Sender, records: Iterable[Outgoing | None]) -> None:
    for sequence, record in enumerate(filter(None, records)):
        sender.send(record, show=True)
        sender.wait()
        place = sender.places.pop(sequence, None)
        with read_or_not():
            typer.echo(place or "failed")


def _send_all(sender: Sender, records: Iterable[Outgoing | None], size: int | None) -> bool:
    """Return whether all were handed over: no more are, once one has waited in vain."""
    console = notes()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    is_whole, is_told = True, False
    with bar:
        task = bar.add_task("sending", total=size, count="", visible=False)
        drawn = started = time.monotonic()
        for record in records:
            if sender.stalled:
                sender.give_up()
                is_whole = False
                break
            if record is None:
                sender.look()
            else:
                sender.send(record, show=sender.sent < SHOWN)
            if sender.failures and not is_told and not sender.stalled:
                is_told = True  # the input may go on for days
                bar.console.print(Text(f"{_counted_failures(sender)}; going on", style="dim"))
            if sender.sent % _LOOK_EVERY:
                continue
            now = time.monotonic()
            if now - drawn >= _REDRAW_S:
                drawn = now
                _draw(bar, task, sender, records, now - started)
        while not sender.wait(at_most_s=_REDRAW_S):
            _draw(bar, task, sender, records, time.monotonic() - started)
    return is_whole


def _draw(
    bar: Progress,
    task: TaskID,
    sender: Sender,
    records: Iterable[Outgoing | None],
    elapsed_s: float,
) -> None:
    rate = f"{sender.delivered / elapsed_s:,.0f}/s" if elapsed_s else ""
    done = records.bytes_read if isinstance(records, LineSource) else 0
    trouble = sender.why_unreachable()
    bar.update(
        task,
        completed=done,
        visible=True,
        count=f"{sender.delivered:,} delivered  {rate}{f'  {trouble}' if trouble else ''}",
    )


def _tell(work: Sending, *, interactive: bool) -> None:
    sender = work.sender
    if sender.sent <= SHOWN and not interactive:
        with read_or_not():
            for sequence in range(sender.sent):
                typer.echo(sender.places.get(sequence, "failed"))
    elapsed_s = max(time.monotonic() - work.started, 0.001)
    many = sender.sent > SHOWN and not interactive
    rate = (
        f" in {elapsed_s:.1f} s: {sender.delivered / elapsed_s:,.0f}/s, "
        f"{approximate_size(sender.delivered_bytes / elapsed_s)}/s"
        if many
        else ""
    )
    note(
        f"{counted(sender.delivered, 'message')} ({approximate_size(sender.delivered_bytes)}) "
        f"to {work.topic}{rate}"
    )


def _failure(sender: Sender, *, is_cut_short: bool) -> Failure:
    trouble = sender.why_unreachable()
    return Failure(
        _counted_failures(sender) + (f" ({trouble})" if trouble else ""),
        fix="the rest of the input was not sent" if is_cut_short else _fix(sender),
    )


def _counted_failures(sender: Sender) -> str:
    common = sender.failures.most_common(3)
    reasons = "; ".join(
        reason if count == 1 else f"{reason}, {count:,} times" for reason, count in common
    )
    return f"{sender.failed:,} of {sender.sent:,} messages failed: {reasons}"


def _fix(sender: Sender) -> str:
    """Return what helps against the most common reason that anything helps against."""
    fixes = (sender.fixes.get(reason, "") for reason, _ in sender.failures.most_common())
    return next(filter(None, fixes), "")
