"""A broker that counts what it does between two signals.

    python -m bench.counted_broker FILE serve ...

SIGUSR1 begins to count, SIGUSR2 writes the counts to FILE as one JSON object. Counts do not depend
on how busy the machine is, so they can guard what seconds cannot.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

STATEMENTS: Final = frozenset({"Connection._do_execute"})
STORE_REQUESTS: Final = frozenset({"DirectoryStore.put", "DirectoryStore.get"})


class Calls:
    """Counts calls of the main thread, where the event loop runs.

    A coroutine that goes on is called again; of what is awaited only the beginnings count as
    statements and store requests: those are where its code begins.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._functions: Counter[tuple[str, int]] = Counter()
        self._native = 0

    def begin(self, *_: object) -> None:
        self._functions.clear()
        self._native = 0
        sys.setprofile(self._note)

    def end(self, *_: object) -> None:
        sys.setprofile(None)
        counts = {
            "python": self._functions.total(),
            "native": self._native,
            "statements": self._begun(STATEMENTS),
            "store requests": self._begun(STORE_REQUESTS),
        }
        unfinished = self._file.with_suffix(".part")
        unfinished.write_text(json.dumps(counts))
        unfinished.rename(self._file)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._functions[frame.f_code.co_qualname, frame.f_lasti] += 1
        elif event == "c_call":
            self._native += 1

    def _begun(self, names: frozenset[str]) -> int:
        found = [place for place in self._functions if place[0] in names]
        first = {name: min(at for its, at in found if its == name) for name, _ in found}
        return sum(self._functions[place] for place in first.items())


def main() -> None:
    """Run the broker."""
    calls = Calls(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, calls.begin)
    signal.signal(signal.SIGUSR2, calls.end)
    from broker.main import main as serve  # noqa: PLC0415 (it hides the command line first)

    serve()


if __name__ == "__main__":
    main()
