"""`python -m tests.fuzz frames | atheris | broker`: what CI does, for as long as wanted."""

import argparse
import sys
from pathlib import Path

from tests.fuzz import broker_run, coverage_run
from tests.fuzz.frame_report import as_json, table
from tests.fuzz.frame_run import run_frames


def main() -> int:
    """Return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    frames = kinds.add_parser(
        "frames", help="frames by a grammar, through the code of a connection"
    )
    frames.add_argument("--count", type=int, default=100_000)
    frames.add_argument("--seed", type=int, default=1)
    frames.add_argument("--processes", type=int, default=1)
    frames.add_argument("--measure-every", type=int, default=1)
    frames.add_argument("--json", type=Path)
    guided = kinds.add_parser("atheris", help="the same, guided by the coverage of the parsers")
    guided.add_argument("--seconds", type=int, default=60)
    guided.add_argument("--seed", type=int, default=1)
    guided.add_argument("--corpus", type=Path, required=True, help="a directory; made if missing")
    live = kinds.add_parser("broker", help="frames and garbage, at a broker that runs")
    live.add_argument("--seconds", type=float, default=60)
    live.add_argument("--seed", type=int, default=1)
    live.add_argument("--connections", type=int, default=50)
    arguments = parser.parse_args()
    if arguments.kind == "atheris":
        coverage_run.run(arguments.corpus, seconds=arguments.seconds, seed=arguments.seed)
        return 0  # it does not come back
    if arguments.kind == "broker":
        return broker_run.main(arguments.seconds, arguments.seed, arguments.connections)
    run = run_frames(
        arguments.count,
        arguments.seed,
        processes=arguments.processes,
        measure_every=arguments.measure_every,
    )
    sys.stdout.write(table(run) + "\n")
    if arguments.json is not None:
        plan = {name: getattr(arguments, name) for name in ("count", "seed", "processes")}
        arguments.json.write_text(as_json(run, plan))
    for finding in run.findings:
        sys.stdout.write(f"\n{finding}\n")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
