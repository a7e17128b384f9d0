"""Histories in which something is wrong: each is found, by its own check and by no other."""

from collections.abc import Callable

import pytest

from tests.crash.exactly_once_checks import Copy, History, Output, violations
from tests.crash.exactly_once_settings import (
    ABORT,
    COMMIT,
    KEYS,
    TARGET_PARTITIONS,
    key_of,
    target_partition,
)

RECORDS = 3 * KEYS


def copy(number: int, offset: int, *, fate: str = COMMIT, transaction: str = "") -> Copy:
    return Copy(
        partition=target_partition(number),
        offset=offset,
        key=key_of(number),
        number=number,
        fate=fate,
        transaction=transaction or f"of {number}",
        size=1,
    )


def good_history() -> History:
    """Each record copied in a transaction of its own, and the first also in an aborted one."""
    copies = [copy(number, 1 + number) for number in range(RECORDS)]
    aborted = copy(0, 0, fate=ABORT, transaction="aborted")
    ends = dict.fromkeys(range(TARGET_PARTITIONS), RECORDS)
    output = Output(
        library="library",
        committed={one.transaction for one in copies},
        aborted={aborted.transaction},
        visible=copies,
        everything=[aborted, *copies],
        stable_ends=dict(ends),
        ends=dict(ends),
    )
    return History(acknowledged=RECORDS, source=range(RECORDS), outputs=[output])


def test_a_good_history_is_good() -> None:
    assert violations(good_history()) == {}


def _lose_input(history: History, _output: Output) -> None:
    history.acknowledged += 1


def _miss(_history: History, output: Output) -> None:
    output.visible = output.visible[:-1]
    output.committed.discard(f"of {RECORDS - 1}")


def _double(_history: History, output: Output) -> None:
    output.visible = [*output.visible, copy(RECORDS - 1, 99, transaction="again")]


def _reorder(_history: History, output: Output) -> None:
    at = {one.number: one for one in output.visible}
    at[0], at[KEYS] = at[KEYS], at[0]
    output.visible = list(at.values())


def _misplace(_history: History, output: Output) -> None:
    first, *others = output.everything
    output.everything = [first._replace(partition=(first.partition + 1) % 3), *others]


def _show_what_was_to_be_aborted(_history: History, output: Output) -> None:
    first, *others = output.visible
    output.visible = [first._replace(fate=ABORT), *others]


def _show_what_was_confirmed_as_aborted(_history: History, output: Output) -> None:
    output.aborted.add("of 0")


def _tear(_history: History, output: Output) -> None:
    first, *others = output.visible
    output.visible = [first._replace(size=2), *others]


def _lose_what_was_confirmed(_history: History, output: Output) -> None:
    output.committed.add("lost")


def _abort_nothing(_history: History, output: Output) -> None:
    output.everything = output.visible


def _hang(_history: History, output: Output) -> None:
    output.stable_ends[0] -= 1


def _complain(history: History, _output: Output) -> None:
    history.complaints.append("a processor ended with 1")


PLANTED: dict[str, Callable[[History, Output], None]] = {
    "input_is_whole": _lose_input,
    "missing": _miss,
    "doubled": _double,
    "reordered": _reorder,
    "misplaced": _misplace,
    "aborted_reads": _show_what_was_to_be_aborted,
    "aborted_reads ": _show_what_was_confirmed_as_aborted,
    "torn": _tear,
    "lost": _lose_what_was_confirmed,
    "no_abort_to_see": _abort_nothing,
    "hanging": _hang,
    "complaints": _complain,
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    # Given a history with one thing wrong
    history = good_history()
    PLANTED[name](history, history.outputs[0])

    # Then just the check for that finds it
    assert list(violations(history)) == [name.strip()]
