"""Several listeners: what a broker is told of them at its start, and what it tells its clients."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from broker.broker_set import BrokerSet
from broker.cluster import NOBODY, Cluster
from broker.config import InvalidSettings, read_settings
from broker.network.listeners import SecurityProtocol, parse_listener
from broker.workers import orders
from protocol.ids import Partition
from storage.metadata.brokers import BrokerRecord, Membership
from storage.objects.object_paths import uuid7
from tests.support.broker import BrokerProcess, start_broker
from tests.support.certificates import Authority, make_authority, write_file
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database
from tests.support.wire import WireClient, request_entities

KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
KNOWN_S: Final = 20.0
GLANCE_S: Final = 0.1
PARTITIONS: Final = 16


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def mistakes_of(listen: str, settings: Mapping[str, str], *advertise: str) -> str:
    """Return what `serve` says to it."""
    with pytest.raises(InvalidSettings) as mistakes:
        read_settings({"listen": (listen,), "advertise": advertise, "set": dict(settings)}, None)
    return str(mistakes.value)


# --- at the start


@pytest.mark.parametrize(
    ("text", "protocol", "registered"),
    [
        ("127.0.0.1:1", SecurityProtocol.PLAINTEXT, "127.0.0.1:1"),
        ("PLAINTEXT://h:1", SecurityProtocol.PLAINTEXT, "h:1"),
        ("SSL://h:1", SecurityProtocol.SSL, "SSL://h:1"),
        ("SASL_SSL://[::1]:1", SecurityProtocol.SASL_SSL, "SASL_SSL://[::1]:1"),
    ],
)
def test_a_listener_and_what_other_brokers_read(
    text: str, protocol: SecurityProtocol, registered: str
) -> None:
    listener = parse_listener(text)
    assert listener.protocol is protocol
    assert listener.registered == registered
    assert parse_listener(listener.registered) == listener


def test_each_mistake_in_what_tls_needs_is_told(tmp_path: Path) -> None:
    settings = {
        "ssl.client.auth": "required",
        "ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
        "ssl.enabled.protocols": "",
    }
    told = mistakes_of("SSL://127.0.0.1:1", settings).splitlines()
    for part in (
        "ssl.keystore.location: a listener with TLS needs one",
        "ssl.truststore.location: ssl.client.auth=required needs one",
        "ssl.enabled.protocols: name TLSv1.2 or TLSv1.3",
        "ssl.cipher.suites: 'TLS_RSA_WITH_AES_128_CBC_SHA' is none of OpenSSL's names",
    ):
        assert any(part in line for line in told), (part, told)
    assert len(told) == 4
    read_settings({"set": settings}, None)  # without a listener that uses them, they are none


def keys(authority: Authority) -> dict[str, bytes]:
    one, other = authority.issue(), authority.issue()
    return {
        "no PEM": b"\x30\x82\x01\x0a",
        "no key": one.certificate_pem(),
        "no certificate": one.key_pem(),
        "another key": other.key_pem() + one.certificate_pem(),
        "encrypted": one.key_pem("secret word") + one.certificate_pem(),
        "half": (one.key_pem() + one.certificate_pem())[:-100],
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no PEM", "is not PEM; convert it"),
        ("no key", "has no private key; put both in one PEM file"),
        ("no certificate", "has no certificate; put both in one PEM file"),
        ("another key", "the private key is not that of the first certificate"),
        ("encrypted", "is encrypted; set STREAMHOUSE_SECRETS__KEY_PASSWORD"),
        ("half", "OpenSSL cannot read key and certificate"),
    ],
)
def test_a_keystore_that_cannot_be_used_is_told(
    tmp_path: Path, authority: Authority, content: str, told: str
) -> None:
    file = write_file(tmp_path / "keystore.pem", keys(authority)[content])
    said = mistakes_of("SASL_SSL://127.0.0.1:1", {KEYSTORE: str(file)})
    assert said.startswith(f"{KEYSTORE}: ")
    assert told in said


def test_a_wrong_password_of_a_key_is_told_and_not_shown(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = authority.issue().write_keystore(tmp_path / "keystore.pem", password="the right one")
    monkeypatch.setenv("STREAMHOUSE_SECRETS__KEY_PASSWORD", "the wrong one")
    said = mistakes_of("SSL://127.0.0.1:1", {KEYSTORE: str(file)})
    assert "check STREAMHOUSE_SECRETS__KEY_PASSWORD" in said
    assert "the wrong one" not in said
    monkeypatch.setenv("STREAMHOUSE_SECRETS__KEY_PASSWORD", "the right one")
    read_settings({"listen": ("SSL://127.0.0.1:1",), "set": {KEYSTORE: str(file)}}, None)


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    settings = {KEYSTORE: missing, TRUSTSTORE: missing, "ssl.client.auth": "requested"}
    told = mistakes_of("SSL://127.0.0.1:1", settings).splitlines()
    assert [line.split(": ")[0] for line in told] == [KEYSTORE, TRUSTSTORE]
    assert all("cannot read" in line for line in told)


def test_an_advertised_address_has_the_protocol_of_its_listener() -> None:
    said = mistakes_of("SSL://127.0.0.1:1", {}, "broker.example:9093")
    assert "speaks SSL; use SSL://broker.example:9093" in said


def test_an_ssl_listener_on_all_addresses_needs_an_advertised_one() -> None:
    assert "--advertise" in mistakes_of("SSL://0.0.0.0:9093", {})


def test_workers_listen_on_the_next_ports_with_the_same_protocols(
    tmp_path: Path, authority: Authority
) -> None:
    file = authority.issue().write_keystore(tmp_path / "keystore.pem")
    flags: dict[str, Any] = {
        "listen": ("SSL://127.0.0.1:29093", "PLAINTEXT://[::1]:29193"),
        "advertise": ("SSL://broker.example:29093",),
        "set": {KEYSTORE: str(file)},
        "workers": 2,
    }
    settings, _ = read_settings(flags, None)
    second = orders(settings, flags, None, "")[1].flags
    assert second["listen"] == ["SSL://127.0.0.1:29094", "PLAINTEXT://[::1]:29194"]
    assert second["advertise"] == ["SSL://broker.example:29094"]


# --- what clients are told


def brokers(*addresses: tuple[str, ...]) -> BrokerSet:
    records = [
        BrokerRecord(node_id=at, addresses=one, rack=None) for at, one in enumerate(addresses)
    ]
    return BrokerSet(Membership(node_id=0, generation=1, brokers=records))


@pytest.mark.parametrize(
    ("listener", "protocol", "ports"),
    [
        (0, SecurityProtocol.PLAINTEXT, [1, 11, 21]),
        (1, SecurityProtocol.SSL, [2, 13]),  # at the second broker it is the third listener
        (2, SecurityProtocol.SSL, [3, 13]),
        (3, SecurityProtocol.SASL_SSL, [4]),
    ],
)
def test_clients_are_told_of_listeners_that_speak_as_they_do(
    listener: int, protocol: SecurityProtocol, ports: list[int]
) -> None:
    everybody = brokers(
        ("h:1", "SSL://h:2", "SSL://h:3", "SASL_SSL://h:4"),
        ("h:11", "SASL_PLAINTEXT://h:12", "SSL://h:13"),
        ("h:21",),
    )
    cluster = Cluster(cluster_id="c", brokers=everybody, listener=listener, protocol=protocol)
    assert [node.port for node in cluster.nodes] == ports

    # And what belongs to those that they cannot reach belongs to nobody
    reached = {node.node_id: node for node in cluster.live}
    for number in range(50):
        partition = Partition(uuid7(number, bytes(10)), 0)
        owner = everybody.owner(partition).node_id
        assert cluster.placement(partition, 1)["leader_id"] == (
            owner if owner in reached else NOBODY
        )
        coordinator = everybody.coordinator(str(number)).node_id
        found = cluster.coordinator(str(number))
        assert found is reached.get(coordinator)  # addresses are not read again for every key


async def metadata(client: WireClient, topic: str, version: int = 9) -> Any:
    module = request_entities(3, version)
    asked = module.MetadataRequestTopic(name=topic)
    fields: dict[str, Any] = {"topics": (asked,), "allow_auto_topic_creation": False}
    for name in ("cluster", "topic"):
        field = f"include_{name}_authorized_operations"
        if field in module.MetadataRequest.__dataclass_fields__:
            fields[field] = False
    return await client.ask(module.MetadataRequest(**fields))


async def until(ask: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as it should be; return it."""
    async with asyncio.timeout(KNOWN_S):
        while not holds(answer := await ask()):
            await asyncio.sleep(GLANCE_S)
    return answer


