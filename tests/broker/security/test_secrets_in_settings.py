"""Settings that are secret: what they are is in no message, and in no representation."""

from typing import Any
from urllib.parse import quote

import pytest

from broker.config import InvalidSettings, Settings, read_settings
from broker.config_sources import read_sources
from broker.secrets_config import Secrets
from broker.upkeep.upkeep_order import UpkeepOrder
from storage.config import PostgresConfig, UpkeepConfig
from tests.support.postgres_tls import PASSWORD
from tests.support.secrets import leaks


def test_no_repr_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHOUSE_POSTGRES", f"postgresql://u:{quote(PASSWORD, safe='')}@db/d")
    for name in ("KEY_PASSWORD", "BOOTSTRAP_PASSWORD", "HTTP_TOKEN"):
        monkeypatch.setenv(f"STREAMHOUSE_SECRETS__{name}", "hunter2-hunter2")
    monkeypatch.setenv("STREAMHOUSE_SCHEMA_REGISTRY__PASSWORD", "hunter2-hunter2")
    settings = Settings(**read_sources(Settings, {}, {}))
    order = UpkeepOrder(
        dsn=settings.postgres,
        store_url="",
        pool=PostgresConfig(),
        upkeep=UpkeepConfig(),
        set={},
    )
    for shown in (repr(settings), str(settings), repr(settings.secrets), repr(order)):
        assert leaks(shown, {"one": "hunter2-hunter2", "other": PASSWORD}) == []
    assert Secrets(http_token="x" * 40) != Secrets()  # hidden, not forgotten


@pytest.mark.parametrize(
    "flags",
    [
        {"postgres": "postgresql://u:hunter2/x@db/d"},
        {"postgres": "u:hunter2@db"},
        {"store": "s3://key:hunter2@bucket"},
        {"store": "s3:key:hunter2@bucket"},
        {"store": "s3://bucket?endpoint=key:hunter2@host"},
        {"store": "s3://bucket?endpoint=http://key:hunter2@host"},
        {"set": ["ssl.key.password:hunter2"]},
        {"set": ["hunter2@"]},
        {"secrets": "hunter2"},
        {"secrets": {"http_token": "hunter2"}},
        {"secrets": {"key_pasword": "hunter2"}},
        {"schema_registry": {"password": ["hunter2"]}},
        {"set": ["confluent.schema.registry.url=http://u:hunter2@registry"]},
    ],
)
def test_a_mistake_is_told_without_what_it_was(flags: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings) as refused:
        read_settings(flags, None)
    assert "hunter2" not in str(refused.value)


def test_a_variable_that_is_no_json_is_told_without_what_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAMHOUSE_SECRETS", '{"http_token": "hunter2"')
    with pytest.raises(InvalidSettings) as refused:
        read_settings({}, None)
    assert "hunter2" not in str(refused.value)
