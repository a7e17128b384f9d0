"""deploy/ without a container engine: its files, flags, ports and addresses fit together."""

import asyncio
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import typer.main
import yaml  # type: ignore[import-untyped]

from broker.config import Settings, read_settings
from broker.network.addresses import parse_address
from broker.serve_command import app
from storage.config import S3Config
from storage.objects.open_store import open_store, parse_store_url
from tests.deploy.dockerfile import (
    DEPLOY,
    ROOT,
    copied_sources,
    image_command,
    image_environment,
    in_image,
    instructions,
    packages,
    project,
)
from tests.support.broker import BrokerProcess
from tests.support.s3_runners import VERSITYGW_IMAGE
from tests.support.s3_server import REGION, S3Server

COMPOSE: Final[dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]
BROKERS: Final = ("b1", "b2", "b3")
TOKEN_VARIABLE: Final = "STREAMHOUSE_SECRETS__HTTP_TOKEN"
TOKEN: Final = "0123456789abcdef" * 4

ReadSettings = Callable[[Sequence[str], Mapping[str, str]], Settings]


@pytest.fixture(name="settings_of")
def settings_of_fixture(monkeypatch: pytest.MonkeyPatch) -> ReadSettings:
    """Read arguments and variables as `streamhouse` itself does; what it does not know, fails."""

    def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
        for name in [name for name in os.environ if name.startswith("STREAMHOUSE_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        commands: Any = typer.main.get_command(app)
        command, *flags = arguments
        given = commands.commands[command].make_context(command, flags).params
        assert not given.pop("settings")
        assert not given.pop("config")
        return read_settings({name: value for name, value in given.items() if value}, None)[0]

    return read


@pytest.fixture
def broker_settings(settings_of: ReadSettings) -> dict[str, Settings]:
    """Return the settings of each broker of compose.yaml, on top of the image's."""
    services = {name: SERVICES[name] for name in BROKERS}
    return {
        name: settings_of(service["command"], image_environment() | interpolated(service))
        for name, service in services.items()
    }


def interpolated(service: Mapping[str, Any]) -> dict[str, str]:
    """Return a service's variables as compose sets them: what only the user knows is filled in."""
    variables: dict[str, str] = service["environment"]
    required = re.compile(rf"\$\{{{TOKEN_VARIABLE}:\?[^}}]+}}")
    return {name: required.sub(TOKEN, value) for name, value in variables.items()}


def published(service: Mapping[str, Any]) -> dict[int, int]:
    """Return the host's port for each published port of a service; all are on loopback only."""
    ports = {}
    for text in service["ports"]:
        host, outside, inside = text.split(":")
        assert host == "127.0.0.1"
        ports[int(inside)] = int(outside)
    return ports


def test_the_image_is_built_from_what_the_wheel_needs() -> None:
    needed = {"pyproject.toml", "uv.lock", "README.md", *packages()}
    assert set(copied_sources()) == needed
    assert all((ROOT / source).exists() for source in needed)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == needed
    for one in instructions():  # directories are copied under their own names
        words = one.value.split()
        if one.name == "COPY" and words[0] in packages():
            assert words[1:] == [f"./{words[0]}"]


def test_the_image_installs_what_is_locked_with_the_uv_of_make() -> None:
    steps = " ".join(one.value for one in instructions() if one.name == "RUN")
    pinned = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert pinned is not None
    assert f"uv=={pinned[1]}" in steps
    syncs = re.findall(r"uv sync [^&;]*", steps)
    assert syncs
    assert all("--locked --no-dev --no-editable" in sync for sync in syncs)
    bases = {one.value.split()[0] for one in instructions() if one.name == "FROM"}
    assert bases == {"python:3.11-slim"}
    assert project()["project"]["requires-python"] == ">=3.11"


def test_the_image_serves_where_its_ports_are(settings_of: ReadSettings) -> None:
    (entrypoint,) = (json.loads(value) for value in in_image("ENTRYPOINT"))
    assert set(entrypoint) <= set(project()["project"]["scripts"])
    settings = settings_of(image_command(), image_environment())
    (kafka,) = (parse_address(text, listener=True) for text in settings.listen)
    http = parse_address(settings.http, listener=False)
    assert kafka.host == "0.0.0.0"
    assert http.host == "127.0.0.1"  # nobody else is asked for a token there
    assert in_image("EXPOSE") == [f"{kafka.port} {http.port}"]
    assert in_image("WORKDIR") == [str(settings.data)]
    assert in_image("USER") == ["10001"]
    assert any(f"--uid 10001 --home-dir {settings.data}" in step for step in in_image("RUN"))


def test_the_health_check_tells_ready_from_not(broker: BrokerProcess) -> None:
    class Unready(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    (check,) = in_image("HEALTHCHECK")
    program, *arguments = json.loads(check[check.index("[") :])
    assert program == "python"
    assert "9644" in arguments[-1]

    def healthy(port: int) -> bool:
        words = [word.replace("9644", str(port)) for word in arguments]
        ended = subprocess.run([sys.executable, *words], check=False, capture_output=True)
        return ended.returncode == 0

    assert healthy(parse_address(broker.http, listener=False).port)
    with http.server.HTTPServer(("127.0.0.1", 0), Unready) as unready:
        threading.Thread(target=unready.serve_forever, daemon=True).start()
        assert not healthy(unready.server_port)
        unready.shutdown()
    assert not healthy(unready.server_port)  # nobody listens there any more


def test_brokers_are_reached_where_they_say(broker_settings: dict[str, Settings]) -> None:
    outside = [port for name in ("postgres", "s3") for port in published(SERVICES[name]).values()]
    for name, settings in broker_settings.items():
        ports = published(SERVICES[name])
        (listens,), (advertised,) = settings.listen, settings.advertise
        kafka = parse_address(listens, listener=True).port
        metrics = parse_address(settings.http, listener=False).port
        assert advertised == f"127.0.0.1:{ports[kafka]}"
        assert ports.keys() == {kafka, metrics}
        outside += ports.values()
    assert len(set(outside)) == len(outside)


def test_brokers_share_the_stores_that_compose_runs(broker_settings: dict[str, Settings]) -> None:
    (dsn,) = {settings.postgres for settings in broker_settings.values()}
    (store,) = {settings.store_url for settings in broker_settings.values()}
    postgres, s3, bucket = SERVICES["postgres"], SERVICES["s3"], SERVICES["bucket"]

    database, given = urlsplit(dsn), postgres["environment"]
    assert (database.hostname, database.port) == ("postgres", *published(postgres))
    assert database.username == given["POSTGRES_USER"]
    assert database.password == given["POSTGRES_PASSWORD"]
    assert database.path == f"/{given['POSTGRES_DB']}"

    place = parse_store_url(store)
    assert isinstance(place, S3Config)
    assert place.endpoint == f"http://s3:{next(iter(published(s3)))}"
    assert f":{urlsplit(place.endpoint).port}" in s3["command"]
    assert bucket["command"] == [place.endpoint, place.region, place.bucket]
    for name in ("bucket", *BROKERS):
        environment = SERVICES[name]["environment"]
        assert environment["AWS_ACCESS_KEY_ID"] == s3["environment"]["ROOT_ACCESS_KEY"]
        assert environment["AWS_SECRET_ACCESS_KEY"] == s3["environment"]["ROOT_SECRET_KEY"]


def test_the_s3_server_is_the_one_that_the_tests_run_on() -> None:
    assert SERVICES["s3"]["image"] == VERSITYGW_IMAGE


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_is_there(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        context = DEPLOY / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    else:
        assert re.search(r":v?\d+(\.\d+)*$", service["image"]), "pin a version"
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        mounted = (DEPLOY / source).is_file() if source[0] == "." else source in COMPOSE["volumes"]
        assert mounted, source
    for other, wait in service.get("depends_on", {}).items():
        if wait["condition"] == "service_healthy":
            assert "test" in SERVICES[other]["healthcheck"]
        else:
            assert wait["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "on-failure"


def test_prometheus_scrapes_every_broker(broker_settings: dict[str, Settings]) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (targets,) = job["static_configs"]
    ports = {
        name: parse_address(settings.http, listener=False).port
        for name, settings in broker_settings.items()
    }
    assert targets["targets"] == [f"{name}:{port}" for name, port in ports.items()]


def test_prometheus_brings_the_token_that_the_brokers_ask_for(
    broker_settings: dict[str, Settings],
) -> None:
    assert {settings.secrets.http_token for settings in broker_settings.values()} == {TOKEN}
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (secret,) = SERVICES["prometheus"]["secrets"]
    assert COMPOSE["secrets"][secret] == {"environment": TOKEN_VARIABLE}
    assert job["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}


def test_compose_does_not_start_without_a_token() -> None:
    for name in BROKERS:
        environment = SERVICES[name]["environment"]
        token = environment["STREAMHOUSE_SECRETS__HTTP_TOKEN"]
        assert token.startswith(f"${{{TOKEN_VARIABLE}:?")


def test_the_bucket_service_creates_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write_and_read(store_url: str) -> bytes:
        store = await open_store(store_url)
        await store.put("object", [b"bytes"])
        read = bytes(await store.get("object", 0, 5))
        await store.close()
        return read

    program = DEPLOY / Path(SERVICES["bucket"]["entrypoint"][-1]).name
    with S3Server.start(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        for _ in range(2):  # `compose up` may run it again
            command = [sys.executable, str(program), server.endpoint, REGION, "records"]
            subprocess.run(command, check=True)
        assert asyncio.run(write_and_read(server.store_url("records"))) == b"bytes"
