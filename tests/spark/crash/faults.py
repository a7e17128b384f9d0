"""What happens to a job while it works, and that it is brought to its end all the same."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.spark.crash.checkpoint import Progress, progress
from tests.spark.crash.cluster import KillableCluster
from tests.spark.crash.job_process import JobProcess, Victim

GLANCE_S: Final = 0.01
PATIENCE_S: Final = 240.0
MOST_DELAY_S: Final = 0.5
MOST_STARTS: Final = 8


class Fault(StrEnum):
    DRIVER = "kill -9 of the driver"
    JVM = "kill -9 of the driver's JVM"
    BROKER = "kill -9 of the broker"
    POSTGRES = "kill -9 of Postgres"


class Moment(StrEnum):
    """When it happens, after the job has done something since the fault before."""

    PLANNED = "as a micro-batch begins"
    WITHIN = "at some time of a micro-batch"
    COMMITTED = "right after a micro-batch"
    WRITTEN = "when the sink has a micro-batch that Spark does not know to be done"


@dataclass(slots=True, kw_only=True)
class Trial:
    """One job that has to come to its end.

    Attributes:
        checkpoint: the job's; what is there shows how far it is.
        written: how many micro-batches the sink has, if it can be asked: for Moment.WRITTEN.
        told: what was done and when, for the reader of a failure.
    """

    job: JobProcess
    cluster: KillableCluster
    checkpoint: Path
    dice: random.Random
    written: Callable[[], int] | None = None
    told: list[str] = field(default_factory=list)

    def suffer(self, faults: Sequence[tuple[Fault, Moment]]) -> None:
        """Let faults happen one after the other, each in the middle of the job's work.

        Raises:
            AssertionError: the job ended, or did nothing for long, before all of them happened.
        """
        for fault, moment in faults:
            at = self._await(moment)
            self._do(fault)
            self.told.append(f"{fault} {moment}: planned {at.planned}, committed {at.committed}")

    def finish(self) -> None:
        """Return when the job has ended well, started again whenever it did not.

        Raises:
            AssertionError: it does not end, or fails again and again with nobody to hurt it.
        """
        while self.job.wait() != 0:
            self._restart()

    def _await(self, moment: Moment) -> Progress:
        deadline_s = time.monotonic() + PATIENCE_S
        begun = progress(self.checkpoint)
        while True:
            seen = self._alive()
            if seen.committed > begun.committed and self._is(moment, seen):
                break
            assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:.0f} s: {seen}, {self.told}"
            time.sleep(GLANCE_S)
        if moment is Moment.WITHIN:
            time.sleep(self.dice.uniform(0, MOST_DELAY_S))  # the moment is not chosen
        return seen

    def _is(self, moment: Moment, seen: Progress) -> bool:
        match moment:
            case Moment.PLANNED | Moment.WITHIN:
                return seen.under_way
            case Moment.COMMITTED:
                return not seen.under_way
            case Moment.WRITTEN:
                assert self.written is not None, "nobody to ask"
                return seen.under_way and self.written() > seen.committed

    def _alive(self) -> Progress:
        """Return how far the job is; it is started again if a fault has ended it."""
        code = self.job.code
        assert code != 0, f"the job ended before all faults happened, after {self.told}"
        if code is not None:
            self._restart()
        return progress(self.checkpoint)

    def _restart(self) -> None:
        self.told.append(f"ended with {self.job.code}, started again")
        assert self.job.starts < MOST_STARTS, f"does not come to its end: {self.told}"
        self.job.start()

    def _do(self, fault: Fault) -> None:
        match fault:
            case Fault.DRIVER:
                self.job.kill()
            case Fault.JVM:
                self.job.kill(Victim.JVM)
            case Fault.BROKER:
                self.cluster.kill_broker()
            case Fault.POSTGRES:
                self.cluster.kill_postgres()


def shuffled(kinds: Iterable[str], seed: int) -> list[str]:
    """Return kinds of jobs in the order in which a run takes them; the same for the same seed."""
    order = sorted(kinds)
    random.Random(seed).shuffle(order)
    return order
