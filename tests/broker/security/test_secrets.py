"""No secret of a broker shows anywhere: it is used well and badly, and then all is searched."""

import asyncio
import base64
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.support.broker import BrokerProcess, start_broker
from tests.support.certificates import make_authority
from tests.support.ports import free_ports
from tests.support.postgres_tls import PASSWORD, TlsPostgres, tls_postgres
from tests.support.secrets import check_log, command_lines, family, leaks

PATIENCE_S: Final = 30.0
SECRETS: Final = {
    "the database's password": PASSWORD,
    "the private key's password": "key-password-8d1f",
    "the first user's password": "bootstrap-password-77aa",
    "the token of the HTTP port": "token-" + "0123456789abcdef" * 2,
    "the registry's password": "registry-password-51c3",
    "the object store's secret key": "object-store-secret-e09b",
    "a wrong password": "wrong-password-2e61",
    "a wrong token": "wrong-token-9f3c-0123456789abcdef",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A running broker of two workers with an upkeep process, and all that it was told."""

    broker: BrokerProcess
    postgres: TlsPostgres
    plain: str
    tls: str
    authority: Path


@pytest.fixture(scope="module", name="place")
def running_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("secrets")
    authority = make_authority()
    truststore = authority.write_truststore(home / "authority.pem")
    keystore = authority.issue().write_keystore(
        home / "keystore.pem", password=SECRETS["the private key's password"]
    )
    environment = {
        **os.environ,
        "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "200",
        "STREAMHOUSE_SECRETS__KEY_PASSWORD": SECRETS["the private key's password"],
        "STREAMHOUSE_SECRETS__BOOTSTRAP_USER": "admin",
        "STREAMHOUSE_SECRETS__BOOTSTRAP_PASSWORD": SECRETS["the first user's password"],
        "STREAMHOUSE_SECRETS__HTTP_TOKEN": SECRETS["the token of the HTTP port"],
        "STREAMHOUSE_SCHEMA_REGISTRY__USER": "broker",
        "STREAMHOUSE_SCHEMA_REGISTRY__PASSWORD": SECRETS["the registry's password"],
        "AWS_SECRET_ACCESS_KEY": SECRETS["the object store's secret key"],
    }
    port = free_ports(8)
    configs = {
        "ssl.keystore.location": keystore,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "confluent.schema.registry.url": "http://127.0.0.1:9",
    }
    with tls_postgres(authority) as postgres:
        dsn = postgres.dsn(f"sslmode=verify-full&sslrootcert={truststore}")
        broker = start_broker(
            home / "data",
            *("--listen", f"SASL_SSL://localhost:{port + 2}"),
            *("--http", f"127.0.0.1:{port + 4}", "--workers", "2", "--postgres", dsn),
            *(word for name, value in configs.items() for word in ("--set", f"{name}={value}")),
            listen=f"PLAINTEXT://127.0.0.1:{port}",
            environment=environment,
        )
        yield Place(
            broker=broker,
            postgres=postgres,
            plain=f"127.0.0.1:{port}",
            tls=f"localhost:{port + 2}",
            authority=truststore,
        )
        broker.stop()


def page(place: Place, path: str, token: str = SECRETS["the token of the HTTP port"]) -> str:
    """Return an answer of the HTTP port, headers included, whatever its status."""
    address = place.broker.http.split(",")[0]
    request = urllib.request.Request(
        f"http://{address}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return f"{answer.headers}\n{answer.read().decode()}"
    except urllib.error.HTTPError as refused:
        with refused:
            return f"{refused.headers}\n{refused.read().decode()}"


def logged_in(place: Place, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": password,
        "ssl.ca.location": str(place.authority),
        "bootstrap.servers": place.tls,
    }


def configs_of_the_broker(place: Place) -> str:
    """Return all that DescribeConfigs tells of the broker."""
    admin = AdminClient({"bootstrap.servers": place.plain})
    asked = ConfigResource(ResourceType.BROKER, "0")
    (found,) = admin.describe_configs([asked]).values()
    return "\n".join(f"{name}={entry.value}" for name, entry in found.result(PATIENCE_S).items())


def test_nothing_that_the_broker_tells_has_a_secret(place: Place) -> None:
    told: dict[str, str] = {}

    # When it is used as it is meant to be
    client = Confluent(bootstrap=place.plain)
    client.create_topic("t", partition_count=1)
    client.produce("t", [SentRecord(key=b"k", value=b"v")])
    assert len(client.consume("t")) == 1
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        right = logged_in(place, mechanism, SECRETS["the first user's password"])
        assert AdminClient(right).list_topics(timeout=PATIENCE_S).topics
    told["DescribeConfigs"] = configs_of_the_broker(place)
    for path in ("/metrics", "/health/ready", "/usage"):
        told[path] = page(place, path)
    assert '"checks"' in told["/health/ready"]
    assert "ssl.keystore.location" in told["DescribeConfigs"]

    # And as it is not
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        wrong = logged_in(place, mechanism, SECRETS["a wrong password"])
        with pytest.raises(KafkaException) as refused:
            AdminClient(wrong | {"log_level": "0"}).list_topics(timeout=2)
        told[f"wrong {mechanism}"] = str(refused.value)
    for path in ("/metrics", "/health/ready", "/no/such/page"):
        told[f"refused {path}"] = page(place, path, SECRETS["a wrong token"])
    asyncio.run(send_nonsense(place))
    told["an alteration"] = refused_alteration(place)

    # And while its database is away, which every part of it complains about
    place.postgres.end()
    deadline = time.monotonic() + PATIENCE_S
    while '"not ready"' not in (readiness := page(place, "/health/ready")):
        assert time.monotonic() < deadline
    told["/health/ready without Postgres"] = readiness
    with pytest.raises(KafkaException) as failed:
        Confluent(bootstrap=place.plain).create_topic("u", partition_count=1)
    told["an error"] = str(failed.value)

    # Then no secret shows: not in answers, not in the log, not in what everybody can see
    told["log"] = place.broker.log.read_text()
    processes = family(place.broker.pid)
    assert len(processes) >= 4  # parent, two workers, upkeep
    told |= {f"cmdline {pid}": line for pid, line in command_lines(processes).items()}
    found_in = {where: leaks(text, SECRETS) for where, text in told.items()}
    assert {where: found for where, found in found_in.items() if found} == {}
    check_log(place.broker.log)


def refused_alteration(place: Place) -> str:
    """Return the error that answers the alteration of a config that only its file can set."""
    admin = AdminClient({"bootstrap.servers": place.plain})
    change = ConfigEntry(
        "ssl.key.password",
        SECRETS["a wrong password"],
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[change])
    (answer,) = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException) as refused:
        answer.result(PATIENCE_S)
    return str(refused.value)


async def send_nonsense(place: Place) -> None:
    """Send what is no request, with something in it that looks like a login."""
    login = f"\0admin\0{SECRETS['a wrong password']}".encode()
    for address in (place.plain, place.tls):
        host, port = address.split(":")
        for nonsense in (login, len(login).to_bytes(4, "big") + login, base64.b64encode(login)):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(nonsense)
            writer.write_eof()
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()


def test_what_was_given_as_a_flag_is_hidden_and_readable_for_people(place: Place) -> None:
    line = command_lines(family(place.broker.pid)[:1])[place.broker.pid].rstrip("\0")
    assert line.startswith("streamhouse serve --listen PLAINTEXT://127.0.0.1:")
    assert "--postgres *** --set" in line
    log = place.broker.log.read_text()
    assert '"instead": "a variable or --config FILE", "event": "the command line had a sec' in log


def test_a_child_that_needs_no_secret_has_none(place: Place) -> None:
    (upkeep,) = (
        one for one in family(place.broker.pid) if "upkeep_main" in " ".join(one.cmdline())
    )
    assert not [name for name in upkeep.environ() if name.startswith("STREAMHOUSE_")]
