"""A history recorded while brokers are killed and paused, judged by the rules of tests/history.

HISTORY_SECONDS says how long faults go on; 600 makes a long run. CRASH_SEED repeats them, as far
as the machine plays along. The history and the brokers' logs stay in pytest's temporary folder.
"""

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Tell
from tests.crash.cluster_faults import Faults, bug_lines, cluster
from tests.crash.cluster_ledger import ClusterLedger
from tests.crash.index_checks import report_index
from tests.crash.processes import until
from tests.history.check import findings, hard, summary, table
from tests.history.load import load
from tests.history.operations import Kind, Operation, Outcome
from tests.history.record import Recorder
from tests.history.run import create_topics, finish, working

SECONDS: Final = float(os.environ.get("HISTORY_SECONDS") or 15)
CALM_S: Final = 1.0  # before the faults, and behind them
ALL: Final = {Kind.SEND, Kind.POLL, Kind.TRANSACTION}


def test_a_history_with_faults_breaks_no_promise(
    tmp_path: Path, dice: random.Random, seed: int, tell: Tell
) -> None:
    page = tmp_path / "history.jsonl"
    faults = ClusterLedger(groups=())
    # Given three brokers, and clients that send and poll, most of them in transactions
    with cluster(tmp_path) as trio, page.open("w") as lines:
        create_topics(trio.bootstrap)
        recorder = Recorder(lines)
        with working(trio.bootstrap, recorder, dice):
            time.sleep(CALM_S)
            # When brokers and their upkeep processes are killed and paused, and all is healed
            Faults(trio, {}, faults, dice).run(SECONDS)
            time.sleep(CALM_S)
            # and all have got somewhere (a slow machine may only now let them)
            until(lambda: acted(load(page)) == ALL, "something of each kind that succeeds")
        # Then no transaction holds readers back for longer than its timeout and five seconds
        waited_s = finish(trio.bootstrap, recorder)
        rows = report_index(trio.dsn)
        bugs = bug_lines(trio)
    # And nobody was told anything that is not so
    operations = load(page)
    found = findings(operations)
    told = f"seed={seed} faults={len(faults.troubles)} stable after {waited_s:.1f} s"
    told += f" stuck clients={len(recorder.stuck)} {rows}"
    tell(f"{told}; {summary(operations)}")
    if hard(found):
        pytest.fail(f"seed {seed}, {page}\n{table(found)}", pytrace=False)
    assert recorder.complaints == [], f"seed {seed}, {page}"
    assert bugs == [], f"seed {seed}, {tmp_path}"
    # And something of each kind has succeeded
    assert acted(operations) == ALL, summary(operations)


def acted(operations: Iterable[Operation]) -> set[Kind]:
    """Return the kinds of operations that have succeeded with records."""
    return {
        one.kind
        for one in operations
        if one.outcome is Outcome.OK and (any(one.sends) or any(one.reads))
    }
