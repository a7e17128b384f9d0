"""Brokers of a cluster killed at random: no record lost or doubled, no committed offset goes back.

CLUSTER_SECONDS says how long faults go on. CRASH_SEED repeats them, as far as the machine plays
along. A run's ledgers and the brokers' logs stay in pytest's temporary folder.
"""

import os
import random
from pathlib import Path
from typing import Final

from tests.clients.confluent import Confluent
from tests.conftest import Tell
from tests.crash.checks import report
from tests.crash.cluster_checks import violations
from tests.crash.cluster_faults import Faults, cluster
from tests.crash.cluster_ledger import PARTITIONS, TOPICS
from tests.crash.cluster_run import Run, running_members
from tests.crash.index_checks import report_index

SECONDS: Final = float(os.environ.get("CLUSTER_SECONDS") or 20)


def test_brokers_of_a_cluster_killed_at_random_moments(
    tmp_path: Path, dice: random.Random, seed: int, tell: Tell
) -> None:
    # Given three brokers, producers, and a group of each protocol that has begun
    assignor = dice.choice(("range", "cooperative-sticky"))
    with cluster(tmp_path) as trio:
        for topic in TOPICS:
            Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=PARTITIONS)
        with running_members(trio.bootstrap, tmp_path / "members", assignor) as members:
            run = Run(trio, members)
            with run.working():
                run.await_commits()
                # When brokers are killed, stopped and paused, their upkeep processes are killed
                # and paused, and members are paused
                Faults(trio, run.pids, run.ledger, dice).run(SECONDS)
            # And all is mended
            run.settle()
            run.collect()
            rows = report_index(trio.dsn)
    # Then every record is in the log once and read by both groups, which never went back
    tell(f"seed={seed} classic={assignor} {rows} {run.ledger.summary()}")
    found = violations(run.ledger)
    assert not found, f"seed {seed}, {tmp_path}\n{report(found)}"
