"""What must hold while a broker is abused, and whether it did."""

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from tests.abuse.good_clients import ACKNOWLEDGED, END_TO_END
from tests.abuse.watch import Sample, metric, metrics
from tests.fuzz.broker_run import BUG
from tests.support.broker import BrokerProcess

ALONE, BESIDE, AFTER = "alone", "beside", "after"
FILES_LEFT: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What must hold."""

    rss_growth_bytes: int = 256 * 2**20
    p99_ratio: float = 2.0
    lag_p99_ms: float = 50.0
    log_bytes_per_s: float = 50_000


@dataclass(slots=True)
class Outcome:
    """What was measured, by name; and what is not within the limits."""

    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def hold(self, name: str, value: float, most: float) -> None:
        """Note a figure that has a limit."""
        self.figures[name] = value
        if not value <= most:
            self.wrong.append(f"{name}: {value:g}, at most {most:g}")


def judge_processes(
    outcome: Outcome, limits: Limits, quiet: list[Sample], abused: list[Sample], end: Sample
) -> None:
    for at, name in enumerate(("broker", "upkeep")):
        base = max(sample.rss[at] for sample in quiet)
        peak_s, most = max(((one.at_s, one.rss[at]) for one in abused), key=itemgetter(1))
        outcome.figures[f"{name} RSS alone, MiB"] = round(base / 2**20, 1)
        outcome.figures[f"{name} RSS after, MiB"] = round(end.rss[at] / 2**20, 1)
        grown, allowed = (most - base) / 2**20, limits.rss_growth_bytes / 2**20
        outcome.hold(f"{name} RSS grew, MiB", round(grown, 1), allowed)
        outcome.figures[f"{name} RSS was largest after, s"] = round(peak_s - abused[0].at_s)
    outcome.figures["open files, most"] = max(sample.files for sample in abused)
    outcome.hold("open files after", end.files, quiet[-1].files + FILES_LEFT)
    seconds = abused[-1].at_s - abused[0].at_s
    pace = (abused[-1].log_bytes - abused[0].log_bytes) / max(seconds, 1)
    outcome.hold("log bytes per second", round(pace), limits.log_bytes_per_s)
    for phase, samples in ((ALONE, quiet), (BESIDE, abused)):
        outcome.figures[f"host took of the processors, {phase}"] = f"{_stolen(samples):.0%}"


def _stolen(samples: list[Sample]) -> float:
    """Return a share; times are not to be trusted where it is a tenth or more."""
    seconds = samples[-1].at_s - samples[0].at_s
    return (samples[-1].stolen_s - samples[0].stolen_s) / max(seconds, 1)


def judge_clients(outcome: Outcome, limits: Limits, result: dict[str, Any]) -> None:
    found = {(one["phase"], one["kind"]): one for one in result["samples"]}
    for kind in (ACKNOWLEDGED, END_TO_END):
        for phase in (ALONE, BESIDE, AFTER):
            one = found.get((phase, kind), {"p50": None, "p99": None})
            outcome.figures[f"{kind}, {phase}, ms"] = one
        alone, beside = found[ALONE, kind]["p99"], found[BESIDE, kind]["p99"]
        outcome.hold(f"{kind}: p99 ratio", round(beside / alone, 2), limits.p99_ratio)
    lost = result["sent"] - result["acknowledged"], result["sent"] - result["read"]
    outcome.hold("good records not acknowledged", lost[0], 0)
    outcome.hold("good records not read", lost[1], 0)
    outcome.figures["errors of good clients"] = result["errors"]


def judge_end(outcome: Outcome, broker: BrokerProcess) -> None:
    text = metrics(broker)
    outcome.hold(
        "request memory after, bytes", metric(text, "streamhouse_request_memory_bytes"), 2**20
    )
    outcome.hold("unknown server errors", text.count('"unknown_server_error"'), 0)
    bugs = [line for line in broker.log.read_text().splitlines() if BUG in line]
    outcome.hold("bugs in the log", len(bugs), 0)
    outcome.wrong += [bug[:1500] for bug in bugs[:5]]
