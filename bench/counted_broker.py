"""A broker that counts what it does between two signals.

    python -m bench.counted_broker FILE serve ...

SIGUSR1 begins to count calls, SIGPROF to trace memory; SIGUSR2 ends it and writes the counts to
FILE as one JSON object. Counts do not depend on how busy the machine is, so they can guard what
seconds cannot.
"""

import gc
import json
import signal
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

STATEMENTS: Final = frozenset({"Connection._do_execute"})
COMMITS: Final = frozenset({"PostgresMetadata.commit_object"})
STORE_REQUESTS: Final = frozenset({"DirectoryStore.put", "DirectoryStore.get"})


class Calls:
    """Counts calls of the main thread, where the event loop runs.

    A coroutine that goes on is called again; of what is awaited only the beginnings count as
    statements, commits and store requests: those are where its code begins.
    """

    def __init__(self) -> None:
        self._functions: Counter[tuple[str, int]] = Counter()
        self._native = 0
        self._began_s = 0.0

    def begin(self) -> None:
        self._functions.clear()
        self._native = 0
        self._began_s = time.monotonic()
        sys.setprofile(self._note)

    def end(self) -> Mapping[str, float]:
        """Return the counts, and the seconds in which they came to that."""
        sys.setprofile(None)
        return {
            "seconds": time.monotonic() - self._began_s,
            "python": self._functions.total(),
            "native": self._native,
            "statements": self._begun(STATEMENTS),
            "commits": self._begun(COMMITS),
            "store requests": self._begun(STORE_REQUESTS),
        }

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._functions[frame.f_code.co_qualname, frame.f_lasti] += 1
        elif event == "c_call":
            self._native += 1

    def _begun(self, names: frozenset[str]) -> int:
        found = [place for place in self._functions if place[0] in names]
        first = {name: min(at for its, at in found if its == name) for name, _ in found}
        return sum(self._functions[place] for place in first.items())


class Memory:
    """Counts bytes of the whole process that were allocated since the beginning.

    What goes by itself (reference cycles) does not count as kept, but as peak.
    """

    def begin(self) -> None:
        gc.collect()
        tracemalloc.start(1)

    def end(self) -> Mapping[str, int]:
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return {"kept bytes": kept, "peak bytes": peak - kept}


class Counts:
    """Begins and ends what signals ask for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._under_way: Calls | Memory = Calls()

    def begin(self, number: int, _: object) -> None:
        self._under_way = Calls() if number == signal.SIGUSR1 else Memory()
        self._under_way.begin()

    def end(self, *_: object) -> None:
        unfinished = self._file.with_suffix(".part")
        unfinished.write_text(json.dumps(self._under_way.end()))
        unfinished.rename(self._file)


def main() -> None:
    """Run the broker."""
    counts = Counts(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, counts.begin)
    signal.signal(signal.SIGPROF, counts.begin)
    signal.signal(signal.SIGUSR2, counts.end)
    from broker.main import main as serve  # noqa: PLC0415 (it hides the command line first)

    serve()


if __name__ == "__main__":
    main()
