"""A history as a file: JSON lines, flushed one by one, paired into operations.

    {"i", "e": "inv", "p", "t", "f", "v"}           an operation is about to begin
    {"i", "e": "ok" | "fail" | "info", "t", ...}    it ended; with what is known by now:
        "v"    as below; without it, that of the call
        "c"    when its transaction's commit was called; absent if it never was
        "reb"  keys that a rebalance moved meanwhile
        "err"  error codes of its attempts, as far as they are known

`i` pairs the two, `p` is the process, `t` nanoseconds of CLOCK_MONOTONIC, `f` a Kind. `v` is

    send, poll, txn   a list of ["send", k, v], ["send", k, v, [k, v] copied from] and ["poll"];
                      when it ended ["send", k, [offset | null, v], ...] and
                      ["poll", {k: [[offset, v], ...]}]
    assign            {"starts": {k: offset | null}, "final": bool}
    subscribe         the keys of the topics
    ends              {"isolation": ..., "ends": {k: offset}}; empty when it is called

An operation without an end is `info`, and so is one whose attempts were not all refused for sure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.history.codes import definite
from tests.history.operations import (
    NEVER_NS,
    Action,
    Assignment,
    EndOffsets,
    Entry,
    Isolation,
    Kind,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
)

_ACTING: Final = (Kind.SEND, Kind.POLL, Kind.TRANSACTION)


class MalformedHistory(ValueError):
    """The recorder wrote what it must not; nothing can be said of the run."""


def load(page: Path) -> list[Operation]:
    """Read a history; a last line that was not written to its end is not there.

    Returns:
        Operations in the order in which they were called.

    Raises:
        MalformedHistory: a line has no partner, or a process did two things at a time.
    """
    with page.open() as lines:
        return pair(json.loads(line) for line in lines if line.endswith("\n"))


def pair(lines: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Make operations of the lines of a history.

    Raises:
        MalformedHistory: as `load`.
    """
    calls: dict[int, Mapping[str, Any]] = {}
    ends: dict[int, Mapping[str, Any]] = {}
    for line in lines:
        index = line["i"]
        if line["e"] == "inv":
            if index in calls:
                raise MalformedHistory(f"operation {index} was called twice")
            calls[index] = line
        elif index not in calls or index in ends:
            raise MalformedHistory(f"an end without an operation: {line}")
        else:
            ends[index] = line
    operations = [_operation(call, ends.get(index, {})) for index, call in calls.items()]
    operations.sort(key=lambda one: one.began_ns)
    _require_sequential(operations)
    return operations


def _operation(call: Mapping[str, Any], end: Mapping[str, Any]) -> Operation:
    kind = Kind(call["f"])
    value = end.get("v", call["v"])
    codes = tuple(end.get("err", ()))
    outcome = Outcome(end.get("e", Outcome.INFO))
    if outcome is Outcome.FAIL and not definite(codes):
        outcome = Outcome.INFO
    return Operation(
        index=call["i"],
        process=call["p"],
        kind=kind,
        outcome=outcome,
        began_ns=call["t"],
        visible_ns=end.get("c", call["t"]),
        ended_ns=end.get("t", NEVER_NS),
        actions=tuple(_actions(value)) if kind in _ACTING else (),
        moved=frozenset(end.get("reb", ())),
        codes=codes,
        assignment=_assignment(value) if kind is Kind.ASSIGN else None,
        ends=_ends(value) if kind is Kind.ENDS else None,
    )


def _actions(value: Iterable[list[Any]]) -> Iterator[Action]:
    for action in value:
        if action[0] == "send":
            yield _send(*action[1:])
        elif action[0] == "poll":
            yield _poll(*action[1:])
        else:
            raise MalformedHistory(f"no such action: {action}")


def _send(key: int, written: Any, source: list[int] | None = None) -> Send:
    offset, value = written if isinstance(written, list) else (None, written)
    return Send(Entry(key, value), offset, Entry(*source) if source else None)


def _poll(reads: Mapping[str, list[list[int]]] | None = None) -> Poll:
    return Poll(
        {int(key): [Read(*read) for read in of_key] for key, of_key in (reads or {}).items()}
    )


def _assignment(value: Mapping[str, Any]) -> Assignment:
    starts = {int(key): offset for key, offset in value["starts"].items()}
    return Assignment(starts, final=value["final"])


def _ends(value: Mapping[str, Any]) -> EndOffsets:
    offsets = {int(key): offset for key, offset in value["ends"].items()}
    return EndOffsets(Isolation(value["isolation"]), offsets)


def _require_sequential(operations: Iterable[Operation]) -> None:
    """Raise if a process began something before it had ended the last thing."""
    free_ns: dict[int, int] = {}
    for one in operations:
        if one.began_ns < free_ns.get(one.process, 0):
            raise MalformedHistory(f"the process was not free: {one}")
        free_ns[one.process] = NEVER_NS if one.kind is Kind.CRASH else one.ended_ns
