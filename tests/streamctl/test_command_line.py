"""The command line as a whole: the cluster, help, errors that help, exit codes."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import psutil
import pytest

from streamctl.requests import REQUEST_TIMEOUT_S
from tests.streamctl.conftest import COMMAND, FINISH_S, REPOSITORY, Streamctl, wait_until
from tests.streamctl.forks import Ended
from tests.support.broker import running_broker

NOBODY = "127.0.0.1:1"
NOT_UTF8 = os.fsdecode(b"\xff")
COMMANDS = (
    ("topic", "create"),
    ("topic", "list"),
    ("topic", "describe"),
    ("topic", "alter"),
    ("topic", "delete"),
    ("produce",),
    ("consume",),
    ("group", "list"),
    ("group", "describe"),
    ("group", "reset"),
    ("group", "delete"),
    ("cluster", "describe"),
)


def test_the_cluster_is_described(streamctl: Streamctl) -> None:
    cluster = json.loads(streamctl.well("cluster", "describe", "--format", "json").text)
    shown = streamctl.well("cluster", "describe")
    assert cluster["cluster_id"]
    assert cluster["cluster_id"] in shown.text
    addresses = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
    assert streamctl.bootstrap in addresses
    assert all(address in shown.text for address in addresses)
    assert cluster["controller"] in [broker["node_id"] for broker in cluster["brokers"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_examples(
    run_here: Callable[..., Ended], command: tuple[str, ...]
) -> None:
    shown = run_here(*command, "--help")
    assert shown.exit_code == 0
    assert f"streamctl {' '.join(command)} " in shown.text.partition("Examples")[2]
    assert "--bootstrap" in shown.text


@pytest.mark.parametrize(
    "command", [("fsck",), ("reconcile",), ("snapshot", "list"), ("sql", "SELECT 1")]
)
def test_an_empty_directory_is_refused_and_not_taken_as_this_one(
    run_here: Callable[..., Ended], command: tuple[str, ...]
) -> None:
    refused = run_here(*command, "--data", "")
    assert refused.exit_code == 2
    assert "--data is empty" in refused.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("--bootstrap", "", "topic", "list"), "--bootstrap is empty"),
        (("topic", "list", "--bootstrap", " "), "--bootstrap is empty"),
        (("config", "alter", "broker", "", "--unset", "log.retention.ms"), "NAME is empty"),
        (("config", "describe", "broker", ""), "NAME is empty"),
        (("consume", "--topic", "t", "--offset", ""), "--offset is empty"),
        (("fsck", "--store", ""), "--store is empty"),
        (("snapshot", "list", "--postgres", ""), "--postgres is empty"),
        (
            ("acl", "add", "--user", "a", "--operation", "all", "--cluster", "--host", ""),
            "--host is empty",
        ),
    ],
)
def test_what_a_variable_is_that_was_not_set_does_not_mean_all(
    run_here: Callable[..., Ended], command: tuple[str, ...], said: str
) -> None:
    refused = run_here(*command)
    assert refused.exit_code == 2
    assert said in refused.err


def test_an_absent_broker_is_told_within_seconds_with_what_to_do() -> None:
    started = time.monotonic()
    lost = Streamctl(bootstrap=NOBODY)("topic", "list")
    assert time.monotonic() - started < REQUEST_TIMEOUT_S  # the next longer wait
    assert lost.exit_code == 1
    assert lost.text == ""
    error, fix = lost.err.splitlines()
    assert error.startswith(f"error: no broker answered at {NOBODY} within 5 s")
    assert "Connection refused" in error
    assert "make run" in fix


def test_a_port_for_http_is_told_apart() -> None:
    # Given a server that answers what it does not understand as HTTP's do
    class Refuses(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Refuses) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()

        # When it is taken for a broker
        address = f"127.0.0.1:{server.server_address[1]}"
        lost = Streamctl(bootstrap=address)("topic", "list")
        server.shutdown()
        thread.join()

    # Then it is said what it is, and where to look for the right address
    assert lost.exit_code == 1
    assert f"error: {address} speaks HTTP" in lost.err
    assert "bootstrap=" in lost.err


def test_a_database_that_does_not_answer_is_told_with_the_options_that_name_it(
    tmp_path: Path,
) -> None:
    # Given a store, and a database where nobody listens
    with running_broker(tmp_path):
        pass

    # When the store is checked, then it is said where to look
    checked = Streamctl(bootstrap="")(
        *("fsck", "--store", f"file://{tmp_path / 'objects'}"),
        *("--postgres", f"postgresql://u@{NOBODY}/d"),
    )
    assert checked.exit_code == 1
    error, fix = checked.err.splitlines()
    assert "cannot connect" in error
    assert "--postgres" in fix


def test_ctrl_c_at_a_question_deletes_nothing(streamctl: Streamctl, topic: str) -> None:
    # Given a question on a terminal
    terminal, other = pty.openpty()
    asked = subprocess.Popen(
        (*COMMAND, "--bootstrap", streamctl.bootstrap, "topic", "delete", topic),
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=REPOSITORY,
    )
    said = b""
    while b"[y/N]" not in said:
        said += os.read(terminal, 1024)

    # When it is interrupted, then that is its end (a shell's 130), and the topic is still there
    asked.send_signal(signal.SIGINT)
    assert asked.wait(FINISH_S) == -signal.SIGINT
    os.close(terminal)
    os.close(other)
    assert topic in streamctl.well("topic", "list").text


def test_ctrl_c_at_the_question_of_reconcile_deletes_nothing(tmp_path: Path) -> None:
    # Given an object without a row that is old enough to go, and the question about it
    with running_broker(tmp_path) as broker:
        streamctl = Streamctl(bootstrap=broker.bootstrap)
        streamctl.well("topic", "create", "t", "--partitions", "1")
        streamctl.well("produce", "--topic", "t", "--message", "x")
    stored = next(path for path in (tmp_path / "objects" / "wal").rglob("*") if path.is_file())
    orphan = stored.with_name(f"none-{stored.name}")
    orphan.write_bytes(stored.read_bytes())
    hours_ago = time.time() - 9 * 3600
    os.utime(orphan, (hours_ago, hours_ago))
    terminal, other = pty.openpty()
    asked = subprocess.Popen(
        (*COMMAND, "reconcile", "--data", str(tmp_path)),
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=REPOSITORY,
    )
    said = b""
    while b"[y/N]" not in said:
        said += os.read(terminal, 1024)
    _wait_until_asleep(asked.pid)  # just before it reads, a signal waits for the answer

    # When it is interrupted, then that is its end, without its Postgres, and the object is there
    asked.send_signal(signal.SIGINT)
    assert asked.wait(FINISH_S) == 130
    os.close(terminal)
    os.close(other)
    assert orphan.exists()
    assert not list(tmp_path.rglob("postmaster.pid"))


def _wait_until_asleep(pid: int) -> None:
    """Wait until a process has slept for a second: nothing else shows that it reads a terminal."""
    process = psutil.Process(pid)

    def sleeps_on() -> bool:
        switches = process.num_ctx_switches()
        time.sleep(1)
        asleep = process.status() == psutil.STATUS_SLEEPING
        return asleep and process.num_ctx_switches() == switches

    wait_until(sleeps_on, "a process that waits")


def test_ctrl_c_while_modules_are_imported_is_quiet() -> None:
    # Given a process that is interrupted at one of its imports
    begin = """
