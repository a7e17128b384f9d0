"""What a broker with a SASL listener says when it starts, and what it does not start with."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.config import InvalidSettings, read_settings
from storage.configs.config_types import LONG_MAX
from tests.broker.test_upkeep_process import metric
from tests.support.broker import BrokerProcess
from tests.support.sasl import PASSWORD, SaslClient, metadata, running_sasl_broker

LISTEN = ("SASL_PLAINTEXT://127.0.0.1:9092",)
GLANCE_S = 0.2


def problems(**configs: str) -> str:
    with pytest.raises(InvalidSettings) as invalid:
        read_settings({"listen": LISTEN, "set": configs}, None)
    return str(invalid.value)


def test_tokens_need_keys() -> None:
    told = problems(**{"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"})
    assert told.startswith("set sasl.oauthbearer.jwks.endpoint.url:")


def test_a_listener_needs_a_mechanism() -> None:
    assert problems(**{"sasl.enabled.mechanisms": ""}).startswith("set sasl.enabled.mechanisms:")


def test_a_first_user_needs_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_SECRETS__BOOTSTRAP_USER", "admin")
    assert "bootstrap_password" in problems()


@pytest.mark.parametrize("url", ["http://keys.example/jwks", "keys.json", "ftp://keys.example/k"])
def test_keys_come_from_a_file_or_by_https(url: str) -> None:
    assert "https://" in problems(**{"sasl.oauthbearer.jwks.endpoint.url": url})


def test_the_address_of_the_keys_holds_no_password() -> None:
    told = problems(**{"sasl.oauthbearer.jwks.endpoint.url": "https://u:hunter2@keys.example/k"})
    assert "must not hold a password" in told
    assert "hunter2" not in told


def test_without_a_sasl_listener_nothing_of_it_is_needed() -> None:
    configs = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    read_settings({"listen": ("127.0.0.1:9092",), "set": configs}, None)


def test_what_is_unwise_is_told_once(tmp_path: Path) -> None:
    # Given a broker that takes passwords in the clear, has no user and no keys yet
    missing = tmp_path / "jwks.json"
    configs = {"sasl.oauthbearer.jwks.endpoint.url": missing.as_uri()}
    mechanisms = ("PLAIN", "OAUTHBEARER")
    with running_sasl_broker(
        tmp_path / "data", mechanisms=mechanisms, configs=configs, user=""
    ) as broker:
        log = broker.log.read_text()

    # Then it starts, and says so
    assert log.count("passwords cross the network") == 1
    assert log.count("nobody can log in") == 1
    assert "STREAMHOUSE_SECRETS__BOOTSTRAP_USER" in log
    assert log.count("no keys for tokens yet") == 1
    assert log.count("tokens cross the network") == 1
    assert log.count("sasl.oauthbearer.expected.audience is not set") == 1


def looks(broker: BrokerProcess) -> float:
    """Return how often the broker has looked at its connections."""
    return metric(broker, "streamhouse_event_loop_lag_seconds_count") or 0.0


@pytest.fixture(scope="module")
def lasting_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose sessions last as long as can be set."""
    configs = {"connections.max.reauth.ms": str(LONG_MAX), "connections.max.idle.ms": "-1"}
    with running_sasl_broker(tmp_path_factory.mktemp("lasting"), configs=configs) as broker:
        yield broker


async def test_a_session_may_last_as_long_as_can_be_set(lasting_broker: BrokerProcess) -> None:
    async with await SaslClient.connect(lasting_broker.bootstrap) as client:
        answer = await client.log_in()
        assert answer.error_code is ErrorCode.none
        assert answer.session_lifetime >= timedelta(days=365)


async def test_no_connection_is_idle_for_too_long_without_a_limit(
    lasting_broker: BrokerProcess,
) -> None:
    async with await SaslClient.connect(lasting_broker.bootstrap) as client:
        # Given a client that is in, and says nothing
        assert (await client.log_in()).error_code is ErrorCode.none

        # When the broker has looked at its connections several times
        looked = await asyncio.to_thread(looks, lasting_broker)
        while await asyncio.to_thread(looks, lasting_broker) < looked + 3:
            await asyncio.sleep(GLANCE_S)

        # Then the client is there
        assert (await client.ask(metadata())).brokers


def test_the_password_of_the_first_user_is_nowhere(lasting_broker: BrokerProcess) -> None:
    log = lasting_broker.log.read_text()
    shown = Path(f"/proc/{lasting_broker.pid}/cmdline").read_text()
    assert "first user made" in log
    assert "it comes back" in log
    assert "nobody can log in" not in log
    assert PASSWORD not in log + shown
