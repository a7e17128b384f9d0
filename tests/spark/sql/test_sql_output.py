"""Results of SQL: tables, JSON and Parquet, and what a command line says instead of one."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.jobs.options import WrongUsage
from spark.jobs.sql_output import Format, write
from tests.spark.sql.sql_orders import Ask
from tests.streamctl.conftest import COMMAND, REPOSITORY
from tests.support.broker import running_broker

START_S = 300  # of Java, where the machine has other things to do


def test_results_are_tables_json_and_parquet(
    ask: Ask, orders: str, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a result
    text = f"SELECT id, _timestamp AS at, amount, to FROM {orders} WHERE id < 2 ORDER BY id"
    result = ask(text)

    # When it is printed as JSON, then each line is an object with what is null, too
    write(result, Format.json, output=None, limit=1)
    line = json.loads(capsys.readouterr().out)
    at = "2025-06-15T15:06:40.000Z"
    assert line == {"id": 0, "at": at, "amount": 0.0, "to": {"city": "Ulm"}}

    # When it is a table, then it fits people, and says what it leaves out
    write(result, Format.table, output=None, limit=1)
    shown = capsys.readouterr()
    assert shown.out.split() == [
        *("id", "at", "amount", "to"),
        *("0", "2025-06-15", "15:06:40", "0.0", "{Ulm}"),
    ]
    assert "more than these 1 rows" in shown.err

    # When it is written as Parquet, then it can be read
    write(result, Format.parquet, output=str(tmp_path / "result"), limit=None)
    assertDataFrameEqual(session.read.parquet(str(tmp_path / "result")), result)

    # and two columns of a name are refused there, but shown
    twice = ask(f"SELECT a.id, b.id FROM {orders} a JOIN {orders} b ON a.id = b.id WHERE a.id = 3")
    with pytest.raises(WrongUsage, match="two columns"):
        write(twice, Format.json, output=None, limit=None)
    write(twice, Format.table, output=None, limit=None)
    assert capsys.readouterr().out.split() == ["id", "id", "3", "3"]


def test_json_of_any_size_passes_through_the_driver(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given 800 MB of lines that one task makes, more than the driver has memory
    body = "repeat('lorem ipsum ', 340)"
    result = session.range(0, 200_000, 1, 1).selectExpr("id", f"{body} AS body")

    # When they are printed
    out = tmp_path / "lines"
    with out.open("w") as lines, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", lines)
        write(result, Format.json, output=None, limit=None)

    # Then they are all there, in their order
    with out.open() as lines:
        assert all(line.startswith(f'{{"id":{number},') for number, line in enumerate(lines))
    assert out.stat().st_size > 800_000_000


def test_the_command_line_asks_in_a_process_of_its_own(
    orders: str, location_options: dict[str, str], tmp_path: Path
) -> None:
    place = Path("/proc")  # where nobody can write

    def streamctl(
        *arguments: str, stderr: int = subprocess.PIPE
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            (*COMMAND, "sql", "--data", location_options["data"], *arguments),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            timeout=START_S,
            check=False,
        )

    # When people ask, from wherever they are
    text = f"-- of all\nSELECT sum(amount) AS total, count(*) AS records FROM {orders}"
    ended = streamctl("--format", "json", "--", text)

    # Then they get what they asked for, and nothing else
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"total": 217.5, "records": 31}
    assert ended.stderr == ""

    # and what they write is where they are, alone, and a terminal tells what takes so long
    place = tmp_path
    terminal, other = pty.openpty()
    words = ("SELECT 1 AS a", "--format", "parquet", "--output", "results")
    assert streamctl(*words, stderr=other).returncode == 0
    assert os.read(terminal, 4096).split(b"\r\n") == [
        b"starting Spark ...",
        b"reading topics ...",
        b"",
    ]
    os.close(terminal)
    os.close(other)
    assert [one.name for one in place.iterdir()] == ["results"]

    # and of a mistake they are told that alone, without what Java says of itself
    mistaken = streamctl("SELEC 1")
    assert mistaken.returncode == 2
    assert mistaken.stderr.startswith("error: [PARSE_SYNTAX_ERROR]")

    # and what makes no sense is said at once, before Java starts
    refused = streamctl("SELECT 1", "--format", "parquet")
    assert refused.returncode == 2
    assert "--output" in refused.stderr


def test_a_database_that_does_not_run_is_said_to(tmp_path: Path) -> None:
    # Given the directory of a broker that was stopped
    with running_broker(tmp_path):
        pass

    # When its topics are asked, then it says what has to run
    ended = subprocess.run(
        (*COMMAND, "sql", "SELECT * FROM orders", "--data", str(tmp_path)),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=START_S,
        check=False,
    )
    assert ended.returncode == 1
    error, fix = ended.stderr.splitlines()
    assert "cannot connect" in error
    assert "as long as its broker does" in fix


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ((sys.executable, "-m", "spark.jobs.sql", "SELECT 1"), "--postgres"),
        ((sys.executable, "-m", "spark.jobs.sql", "SELECT 1", "--limit", f"{2**31}"), "--limit"),
        ((*COMMAND, "sql", "SELECT 1", "--limit", f"{2**31}"), "--limit"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said(command: tuple[str, ...], word: str) -> None:
    # When there is no log, or a number that Spark does not take, then it names the option
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert ended.returncode == 2
    assert word in ended.stderr