async def test_two_brokers_whose_listeners_are_not_the_same(
    tmp_path: Path, authority: Authority, topic: str
) -> None:
    # Given a broker with SSL and PLAINTEXT, and one that has PLAINTEXT only
    keystore = authority.issue().write_keystore(tmp_path / "keystore.pem")
    common = (
        *("--postgres", await create_empty_database(), "--store", f"file://{tmp_path / 'objects'}"),
        *("--set", f"{KEYSTORE}={keystore}"),
    )
    secure, plain, other, other_secure = (f"127.0.0.1:{free_port()}" for _ in range(4))

    def start(name: str, first: str, *more: str) -> BrokerProcess:
        return start_broker(tmp_path / name, *common, *more, listen=first)

    one = await asyncio.to_thread(start, "one", f"SSL://{secure}", "--listen", plain)
    two = await asyncio.to_thread(start, "two", other)
    trusted = tls_context(authority)
    try:
        async with (
            await WireClient.connect(secure, tls=trusted) as over_tls,
            await WireClient.connect(plain) as in_clear,
        ):
            await in_clear.create_topic(topic, partitions=PARTITIONS)

            # When clients of each of the first one's listeners ask where things are
            seen = await until(lambda: metadata(in_clear, topic), lambda one: len(one.brokers) == 2)
            hidden = await metadata(over_tls, topic)
            old = await metadata(over_tls, topic, version=5)

            # Then each is told of those that it can speak to, and of no leader elsewhere
            assert addresses(seen) == {plain, other}
            assert addresses(hidden) == {secure}
            theirs = {at for at, leader in leaders(seen).items() if leader == 1}
            assert theirs
            for answer, code in (
                (hidden, ErrorCode.listener_not_found),
                (old, ErrorCode.leader_not_available),
            ):
                assert {at for at, leader in leaders(answer).items() if leader == -1} == theirs
                codes = {one.error_code for one in partitions(answer) if one.leader_id == -1}
                assert codes == {code}
            assert await configs(over_tls, 0) == {
                "listeners": f"SSL://{secure},PLAINTEXT://{plain}",
                "advertised.listeners": f"SSL://{secure},PLAINTEXT://{plain}",
            }

            # And when the other broker gets such a listener, in another place, it is told of
            two.stop()
            more = ("--listen", f"SSL://{other_secure}")
            two = await asyncio.to_thread(start, "two", other, *more)
            found = await until(
                lambda: metadata(over_tls, topic), lambda one: len(one.brokers) == 2
            )
            assert addresses(found) == {secure, other_secure}
            assert leaders(found) == leaders(seen)
    finally:
        two.stop()
        one.stop()


def tls_context(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate_pem().decode())


def addresses(answer: Any) -> set[str]:
    return {f"{one.host}:{one.port}" for one in answer.brokers}


def partitions(answer: Any) -> Any:
    return answer.topics[0].partitions


def leaders(answer: Any) -> dict[int, int]:
    return {one.partition_index: one.leader_id for one in partitions(answer)}


async def configs(client: WireClient, node_id: int) -> dict[str, str]:
    """Return what DescribeConfigs says of a broker's listeners."""
    module = request_entities(32, 4)
    names = ("listeners", "advertised.listeners")
    resource = module.DescribeConfigsResource(
        resource_type=4, resource_name=str(node_id), configuration_keys=names
    )
    request = module.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=False, include_documentation=False
    )
    (result,) = (await client.ask(request)).results
    return {one.name: one.value for one in result.configs}
