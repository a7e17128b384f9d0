"""Judges a recorded history: `python -m tests.history.check FILE.jsonl` exits 1 on a violation.

What is looked for is what Jepsen's Kafka workload looks for, and orders in real time across
processes besides, and open transactions that readers have passed. Never waived is `unseen`. Not
computed: edges from reads to later writes, which a queue of committed records does not need, and
int-send-skip, which Kafka allows.
"""

import argparse
import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.history import cycles, order_checks, value_checks
from tests.history.index import Index, index
from tests.history.load import load
from tests.history.operations import Operation
from tests.history.value_checks import Finding

Findings = Mapping[str, Sequence[str]]
"""What is wrong in words, by type."""

EXAMPLES: Final = 8
CHECKS: Final[tuple[Callable[[Index], Iterator[Finding]], ...]] = (
    value_checks.lost_writes,
    value_checks.unseen,
    value_checks.inconsistent_offsets,
    value_checks.duplicates,
    value_checks.phantom_values,
    value_checks.aborted_reads,
    value_checks.precommitted_reads,
    cycles.circular_reads,
    value_checks.torn_transactions,
    value_checks.reads_before_writes,
    value_checks.copies,
    order_checks.internal_polls,
    order_checks.external_polls,
    order_checks.internal_sends,
    order_checks.external_sends,
    order_checks.send_inversions,
    order_checks.end_offsets,
    order_checks.passed_transactions,
)
ALLOWED: Final = frozenset({"poll-skip-subscribed", "nonmonotonic-poll-subscribed"})
"""What may happen: others of the group have read, or have not committed."""


def findings(operations: Sequence[Operation]) -> Findings:
    """Return all that is unusual; empty for a good history.

    Raises:
        MalformedHistory: a value was sent twice.
    """
    indexed = index(operations)
    found: dict[str, list[str]] = defaultdict(list)
    for check in CHECKS:
        for finding in check(indexed):
            found[finding.kind].append(finding.detail)
    return found


def hard(found: Findings) -> Findings:
    """Return what no history may have."""
    return {kind: details for kind, details in found.items() if kind not in ALLOWED}


def table(found: Findings) -> str:
    """Return types with their numbers, the most frequent first, and examples of each."""
    lines = []
    for kind, details in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        note = " (allowed)" if kind in ALLOWED else ""
        lines.append(f"{kind:28} {len(details):8}{note}")
        smallest = sorted(details, key=lambda detail: (len(detail), detail))[:EXAMPLES]
        lines += [f"    {detail}" for detail in smallest]
    return "\n".join(lines) or "nothing found"


def summary(operations: Sequence[Operation]) -> str:
    """Return what a history is made of, in one line."""
    outcomes = Counter(f"{one.kind} {one.outcome}" for one in operations)
    sends = sum(1 for one in operations for _ in one.sends)
    reads = sum(1 for one in operations for _ in one.reads)
    parts = [f"{name}: {count}" for name, count in sorted(outcomes.items())]
    return f"{len(operations)} operations, {sends} sends, {reads} reads; {', '.join(parts)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a file; return the exit code."""
    parser = argparse.ArgumentParser(description="Judge a recorded history.")
    parser.add_argument("history", type=Path, help="JSON lines, as tests/history/load.py tells")
    page: Path = parser.parse_args(arguments).history
    began_s = time.monotonic()
    try:
        operations = load(page)
    except OSError as error:
        parser.error(f"cannot read {page}: {error.strerror}")
    found = findings(operations)
    print(summary(operations))  # noqa: T201
    print(table(found))  # noqa: T201
    print(f"judged in {time.monotonic() - began_s:.2f} s")  # noqa: T201
    return 1 if hard(found) else 0


if __name__ == "__main__":
    gc.disable()  # millions of small objects, none of which is garbage before the end
    sys.exit(main())