import signal, sys
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "streamctl.commands":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
"""
    code = (*COMMAND[:-1], begin + COMMAND[-1])
    ended = subprocess.run(code, capture_output=True, check=False, cwd=REPOSITORY)

    # Then that is its end, without a traceback
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == b""


def test_ctrl_c_while_waiting_for_a_broker_is_quiet() -> None:
    waiting = Streamctl(bootstrap=NOBODY).start("-X", "debug=broker", "topic", "list")
    waiting.wait_for_note("Connection refused")
    ended = waiting.interrupt()
    assert ended.exit_code == 130
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        ("| head -n 1 >&2", 0, ""),
        (">/dev/full", 1, "error: cannot write to standard output: No space left on device"),
        (">&-", 1, "error: standard output is closed"),
    ],
)
@pytest.mark.parametrize("listing", [(), ("--format", "json")])
def test_output_that_nobody_takes_is_told_in_plain_words(
    streamctl: Streamctl, topic: str, redirected: str, code: int, said: str, listing: tuple[str]
) -> None:
    arguments = ("--bootstrap", streamctl.bootstrap, "topic", "describe", topic, *listing)
    line = f'{shlex.join((*COMMAND, *arguments))} {redirected}; echo "code ${{PIPESTATUS[0]}}"'
    ended = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert ended.stdout.splitlines()[-1] == f"code {code}"
    assert said in ended.stderr
    for unwanted in ("Traceback", "Exception ignored", "Errno"):
        assert unwanted not in ended.stderr


def test_notes_that_nobody_takes_end_no_change(streamctl: Streamctl, topic: str) -> None:
    names = (topic, f"{topic}-new")
    arguments = ("--bootstrap", streamctl.bootstrap, "topic", "create", *names, "--if-not-exists")
    line = f"{shlex.join((*COMMAND, *arguments))} 2>&1 | head -c 0; exit ${{PIPESTATUS[0]}}"
    subprocess.run(["bash", "-c", line], check=True, cwd=REPOSITORY)
    streamctl.well("topic", "delete", names[1], "--yes")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("produce", "--topic", "TOPIC"), 1, "error: standard input is closed"),
        (("topic", "delete", "TOPIC"), 2, "error: deleting needs a yes"),
        (("user", "set-password", "alice"), 2, "fix: use --password-file -"),
        (
            ("user", "set-password", "alice", "--password-file", "-"),
            1,
            "error: standard input is closed",
        ),
    ],
)
def test_input_that_is_closed_is_told_in_plain_words(
    streamctl: Streamctl, topic: str, command: tuple[str, ...], code: int, said: str
) -> None:
    words = (topic if word == "TOPIC" else word for word in command)
    arguments = ("--bootstrap", streamctl.bootstrap, *words)
    line = f"{shlex.join((*COMMAND, *arguments))} <&-"
    ended = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert ended.returncode == code
    assert said in ended.stderr


def test_options_about_the_connection_stand_before_or_after(
    streamctl: Streamctl, tmp_path: Path
) -> None:
    elsewhere = Streamctl(bootstrap=NOBODY)
    elsewhere.well("--bootstrap", streamctl.bootstrap, "topic", "list")
    elsewhere.well("topic", "list", "--bootstrap", streamctl.bootstrap)
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers = {streamctl.bootstrap}\nclient.id: test\n")
    elsewhere.well("--config", str(config), "topic", "list")
    config.write_text(f"bootstrap.servers = {NOBODY}\n")
    elsewhere.well("--bootstrap", streamctl.bootstrap, "topic", "list", "--config", str(config))


def test_properties_reach_librdkafka_and_mistakes_are_named(streamctl: Streamctl) -> None:
    unknown = streamctl("-X", "no.such.thing=1", "topic", "list")
    assert unknown.exit_code == 2
    assert "no.such.thing" in unknown.err
    java = streamctl("-X", "sasl.jaas.config=x", "topic", "list")
    assert "use sasl.username and sasl.password" in java.err
    tls = streamctl("-X", "security.protocol=SSL", "topic", "list")
    assert tls.exit_code == 1
    assert "check security.protocol" in tls.err


def test_an_address_that_is_none_is_a_usage_error(streamctl: Streamctl, topic: str) -> None:
    wrong = streamctl("topic", "describe", topic, "--http", "nowhere")
    assert wrong.exit_code == 2
    assert "HOST:PORT" in wrong.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("quota", "list", "--bootstrap", "a..b:9092"),
        ("cost", "--http", "a..b:1"),
        ("cost", "--http", f"{'x' * 64}.example:1"),
    ],
)
def test_a_host_that_no_name_server_could_know_is_one_that_does_not_answer(
    run_here: Callable[..., Ended], arguments: tuple[str, ...]
) -> None:
    lost = run_here(*arguments)
    assert lost.exit_code == 1
    assert "no broker answered at" in lost.err
    assert "fix: " in lost.err


@pytest.mark.parametrize("command", [("topic", "list"), ("quota", "list")])
@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:1,[::1]:65536"])
def test_a_port_that_cannot_be_is_a_usage_error(
    run_here: Callable[..., Ended], command: tuple[str, ...], address: str
) -> None:
    wrong = run_here("--bootstrap", address, *command)
    assert wrong.exit_code == 2
    assert address.rpartition(",")[2] in wrong.err
    assert "65535" in wrong.err


def test_an_address_may_begin_with_a_protocol_as_brokers_write_it(streamctl: Streamctl) -> None:
    address = f"PLAINTEXT://{streamctl.bootstrap}"
    streamctl.well("topic", "list", "--bootstrap", address)
    streamctl.well("quota", "list", "--bootstrap", address)
    other = streamctl("quota", "list", "--bootstrap", f"SSL://{streamctl.bootstrap}")
    assert other.exit_code == 2
    assert "-X security.protocol=SSL" in other.err


@pytest.mark.parametrize("arguments", [("sql", "SELECT 1"), ("pipeline", "warehouse")])
def test_spark_that_is_missing_is_not_fetched_by_a_name_that_others_have(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    # Given an environment without pyspark
    monkeypatch.setitem(sys.modules, "pyspark", None)

    # When it is needed, then it is said what installs it
    missing = run_here(*arguments)
    assert missing.exit_code == 1
    assert "fix: make spark" in missing.err
    for said in (missing.err, run_here("sql", "--help").text, run_here("pipeline").text):
        assert "pip install" not in said
        assert "streamhouse[" not in said


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_output_that_cannot_have_every_letter_is_no_failure(
    streamctl: Streamctl, topic_name: str, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    # Given an output that has no check marks
    monkeypatch.setenv("PYTHONIOENCODING", encoding)

    # When something is done, then that is told
    creates = ("topic", "create", topic_name, "--set", "retention.ms=1000")
    created = streamctl.start(*creates).finish()
    assert created.exit_code == 0, created.err
    assert f"created topic {topic_name}" in created.text

    # And what programs read is whole
    streamctl.well("quota", "set", "--user", "☃", "--produce-rate", "1MB")
    listed = json.loads(streamctl.start("quota", "list", "--format", "json").finish().text)
    streamctl.well("quota", "delete", "--user", "☃")
    assert {"user": "☃"} in [one["entity"] for one in listed]


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "list"),
        ("topic", "describe", "TOPIC"),
        ("group", "list"),
        ("cluster", "describe"),
        ("config", "describe", "topic", "TOPIC", "--all"),
        ("user", "list"),
        ("consume", "--topic", "TOPIC", "--from-beginning", "--exit-at-end"),
    ],
)
def test_json_has_a_short_name_wherever_there_is_a_format(
    streamctl: Streamctl, topic: str, command: tuple[str, ...]
) -> None:
    streamctl.well("produce", "--topic", topic, "--message", "m")
    words = [topic if word == "TOPIC" else word for word in command]
    short = streamctl.well(*words, "--json")
    assert short.text == streamctl.well(*words, "--format", "json").text
    assert json.loads(short.text) is not None


def test_the_version_is_told() -> None:
    assert Streamctl(bootstrap=NOBODY).well("--version").text.startswith("streamctl 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("consume", "--topic", "t", "--format", "xml"), "'xml' is not one of 'text', 'json'"),
        (("consume", "--topic", "t", "--limit", "ten"), "'ten' is no whole number"),
        (("sql", "SELECT 1", "--limit", "0"), "'0' should be greater than or equal to 1"),
        (("config", "describe", "table"), "'table' is not one of"),
        (("consume", "--topic", ""), "cannot be a topic's name"),
        (("topic", "describe", ""), "cannot be a topic's name"),
        (("topic", "delete", "a b", "--yes"), "use letters, digits"),
    ],
)
def test_a_value_that_cannot_be_is_told_in_plain_words(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], said: str
) -> None:
    wrong = run_here(*arguments)
    assert wrong.exit_code == 2
    words = " ".join(wrong.err.replace("│", " ").split())
    assert said in words
    assert "Value error" not in words
    assert "Input" not in words


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe", NOT_UTF8),
        ("produce", "--topic", NOT_UTF8, "--message", "m"),
        ("produce", "--topic", "t", "--message", "m", "--header", f"{NOT_UTF8}=value"),
        ("group", "describe", NOT_UTF8),
        ("user", "set-password", NOT_UTF8),
        ("acl", "add", "--user", NOT_UTF8, "--operation", "read", "--topic", "t"),
        ("quota", "set", "--user", NOT_UTF8, "--produce-rate", "1MB"),
        ("config", "describe", "group", NOT_UTF8),
        ("--bootstrap", NOT_UTF8, "topic", "list"),
        ("topic", "list", "-X", f"client.id={NOT_UTF8}"),
    ],
)
def test_a_name_that_is_not_utf_8_is_refused(
    run_here: Callable[..., Ended], arguments: tuple[str, ...]
) -> None:
    wrong = run_here(*arguments)
    assert wrong.exit_code == 2
    assert "\\xff" in wrong.err
    assert "is not UTF-8 text" in wrong.err


def test_a_secret_that_is_not_utf_8_is_not_shown(run_here: Callable[..., Ended]) -> None:
    wrong = run_here("topic", "list", "-X", f"sasl.password=hunter2{NOT_UTF8}")
    assert wrong.exit_code == 2
    assert "is not UTF-8 text" in wrong.err
    assert "hunter2" not in wrong.err
