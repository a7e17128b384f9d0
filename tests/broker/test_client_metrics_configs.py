"""The configs of client-metrics subscriptions (KIP-714)."""

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.config_rules import ClientMetricsRules
from broker.refusals import Refusal
from broker.telemetry.client_metrics_configs import read_metrics_subscription
from storage.configs.config_types import InvalidConfig


def test_a_subscription_without_configs_asks_every_client_for_nothing() -> None:
    subscription = read_metrics_subscription({})
    assert (subscription.metrics, subscription.interval_ms) == ((), 300_000)
    assert subscription.matches({})


def test_all_patterns_have_to_match_the_whole_text() -> None:
    # Given a subscription for some clients
    subscription = read_metrics_subscription(
        {
            "metrics": "org.apache.kafka.producer., org.apache.kafka.consumer.",
            "interval.ms": "500",
            "match": "client_id=app-.*, client_source_port = 1[0-9]",
        }
    )
    assert subscription.metrics == ("org.apache.kafka.producer.", "org.apache.kafka.consumer.")
    assert subscription.interval_ms == 500

    # Then it is for those of whom every text matches, to its end
    assert subscription.matches({"client_id": "app-1", "client_source_port": "17"})
    assert not subscription.matches({"client_id": "app-1", "client_source_port": "170"})
    assert not subscription.matches({"client_id": "an-app-1", "client_source_port": "17"})
    assert not subscription.matches({"client_id": "app-1"})


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("interval.ms", "99", ErrorCode.invalid_request),
        ("interval.ms", "3600001", ErrorCode.invalid_request),
        ("interval.ms", "soon", ErrorCode.invalid_config),
        ("match", "client_rack=a", ErrorCode.invalid_config),
        ("match", "client_id", ErrorCode.invalid_config),
        ("match", "client_id=", ErrorCode.invalid_config),
        ("match", "client_id=a=b", ErrorCode.invalid_config),
        ("match", "client_id=[a", ErrorCode.invalid_config),
        ("metrics", "a,,b", ErrorCode.invalid_config),
        ("labels", "x", ErrorCode.invalid_request),
    ],
)
def test_mistakes_are_refused_with_the_codes_of_kafka(
    name: str, text: str, code: ErrorCode
) -> None:
    with pytest.raises(Refusal, match=name.replace(".", r"\.")) as refused:
        ClientMetricsRules().checked({name: text})
    assert refused.value.code is code


def test_values_are_stored_as_kafka_shows_them() -> None:
    checked = ClientMetricsRules().checked({"interval.ms": " +100 ", "metrics": "a., b."})
    assert checked == {"interval.ms": "100", "metrics": "a.,b."}


def test_every_mistake_is_named() -> None:
    with pytest.raises(InvalidConfig) as invalid:
        read_metrics_subscription({"interval.ms": "x", "match": "y", "labels": "z"})
    assert len(invalid.value.problems) == 3
