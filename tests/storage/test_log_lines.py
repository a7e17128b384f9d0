"""Lines of a log that cannot be written are lost and counted; whoever logs goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from storage.log_lines import LossyFile

LOGS: Final = """
import sys, structlog
from storage.log_lines import log_file
structlog.configure(logger_factory=structlog.WriteLoggerFactory(log_file()))
structlog.get_logger().warning("a \\udc80 line")
print("went on", sys.stderr.fileno())
"""


def test_lines_are_lost_while_nobody_reads_and_the_next_tells_how_many() -> None:
    # Given a pipe that is full, of which its writer does not wait for room
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with LossyFile(writer, "w") as file:
        while file.write(b"x" * 4095 + b"\n") and not file.lost:
            pass

        # When more is written, then read, then written
        assert file.write(b"lost\n") == 5
        read = os.read(reader, 1 << 20)
        file.write(b"found\n")
        file.write(b"as before\n")

    # Then what could not be written is told of where it would have been
    assert b"lost" not in read
    told, *lines = os.read(reader, 1 << 20).splitlines()
    assert json.loads(told) == {
        "lines": 2,
        "event": "log lines could not be written",
        "level": "warning",
    }
    assert lines == [b"found", b"as before"]
    os.close(reader)


def test_a_long_line_arrives_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LossyFile(path, "w") as file:
        file.write(b"x" * (1 << 22))
    assert path.stat().st_size == 1 << 22


PARTS: Final = """
import resource, sys
from storage.log_lines import LossyFile
file = LossyFile(sys.argv[1], "w")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
file.write(b"part of this fits\\n")
file.write(b"and nothing of this\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
file.write(b"whole\\n")
"""


def test_what_comes_after_a_part_of_a_line_is_a_line_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", PARTS, str(log)], check=True)
    part, told, whole = log.read_text().splitlines()
    assert (part, whole) == ("part of th", "whole")
    assert json.loads(told)["lines"] == 2


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2> >(true)", "2>&-"])
def test_a_process_goes_on_without_its_log(stderr: str) -> None:
    # When a process logs to a full disk, to a reader that has gone, or has no stderr at all
    ended = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {stderr}', sys.executable, LOGS],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )

    # Then it ends as it does with one, and nothing else is opened as stderr
    assert (ended.returncode, ended.stdout) == (0, "went on 2\n")
