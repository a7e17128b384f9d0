"""Writes histories by hand, line by line, as the recorder does."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STEP_NS: Final = 1_000
PRODUCER: Final = 1
OTHER: Final = 2
READER: Final = 3
FINAL: Final = 9

Line = dict[str, Any]
Reads = Mapping[int, Sequence[tuple[int, int]]]
"""By key: offset and value of each record."""


def sent(key: int, value: int, offset: int | None = None) -> list[Any]:
    return ["send", key, [offset, value]]


def copied(key: int, value: int, offset: int, source: tuple[int, int]) -> list[Any]:
    return ["send", key, [offset, value], list(source)]


def polled(reads: Reads) -> list[Any]:
    return ["poll", {str(key): [list(read) for read in those] for key, those in reads.items()}]


@dataclass(slots=True)
class Story:
    """A history in the making: each operation takes a step of time, after the one before.

    Attributes:
        lines: as the recorder writes them.
        now_ns: when the last operation ended.
    """

    lines: list[Line] = field(default_factory=list)
    now_ns: int = 0

    def operation(
        self,
        process: int,
        kind: str,
        value: Any,
        *,
        outcome: str = "ok",
        at: tuple[int, int] | None = None,
        commit_at: int | None = None,
        codes: Sequence[int] = (),
        moved: Sequence[int] = (),
    ) -> None:
        """Add an operation, which begins and ends at steps `at`, or next."""
        began_ns, ended_ns = [step * STEP_NS for step in at] if at else (0, 0)
        if at is None:
            began_ns, ended_ns = self.now_ns + STEP_NS, self.now_ns + 2 * STEP_NS
        self.now_ns = max(self.now_ns, ended_ns)
        index = len(self.lines)
        called = _as_called(value) if kind in {"send", "poll", "txn"} else value
        end: Line = {"i": index, "e": outcome, "t": ended_ns, "v": value}
        end |= {"err": list(codes)} if codes else {}
        end |= {"reb": list(moved)} if moved else {}
        end |= {"c": commit_at * STEP_NS} if commit_at is not None else {}
        self.lines.append(
            {"i": index, "e": "inv", "p": process, "t": began_ns, "f": kind, "v": called}
        )
        self.lines.append(end)

    def send(self, process: int, *sends: list[Any], **more: Any) -> None:
        self.operation(process, "send", list(sends), **more)

    def poll(self, process: int, *polls: Reads, **more: Any) -> None:
        self.operation(process, "poll", [polled(reads) for reads in polls], **more)

    def transaction(self, process: int, *actions: list[Any], **more: Any) -> None:
        self.operation(process, "txn", list(actions), **more)

    def assign(
        self, process: int, starts: Mapping[int, int | None], *, final: bool = False
    ) -> None:
        named = {str(key): offset for key, offset in starts.items()}
        self.operation(process, "assign", {"starts": named, "final": final})

    def subscribe(self, process: int, *keys: int) -> None:
        self.operation(process, "subscribe", list(keys))

    def ends(self, process: int, offsets: Mapping[int, int], isolation: str, **more: Any) -> None:
        named = {str(key): offset for key, offset in offsets.items()}
        self.operation(process, "ends", {"isolation": isolation, "ends": named}, **more)

    def write(self, home: Path) -> Path:
        page = home / "history.jsonl"
        ordered = sorted(self.lines, key=lambda line: line["t"])
        page.write_text("".join(json.dumps(line) + "\n" for line in ordered))
        return page


Plant = Callable[[Story, bool], None]
"""Writes a history; with its fault if told so."""


def read_all(story: Story, reads: Reads) -> None:
    """Add the final reads of a fresh client."""
    story.assign(FINAL, dict.fromkeys(reads, 0), final=True)
    story.poll(FINAL, reads)


def _as_called(actions: Sequence[list[Any]]) -> list[list[Any]]:
    """Return actions as they are known before: no offsets, no reads."""
    return [
        ["poll"] if action[0] == "poll" else [*action[:2], action[2][1], *action[3:]]
        for action in actions
    ]
