"""Words of a command line that have secrets are hidden, and others stay readable."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from broker.process_title import hide_secrets as hide_of_streamhouse
from streamctl.process_title import hide_secrets as hide_of_streamctl
from tests.support.postgres_tls import PASSWORD
from tests.support.secrets import leaks

PATIENCE_S: Final = 30.0
WRONG_PASSWORD: Final = "wrong-password-2e61"
DSN_OF_NOBODY: Final = f"postgresql://u:{WRONG_PASSWORD}@ADDRESS/d"
STREAMCTL: Final = Path(sys.executable).with_name("streamctl")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-X", f"sasl.password={WRONG_PASSWORD}", "topic", "list"],
        ["topic", "list", f"-Xsasl.password={WRONG_PASSWORD}"],
        ["fsck", "--store", "file://STORE", f"--postgres={DSN_OF_NOBODY}"],
    ],
)
def test_streamctl_hides_what_it_is_given(arguments: Sequence[str], tmp_path: Path) -> None:
    # Given a server that never answers, so that the command has to wait
    def filled(word: str) -> str:
        return word.replace("ADDRESS", address).replace("STORE", str(tmp_path))

    with (
        silent_server() as address,
        subprocess.Popen(
            [STREAMCTL, *map(filled, arguments)],
            env=os.environ | {"STREAMHOUSE_BOOTSTRAP": address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        # Then its command line is a readable one without the secret after a moment
        deadline = time.monotonic() + PATIENCE_S
        line = ""
        while not line.startswith("streamctl "):
            assert process.poll() is None
            assert time.monotonic() < deadline
            line = " ".join(psutil.Process(process.pid).cmdline())
        assert "***" in line
        assert leaks(line, {"a wrong password": WRONG_PASSWORD}) == []
        process.kill()


@contextmanager
def silent_server() -> Iterator[str]:
    """Accept connections and say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


WORDS: Final[Mapping[str, str]] = {
    "--listen": "--listen",
    "0.0.0.0:9092": "0.0.0.0:9092",
    "--postgres": "--postgres",
    "postgresql://db/streamhouse": "postgresql://db/streamhouse",
    "postgresql://u:hunter2@db/d": "***",
    "postgresql://u@db/d": "postgresql://u@db/d",
    "postgres://u@/d?host=/run/postgres": "postgres://u@/d?host=/run/postgres",
    "--postgres=postgresql://u@/d?host=/run": "--postgres=postgresql://u@/d?host=/run",
    "postgresql://u%3Ahunter2@db/d": "***",
    "postgresql://u@hunter2@db/d": "***",
    "postgresql://u@db/d?password=hunter2": "***",
    "https://hunter2@registry": "***",
    "postgresql://u:hun%40ter2@db/d": "***",
    "postgresql://u:hunter2%40db": "***",
    "postgresql://db/d?password=hunter2": "***",
    "postgresql://db/d?pass%77ord=hunter2": "***",
    "--postgres=postgresql://u:hunter2@db/d": "--postgres=***",
    "host=db password=hunter2": "host=***",
    "s3://key:hunter2@bucket": "***",
    "s3://bucket?endpoint=http%3A%2F%2Fkey%3Ahunter2%40host": "***",
    "s3://bucket/prefix?region=eu-west-1": "s3://bucket/prefix?region=eu-west-1",
    "num.partitions=6": "num.partitions=6",
    "ssl.key.password=hunter2": "ssl.key.password=***",
    "SSL.KEY.PASSWORD=hunter2": "SSL.KEY.PASSWORD=***",
    "ssl.keystore.key=hunter2": "ssl.keystore.key=***",
    "ssl.keystore.location=/etc/key.pem": "ssl.keystore.location=/etc/key.pem",
    "--data=/srv/secrets": "--data=/srv/secrets",
    "./token-service/data": "./token-service/data",
    "/etc/passwd": "/etc/passwd",
    "file:///srv/credentials": "file:///srv/credentials",
    "ssl.key.password=/hunter2": "ssl.key.password=***",
    "/etc/passwd?password=hunter2": "***",
    "--password=/hunter2": "--password=***",
    "password:/hunter2": "***",
    "--set=ssl.key.password=hunter2": "--set=***",
    "confluent.schema.registry.url=http://u:hunter2@r": "confluent.schema.registry.url=***",
    "sasl.jaas.config=hunter2": "sasl.jaas.config=***",
    "sasl.password=hunter2": "sasl.password=***",
    "-Xsasl.password=hunter2": "-Xsasl.password=***",
    "sasl.oauthbearer.client.secret=hunter2": "sasl.oauthbearer.client.secret=***",
    "sasl.oauthbearer.config=hunter2": "sasl.oauthbearer.config=***",
    "sasl.username=alice": "sasl.username=alice",
    "basic.auth.user.info=u:hunter2": "basic.auth.user.info=***",
}


@pytest.mark.parametrize("hide", [hide_of_streamhouse, hide_of_streamctl])
def test_both_commands_hide_the_same(hide: Any) -> None:
    assert dict(zip(WORDS, hide(list(WORDS)), strict=True)) == WORDS
    assert hide(["--password", "hunter2", "x"]) == ["--password", "***", "x"]
    assert hide(["--password-file", "hunter2", "x"]) == ["--password-file", "***", "x"]


@pytest.mark.parametrize("module", ["broker", "streamctl"])
def test_a_path_that_is_no_utf_8_does_not_keep_a_secret_shown(module: str) -> None:
    code = (
        f"from {module}.process_title import hide_command_line; hide_command_line();"
        "print(open('/proc/self/cmdline').read())"
    )
    words: list[str | bytes] = [
        "--data",
        b"/tmp/caf\xe9",
        "--postgres",
        f"postgresql://u:{PASSWORD}@db/d",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "--postgres ***" in ended.stdout
    assert PASSWORD not in ended.stdout
