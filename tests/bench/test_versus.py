"""`python -m bench.versus`, run as people run it, against ours alone: little of one part."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "bench.versus"]
RUN_S = 120
GLANCE_S = 0.05


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Give the directory in which a run may make temporary ones; a short one.

    Where the path of its socket would be too long, an embedded Postgres has one elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="v-") as directory:
        yield Path(directory)


def start(*arguments: str, scratch: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_unknown_part_is_named(scratch: Path) -> None:
    said = start("--only", "latency,throughout", scratch=scratch)

    _, errors = said.communicate(timeout=RUN_S)

    assert said.returncode == 2
    assert "no such name: throughout" in errors
    assert "workers" in errors


def test_a_quick_run_leaves_a_report_and_nothing_else(tmp_path: Path, scratch: Path) -> None:
    # When one part is measured on ours alone
    raw = tmp_path / "raw.json"
    run = start(
        *("--quick", "--only", "wide", "--contenders", "ours", "--json", str(raw)),
        scratch=scratch,
    )
    output, errors = run.communicate(timeout=RUN_S)

    # Then its figures are printed and written, and no target is missed without a rival
    assert run.returncode == 0, f"{output}\n{errors}"
    assert "round 1, ours, wide: 50 partitions" in errors
    assert "first record to each s" in output
    written = json.loads(raw.read_text())
    assert written["settings"] == {
        "repeat": 1,
        "quick": True,
        "parts": ["wide"],
        "contenders": ["ours"],
    }
    assert written["machine"]["cores"] == os.cpu_count()
    (only,) = written["values"]
    assert only["note"] == ""
    assert only["figures"]["create_s"] > 0
    assert not list(scratch.iterdir())


def test_an_interrupted_run_ends_all_that_it_has_started(scratch: Path) -> None:
    # Given a run whose broker serves
    run = start("--quick", "--only", "throughput", "--contenders", "ours", scratch=scratch)
    assert run.stderr is not None
    line = ""
    while "throughput: produce" not in line:
        line = run.stderr.readline()
        assert line, "it ended before"
    children = psutil.Process(run.pid).children(recursive=True)
    assert any("postgres" in child.name() for child in children)

    # When Ctrl-C is pressed
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=RUN_S)

    # Then it tells how far it came, and leaves neither processes nor files
    assert run.returncode == 130, errors
    assert re.search(r"^interrupted: \d+ of", errors, re.MULTILINE)
    assert "targets:" in output
    deadline_s = time.monotonic() + 10
    while left := [child for child in children if child.is_running()]:
        assert time.monotonic() < deadline_s, left
        time.sleep(GLANCE_S)
    assert not list(scratch.iterdir())
