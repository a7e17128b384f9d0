"""How `streamhouse serve` is told what to do, and what it says to mistakes."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from broker.config import InvalidSettings, read_settings
from broker.configs.broker_configs import BrokerConfig
from tests.clients.confluent import Confluent
from tests.support.broker import running_broker
from tests.support.serve_command import serve


def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given the same setting in all three places, and others in fewer
    file = tmp_path / "streamhouse.toml"
    file.write_text('http = "file:1"\nlisten = ["file:1"]\nstore = "file:///file"\n')
    monkeypatch.setenv("STREAMHOUSE_HTTP", "variable:2")
    monkeypatch.setenv("STREAMHOUSE_LISTEN", "variable:2,variable:3")

    # When they are read
    settings, _ = read_settings({"http": "127.0.0.1:3"}, file)

    # Then the nearest one counts
    assert settings.http == "127.0.0.1:3"
    assert settings.listen == ("variable:2", "variable:3")
    assert settings.store_url == "file:///file"


@pytest.mark.parametrize(
    ("file", "variable", "flags"),
    [
        ('[set]\n"num.partitions" = 6\n', "", ["broker.rack=a"]),
        ('[set]\n"num.partitions" = 6\n', "broker.rack=a", []),
        ('[set]\n"num.partitions" = 5\n', "num.partitions=6", ["broker.rack=a"]),
        ('set = "num.partitions=5"\n', "num.partitions=6,broker.rack=b", ["broker.rack=a"]),
    ],
)
def test_broker_settings_of_all_places_count_name_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, variable: str, flags: list[str]
) -> None:
    # Given broker settings in several places
    path = tmp_path / "streamhouse.toml"
    path.write_text(file)
    if variable:
        monkeypatch.setenv("STREAMHOUSE_SET", variable)

    # When they are read, then none hides another, and of one name the nearest counts
    _, config = read_settings({"set": flags} if flags else {}, path)
    assert config.explicit == {"num.partitions": "6", "broker.rack": "a"}


def test_a_mistake_in_a_farther_place_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_SET", "num.partitions")
    with pytest.raises(InvalidSettings, match=r"set: 'num\.partitions': use name=value"):
        read_settings({"set": ["broker.rack=a"]}, None)


async def test_a_files_authorizer_is_in_force_beside_a_flag(tmp_path: Path) -> None:
    # Given a file that lets nobody but admin create topics
    path = tmp_path / "streamhouse.toml"
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    path.write_text(
        f'[set]\n"authorizer.class.name" = "{authorizer}"\n"super.users" = "User:admin"\n'
    )

    # When a broker is started with it and with another broker setting as a flag
    arguments = ("--config", str(path), "--set", "broker.rack=a")
    with running_broker(tmp_path / "data", *arguments) as broker:
        # Then nobody else can
        with pytest.raises(KafkaException) as refused:
            Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_variables_win_over_the_file_in_groups_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups of settings in the file, and a part of them as variables
    path = tmp_path / "streamhouse.toml"
    path.write_text(
        f'[secrets]\nhttp_token = "{"f" * 40}"\nbootstrap_user = "file"\n'
        "[upkeep]\npatience_ms = 1\nsegment_rows = 7\n"
    )
    monkeypatch.setenv("STREAMHOUSE_SECRETS__HTTP_TOKEN", "v" * 40)
    monkeypatch.setenv("STREAMHOUSE_SECRETS__BOOTSTRAP_PASSWORD", "variable")
    monkeypatch.setenv("STREAMHOUSE_UPKEEP__PATIENCE_MS", "2")

    # When they are read, then those count, and beside them what only the file says
    settings, _ = read_settings({}, path)
    assert settings.secrets.http_token == "v" * 40
    assert settings.secrets.bootstrap_user == "file"
    assert settings.upkeep.patience_ms == 2
    assert settings.upkeep.segment_rows == 7


def test_names_in_the_file_count_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "streamhouse.toml"
    path.write_text('HTTP = "127.0.0.1:1"\nStore = "file:///file"\n')
    monkeypatch.setenv("STREAMHOUSE_HTTP", "127.0.0.1:2")
    settings, _ = read_settings({}, path)
    assert (settings.http, settings.store) == ("127.0.0.1:2", "file:///file")


def test_all_mistakes_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_LISTNE", "typo:1")
    flags = {"http": "nowhere", "set": {"num.partitions": "many", "num.partition": "3"}}
    with pytest.raises(InvalidSettings) as mistakes:
        read_settings(flags, None)
    for part in ("STREAMHOUSE_LISTNE", "http: 'nowhere'", "num.partitions", "num.partition"):
        assert part in str(mistakes.value)


KUBERNETES = """\
STREAMHOUSE_SERVICE_HOST=10.0.0.1
STREAMHOUSE_SERVICE_PORT=9092
STREAMHOUSE_SERVICE_PORT_HTTP=9644
STREAMHOUSE_PORT=tcp://10.0.0.1:9092
STREAMHOUSE_PORT_9092_TCP=tcp://10.0.0.1:9092
STREAMHOUSE_PORT_9092_TCP_PROTO=tcp
STREAMHOUSE_PORT_9092_TCP_PORT=9092
STREAMHOUSE_PORT_9092_TCP_ADDR=10.0.0.1
STREAMHOUSE_POSTGRES_SERVICE_HOST=10.0.0.2
STREAMHOUSE_POSTGRES_PORT=udp://10.0.0.2:5432
STREAMHOUSE_POSTGRES_PORT_5432_UDP=udp://10.0.0.2:5432
"""


def test_what_kubernetes_tells_of_services_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a pod beside Services called streamhouse and streamhouse-postgres
    for line in KUBERNETES.splitlines():
        monkeypatch.setenv(*line.split("=", 1))

    # When the settings are read, then those variables are passed over, and mistakes are not
    assert read_settings({}, None)[0].postgres == ""
    monkeypatch.setenv("STREAMHOUSE_PORT", "9092")
    monkeypatch.setenv("STREAMHOUSE_LISTNE", "typo:1")
    with pytest.raises(InvalidSettings) as mistakes:
        read_settings({}, None)
    assert sorted(str(mistakes.value).splitlines()) == [
        "STREAMHOUSE_LISTNE: no such setting",
        "STREAMHOUSE_PORT: no such setting",
    ]


def test_mistakes_are_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_WORKERS", "two")
    monkeypatch.setenv("STREAMHOUSE_UPKEEP__ENABLED", "{maybe}")
    monkeypatch.setenv("STREAMHOUSE_UPKEEP__PATIENC_MS", "0")
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", "127.0.0.1:9092")  # for streamctl
    with pytest.raises(InvalidSettings) as mistakes:
        read_settings({"set": ["{num}"], "colour": "red"}, None)
    assert str(mistakes.value).splitlines() == [
        "workers: use a whole number",
        "set: '{num}': use name=value",
        "upkeep.enabled: use true or false",
        "upkeep.patienc_ms: no such setting",
        "colour: no such setting",
    ]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("writer.flush_bytes", "0", "use 1 or more"),
        ("writer.flush_ms", "-1", "use 0 or more"),
        ("writer.flush_ms", "60001", "use 60000 or less"),
        ("writer.max_uploads", "0", "use 1 or more"),
        ("writer.max_uploads", "65", "use 64 or less"),
        ("cache.tail_bytes", "-1", "use 0 or more"),
        ("cache.block_bytes", "-1", "use 0 or more"),
        ("pool.pool_size", "0", "use 1 or more"),
        ("pool.pool_size", "1001", "use 1000 or less"),
        ("pool.connect_timeout_s", "0", "use 0.1 or more"),
        ("pool.connect_timeout_s", "inf", "use 3600.0 or less"),
        ("pool.command_timeout_s", "0", "use 0.1 or more"),
        ("pool.command_timeout_s", "nan", "use 3600.0 or less"),
        ("upkeep.build_interval_ms", "0", "use 1 or more"),
        ("upkeep.segment_bytes", "0", "use 1 or more"),
        ("upkeep.segment_rows", "0", "use 1 or more"),
        ("upkeep.segment_age_ms", "-1", "use 0 or more"),
        ("upkeep.key_map_bytes", "0", "use 1 or more"),
        ("upkeep.sweep_interval_ms", "0", "use 1 or more"),
        ("upkeep.abandoned_ms", "1799999", "use 1800000 or more"),  # brokers may still use it
        ("upkeep.delete_delay_ms", "-1", "use 0 or more"),
        ("upkeep.delete_delay_ms", "1" + "0" * 20, "use 31536000000 or less"),
        ("upkeep.patience_ms", "-1", "use 0 or more"),
        ("metrics.cluster_interval_ms", "-1", "use 0 or more"),
        ("metrics.cluster_max_partitions", "-1", "use 0 or more"),
        ("metrics.client_max_series", "-1", "use 0 or more"),
        ("metrics.client_max_series_each", "-1", "use 0 or more"),
    ],
)
def test_a_number_that_nothing_works_with_is_refused(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMHOUSE_" + name.replace(".", "__").upper(), value)
    with pytest.raises(InvalidSettings) as mistakes:
        read_settings({}, None)
    assert str(mistakes.value) == f"{name}: {told}"


def test_the_version_is_told() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "broker.main", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert told.stdout == f"streamhouse {version('streamhouse')}\n"


def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_POSTGRES", "postgresql://user:pa55word@host/db")
    settings, _ = read_settings({}, None)
    assert settings.postgres.endswith("pa55word@host/db")
    assert "pa55word" not in repr(settings)


def test_a_wrong_command_line_costs_one_clear_line_each() -> None:
    result = serve("--listen", "9092", "--set", "num.partitons=3", "--store", "s3://b/prefix")
    assert result.returncode == 2
    assert "'b' is no bucket name" in result.stderr
    assert "use HOST:PORT, for example 127.0.0.1:9092" in result.stderr
    assert "num.partitons" in result.stderr
    assert "num.partitions" in result.stderr, "the near match"
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("data", "for ./streamhouse-data"),
        ("store", "for a directory"),
        ("postgres", "for an embedded one"),
    ],
)
def test_an_empty_place_is_refused_and_not_taken_as_none(
    monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    told = f"{name}: empty; leave --{name} out {remedy}"
    result = serve(f"--{name}", "", "--workers", "0")
    assert result.returncode == 2
    assert f"streamhouse: {told}\n" in result.stderr
    monkeypatch.setenv(f"STREAMHOUSE_{name}".upper(), "")
    with pytest.raises(InvalidSettings, match=told):
        read_settings({}, None)


def test_variables_of_the_other_commands_do_not_keep_a_broker_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BOOTSTRAP", "SPARK_MASTER", "REGISTRY_USER_INFO"):
        monkeypatch.setenv(f"STREAMHOUSE_{name}", "x")
    read_settings({}, None)


def test_what_is_no_number_is_told_in_plain_words() -> None:
    result = serve("--workers", "x")
    assert result.returncode == 2
    assert result.stderr == "streamhouse: workers: use a whole number\n"


def read_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> BrokerConfig:
    """Return the broker settings that STREAMHOUSE_SET, if it is not empty, and a file come to."""
    if variable:
        monkeypatch.setenv("STREAMHOUSE_SET", variable)
    path = tmp_path / "streamhouse.toml"
    path.write_text(file)
    return read_settings({}, path)[1]


@pytest.mark.parametrize(
    ("variable", "file"),
    [
        ("num.partitions=3,auto.create.topics.enable=false", ""),
        ("", '[set]\n"num.partitions" = 3\n"auto.create.topics.enable" = false\n'),
        ("", 'set = ["num.partitions=3", "auto.create.topics.enable=false"]\n'),
    ],
)
def test_broker_settings_come_by_variable_and_by_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> None:
    config = read_set(tmp_path, monkeypatch, variable, file)
    assert config.num_partitions == 3
    assert not config.auto_create_topics_enable


@pytest.mark.parametrize(
    ("variable", "file"),
    [
        ("num.partitions=3, log.cleanup.policy=compact,delete", ""),
        ("log.cleanup.policy = compact,delete,num.partitions = 3", ""),
        ("", '[set]\n"num.partitions" = 3\n"log.cleanup.policy" = ["compact", "delete"]\n'),
        ("", 'set = "log.cleanup.policy=compact,delete,num.partitions=3"\n'),
    ],
)
def test_broker_settings_that_are_lists_come_by_variable_and_by_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> None:
    config = read_set(tmp_path, monkeypatch, variable, file)
    assert config.explicit == {"num.partitions": "3", "log.cleanup.policy": "compact,delete"}


def test_a_distinguished_name_is_not_split_at_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    users = "User:CN=a,OU=b,O=c"
    monkeypatch.setenv("STREAMHOUSE_SET", f"super.users={users},num.partitions=3")
    _, config = read_settings({}, None)
    assert config.explicit == {"super.users": users, "num.partitions": "3"}


def test_addresses_of_a_variable_may_have_blanks_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAMHOUSE_LISTEN", "127.0.0.1:1, 127.0.0.1:2")
    settings, _ = read_settings({}, None)
    assert settings.listen == ("127.0.0.1:1", "127.0.0.1:2")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"[set]\nnum.partitions = 6\nlog.retention.ms = 1\n",
            'set: quote names with dots: "num.partitions" = …, "log.retention.ms" = …',
        ),
        (b"set = 6\n", "set: use name=value"),
        ("data = 'é'\n".encode("latin-1"), "FILE: save it as UTF-8"),
        (b"listen = [\n", "FILE: Invalid value"),
    ],
)
def test_mistakes_in_the_file_say_what_to_write(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "streamhouse.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidSettings) as mistake:
        read_settings({}, path)
    assert told in str(mistake.value).replace(f"--config {path}", "FILE")


def test_help_tells_the_defaults() -> None:
    told = serve("--help", COLUMNS="200").stdout
    for default in (
        "127.0.0.1:9092",
        "127.0.0.1:9644",
        "./streamhouse-data",
        "an embedded one in DATA/postgres",
        "file://DATA/objects",
        "1",
    ):
        assert f"Default: {default}." in told
    assert serve("-h", COLUMNS="200").stdout == told
