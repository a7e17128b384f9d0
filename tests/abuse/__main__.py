"""`python -m tests.abuse --seconds 600 --slow 2000`: attackers beside good clients, judged."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, fields
from pathlib import Path

from tests.abuse.attack_process import Plan
from tests.abuse.run import run
from tests.abuse.verdict import Limits


def main() -> int:
    """Return 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description=__doc__)
    for each in (*fields(Plan), *fields(Limits)):
        flag = "--" + each.name.replace("_", "-")
        parser.add_argument(flag, type=type(each.default), default=each.default)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the broker's log is kept")
    arguments = vars(parser.parse_args())
    json_path, log_path = arguments.pop("json"), arguments.pop("log")
    limits = Limits(**{each.name: arguments.pop(each.name) for each in fields(Limits)})
    plan = Plan(**arguments)
    with tempfile.TemporaryDirectory() as directory:
        outcome = run(Path(directory), plan, limits, lambda line: _say(f"{line} ..."))
        if log_path is not None:
            log_path.write_bytes((Path(directory) / "broker.log").read_bytes())
    for name, value in outcome.figures.items():
        sys.stdout.write(f"{name:<40} {value}\n")
    for line in outcome.wrong:
        sys.stdout.write(f"NOT WITHIN LIMITS: {line}\n")
    if json_path is not None:
        document = {"plan": asdict(plan), "limits": asdict(limits), **asdict(outcome)}
        json_path.write_text(json.dumps(document))
    return 1 if outcome.wrong else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
