"""Consume, transform, produce in transactions, while brokers and processors are killed.

EXACTLY_ONCE_SECONDS says how long faults go on. CRASH_SEED repeats them, as far as the machine
plays along. A run's pages and the brokers' logs stay in pytest's temporary folder. With
STREAMHOUSE_TEST_BOOTSTRAP it runs against that cluster, of which only processors are killed.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic
from tests.conftest import Tell
from tests.crash.checks import report
from tests.crash.cluster_faults import bug_lines, cluster
from tests.crash.exactly_once_checks import History, violations
from tests.crash.exactly_once_input import numbered_input
from tests.crash.exactly_once_reading import read_output, read_source
from tests.crash.exactly_once_run import PROTOCOLS, running_processors
from tests.crash.exactly_once_settings import SOURCE_PARTITIONS, TARGET_PARTITIONS, key_of
from tests.support.three_brokers import Trio

SECONDS: Final = float(os.environ.get("EXACTLY_ONCE_SECONDS") or 15)


@contextmanager
def brokers(home: Path) -> Iterator[tuple[str, Trio | None]]:
    """Yield where the cluster is, and its brokers if they may be killed."""
    if given := os.environ.get("STREAMHOUSE_TEST_BOOTSTRAP"):
        yield given, None
        return
    with cluster(home) as trio:
        yield trio.bootstrap, trio


def test_each_record_has_one_committed_copy_whatever_is_killed(
    tmp_path: Path, dice: random.Random, seed: int, tell: Tell
) -> None:
    with brokers(tmp_path) as (bootstrap, trio):
        # Given an input that grows, and two processors of each library that copy it
        confluent = Confluent(bootstrap=bootstrap)
        source = new_topic(confluent, "input", partition_count=SOURCE_PARTITIONS)
        target_of = {
            library: new_topic(confluent, library, partition_count=TARGET_PARTITIONS)
            for library in PROTOCOLS
        }
        pages = tmp_path / "pages"
        with running_processors(bootstrap, pages, source, target_of) as run:
            with numbered_input(bootstrap, source) as records:
                run.await_commits()
                # When they and the brokers are killed, and come back
                run.kill(trio, dice, SECONDS)
                records.stop()
            # and have come to the end of the input
            complaints = run.settle(counts_of(records.acknowledged))
            complaints += run.stop()
            outputs = run.outputs()
            for output in outputs:
                read_output(bootstrap, target_of[output.library], output)
            history = History(
                acknowledged=records.acknowledged,
                source=read_source(bootstrap, source),
                outputs=outputs,
                complaints=complaints + (bug_lines(trio) if trio else []),
            )
    # Then each record has one committed copy, in order, and nothing aborted is among them
    tell(f"seed={seed} {run.summary(history)}")
    found = violations(history)
    assert not found, f"seed {seed}, {tmp_path}\n{report(found)}"


def counts_of(acknowledged: int) -> dict[int, int]:
    """Return how many records of the input are in each of its partitions."""
    return dict(Counter(key_of(number) % SOURCE_PARTITIONS for number in range(acknowledged)))
