"""Writes a history down while it happens: one line a call, one line an end, each flushed."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any, TextIO

from tests.history.operations import Isolation, Kind, Outcome, Read


class Recorder:
    """One history, written by many threads.

    Attributes:
        complaints: what clients were told that no fault explains.
        stuck: clients that hang by a fault of their own; nobody can judge by them.
    """

    def __init__(self, page: TextIO) -> None:
        self.complaints: list[str] = []
        self.stuck: list[str] = []
        self._page = page
        self._one_at_a_time = Lock()
        self._operations = count()
        self._processes = count()
        self._values = count()

    def new_process(self) -> int:
        """Return the number of a new process; one that has crashed gets another."""
        return self._next(self._processes)

    def new_value(self) -> int:
        """Return a value that no record of the run has."""
        return self._next(self._values)

    def _next(self, numbers: "count[int]") -> int:
        with self._one_at_a_time:
            return next(numbers)

    def call(self, process: int, kind: Kind, value: Any) -> int:
        """Write down that an operation is about to begin; return its number."""
        with self._one_at_a_time:
            index = next(self._operations)
            self._write({"i": index, "e": "inv", "p": process, "f": kind.value, "v": value})
        return index

    def end(
        self,
        index: int,
        outcome: Outcome,
        value: Any = None,
        *,
        commit_ns: int | None = None,
        codes: Sequence[int] = (),
    ) -> None:
        """Write down that an operation has ended.

        Args:
            value: what is known by now; None if it is not more than at the call.
            commit_ns: when the commit of its transaction was called, if it was.
            codes: error codes that its attempts got, as far as they are known.
        """
        line: dict[str, Any] = {"i": index, "e": outcome.value}
        line |= {"v": value} if value is not None else {}
        line |= {"c": commit_ns} if commit_ns is not None else {}
        line |= {"err": list(codes)} if codes else {}
        with self._one_at_a_time:
            self._write(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._page.write(json.dumps({**line, "t": time.monotonic_ns()}) + "\n")
        self._page.flush()


def polled(reads: Mapping[int, Iterable[Read]]) -> list[Any]:
    """Return a poll that has ended, as it is written down."""
    return ["poll", {str(key): [list(read) for read in those] for key, those in reads.items()}]


def assigned(starts: Mapping[int, int], *, final: bool) -> dict[str, Any]:
    """Return an assignment as it is written down."""
    return {"starts": {str(key): offset for key, offset in starts.items()}, "final": final}


def told(isolation: Isolation, ends: Mapping[int, int]) -> dict[str, Any]:
    """Return end offsets as they are written down."""
    return {
        "isolation": isolation.value,
        "ends": {str(key): offset for key, offset in ends.items()},
    }
