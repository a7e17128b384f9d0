"""`streamctl pipeline`: it lists jobs, starts one, and says what is missing."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from streamctl import pipeline_commands
from streamctl.connection import DEFAULT_BOOTSTRAP
from streamctl.main import main

REPOSITORY = Path(__file__).parents[2]


def streamctl(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from streamctl.main import main; main()", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        timeout=240,
        check=False,
    )


def test_it_lists_jobs_with_what_they_do() -> None:
    listed = streamctl("pipeline")

    assert listed.returncode == 0
    does = dict(line.strip().split(maxsplit=1) for line in listed.stdout.splitlines())
    assert does["warehouse"] == "Load topics into a table"
    assert {"replay", "deadletter"} <= does.keys()
    assert "options" not in does  # what jobs share is none


def test_a_name_that_is_none() -> None:
    ended = streamctl("pipeline", "warehuose")

    assert ended.returncode == 2
    assert "there is no pipeline 'warehuose'" in ended.stderr
    assert "warehouse" in ended.stderr


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    no_java = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    ended = streamctl("pipeline", "warehouse", "--help", environment=no_java)

    assert ended.returncode == 1
    assert "openjdk-17-jre-headless" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "--partition-by"),
        ([], "Usage: streamctl pipeline warehouse "),
        (["--output", "o"], "--topic"),
        (["--topic", "t", "--output", "o", "-X", "sasl.jaas.config=x"], "--config file"),
        (["--topic", "t", "--output", "o", "-X", "nonsense"], "name=value"),
    ],
)
def test_a_job_gets_its_arguments(arguments: list[str], said: str) -> None:
    ended = streamctl("pipeline", "warehouse", *arguments)

    assert said in ended.stdout + ended.stderr
    assert "python -m" not in ended.stdout + ended.stderr
    assert ended.returncode == (0 if arguments == ["--help"] else 2)


@pytest.mark.parametrize("named", [[], ["--bootstrap", DEFAULT_BOOTSTRAP]])
def test_brokers_named_before_a_job_count_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    # Given other brokers in the environment
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", "production:9092")
    become_job = Mock()
    monkeypatch.setattr(pipeline_commands, "become_job", become_job)

    # When a job is started
    monkeypatch.setattr(sys, "argv", ["streamctl", *named, "pipeline", "warehouse"])
    with pytest.raises(SystemExit):
        main()

    # Then it is told those that were named
    _, _, environment = become_job.call_args.args
    assert environment == ({"STREAMHOUSE_BOOTSTRAP": DEFAULT_BOOTSTRAP} if named else {})
