"""Histories of a broker that makes no mistake, of any size, from a seed."""

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, Final

from tests.history.planted import Line, polled

KEYS: Final = 8
PROCESSES: Final = 12
MOST_ACTIONS: Final = 4
MOST_READ: Final = 20
MOST_NS: Final = 1_000_000
FINAL: Final = PROCESSES


@dataclass(slots=True)
class Log:
    """One partition: what readers of committed records see, and where the next record goes."""

    records: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0


class Simulation:
    """A broker and its clients; each operation takes effect at one moment between its ends."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._logs = [Log() for _ in range(KEYS)]
        self._read: dict[int, list[int]] = defaultdict(lambda: [0] * KEYS)
        self._lines: list[tuple[int, Line]] = []
        self._values = 0
        self._operations = 0

    def run(self, operations: int) -> list[Line]:
        """Return the lines of so many operations, and of a final read, in the order of time."""
        moments = [(self._dice.randint(2, MOST_NS), process) for process in range(PROCESSES)]
        heapify(moments)
        for process in range(PROCESSES):
            self._assign(process, 0, final=False)
        now_ns = 0
        for _ in range(operations):
            now_ns, process = moments[0]
            ended_ns = now_ns + self._dice.randint(1, MOST_NS)
            began_ns = now_ns - 1
            self._operate(process, began_ns, ended_ns)
            heapreplace(moments, (ended_ns + 2 + self._dice.randint(0, MOST_NS), process))
        now_ns += 3 * MOST_NS
        self._assign(FINAL, now_ns, final=True)
        reads = {key: log.records for key, log in enumerate(self._logs)}
        self._add(FINAL, "poll", [["poll"]], "ok", [polled(reads)], now_ns + 1, now_ns + 2)
        return [line for _, line in sorted(self._lines, key=lambda one: one[0])]

    def _operate(self, process: int, began_ns: int, ended_ns: int) -> None:
        chance = self._dice.random()
        if chance < 0.1:
            ends = {str(key): log.end for key, log in enumerate(self._logs)}
            told = {"isolation": "read_uncommitted", "ends": ends}
            self._add(process, "ends", told, "ok", told, began_ns, ended_ns)
        elif chance < 0.3:
            self._poll(process, began_ns, ended_ns)
        else:
            self._transact(process, began_ns, ended_ns)

    def _poll(self, process: int, began_ns: int, ended_ns: int) -> None:
        following, line = self._take(self._read[process])
        self._read[process] = following
        self._add(process, "poll", [["poll"]], "ok", [line], began_ns, ended_ns)

    def _transact(self, process: int, began_ns: int, ended_ns: int) -> None:
        """Read, then send; commit, abort, or leave open which of both."""
        committed = self._dice.random() < 0.8
        known = self._dice.random() < 0.9
        following, line = self._take(self._read[process])
        called: list[list[Any]] = [["poll"]]
        done: list[list[Any]] = [line]
        sent: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for _ in range(self._dice.randint(0, MOST_ACTIONS)):
            key, value = self._dice.randrange(KEYS), self._new_value()
            offset = self._logs[key].end
            self._logs[key].end += 1
            sent[key].append((offset, value))
            called.append(["send", key, value])
            done.append(["send", key, [offset, value]])
        self._mark(sent, committed=committed)
        outcome = "info" if not known else "ok" if committed else "fail"
        if outcome == "ok":
            self._read[process] = following
        self._add(process, "txn", called, outcome, done, began_ns, ended_ns)

    def _mark(self, sent: Mapping[int, list[tuple[int, int]]], *, committed: bool) -> None:
        for key, records in sent.items():
            self._logs[key].end += 1
            if committed:
                self._logs[key].records += records

    def _take(self, start: list[int]) -> tuple[list[int], list[Any]]:
        """Return how far one poll gets from here, in records, and its line."""
        following = list(start)
        reads = {}
        for key in self._dice.sample(range(KEYS), self._dice.randint(0, KEYS)):
            some = self._logs[key].records[start[key] : start[key] + MOST_READ]
            following[key] += len(some)
            reads[key] = some
        return following, polled(reads)

    def _assign(self, process: int, at_ns: int, *, final: bool) -> None:
        value = {"starts": {str(key): 0 for key in range(KEYS)}, "final": final}
        self._add(process, "assign", value, "ok", value, at_ns, at_ns)

    def _new_value(self) -> int:
        self._values += 1
        return self._values

    def _add(
        self,
        process: int,
        kind: str,
        called: Any,
        outcome: str,
        done: Any,
        began_ns: int,
        ended_ns: int,
    ) -> None:
        index = self._operations
        self._operations += 1
        call: Line = {"i": index, "e": "inv", "p": process, "t": began_ns, "f": kind, "v": called}
        end: Line = {"i": index, "e": outcome, "t": ended_ns, "v": done}
        self._lines += [(began_ns, call), (ended_ns, end)]
