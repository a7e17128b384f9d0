"""Topic configs: the table, what text means, and what requests may set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.configs.broker_configs import read_broker_config
from broker.configs.config_changes import (
    ConfigChange,
    ConfigOperation,
    created_configs,
    incremental_changes,
    replaced_configs,
)
from broker.configs.config_rules import TopicRules
from broker.refusals import Refusal
from storage.configs.config_docs import TOPIC_DOCS
from storage.configs.config_types import InvalidConfig, format_value, parse_value
from storage.configs.topic_config_table import TOPIC_CONFIGS
from storage.configs.topic_configs import read_topic_config

BROKER = read_broker_config({})
DEFAULTS = BROKER.topic_values
RULES = TopicRules(DEFAULTS)


def change(name: str, operation: int, value: str | None = None) -> ConfigChange:
    return ConfigChange(name=name, operation=operation, value=value)


def test_the_table_has_the_topic_configs_of_kafka_4_3() -> None:
    # 33 in Apache Kafka 4.3.1, counted with DescribeConfigs
    assert len([name for name in TOPIC_CONFIGS if not name.startswith("confluent.")]) == 33
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert set(TOPIC_DOCS) == set(TOPIC_CONFIGS)
    for key in TOPIC_CONFIGS.values():
        assert parse_value(key, format_value(key.default)) == key.default


def test_a_topic_without_configs_follows_the_broker() -> None:
    # Given a broker that keeps records for two hours and takes larger batches
    broker = read_broker_config({"log.retention.hours": "2", "message.max.bytes": "2000000"})

    # When a topic sets only its size limit, or nothing
    limited = read_topic_config({"retention.bytes": "5000"}, broker.topic_values)

    # Then all else is the broker's
    assert limited.retention_bytes == 5000
    assert limited.retention_ms == 2 * 60 * 60 * 1000
    assert limited.max_message_bytes == 2_000_000
    assert read_topic_config({}, broker.topic_values) == broker.topic_defaults


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [("2592000000", 2_592_000_000), ("-1", -1), ("0", 0), (" +5 ", 5), (str(2**63 - 1), 2**63 - 1)],
)
def test_retention_is_a_64_bit_number_and_minus_one_is_for_ever(
    text: str, retention_ms: int
) -> None:
    configs = created_configs([("retention.ms", text)], RULES)
    assert configs == {"retention.ms": str(retention_ms)}
    assert read_topic_config(configs, DEFAULTS).retention_ms == retention_ms


def test_any_negative_size_limit_is_none() -> None:
    assert read_topic_config({"retention.bytes": "-100"}, DEFAULTS).retention_bytes == -1


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [
        ("delete", False, True),
        ("compact", True, False),
        (" compact , delete ", True, True),
        ("delete,delete", False, True),
        ("", False, False),
    ],
)
def test_cleanup_policy_is_a_list(policy: str, compact: bool, delete: bool) -> None:
    configs = created_configs([("cleanup.policy", policy)], RULES)
    config = read_topic_config(configs, DEFAULTS)
    assert (config.compact, config.delete) == (compact, delete)


def test_a_codec_brings_its_level() -> None:
    levels = {"compression.zstd.level": "19", "compression.lz4.level": "4"}
    zstd = read_topic_config({"compression.type": "zstd", **levels}, DEFAULTS)
    assert (zstd.compression_type, zstd.compression_level) == ("zstd", 19)
    assert read_topic_config({"compression.type": "snappy"}, DEFAULTS).compression_level is None
    assert BROKER.topic_defaults.compression_type == "producer"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", "9223372036854775808", "64-bit integer"),
        ("retention.ms", "", "64-bit integer"),
        ("retention.ms", "1.5", "64-bit integer"),
        ("retention.ms", "1_000", "64-bit integer"),
        ("retention.ms", "9" * 5000, "64-bit integer"),
        ("max.message.bytes", "2147483648", "32-bit integer"),
        ("segment.bytes", "1048575", "at least 1048576"),
        ("cleanup.policy", "Delete", "compact, delete"),
        ("cleanup.policy", "compact,", "without empty items"),
        ("compression.type", "none", "uncompressed, zstd"),
        ("compression.gzip.level", "0", "between 1 and 9, or -1"),
        ("message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
        ("min.cleanable.dirty.ratio", "1.1", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "NaN", "decimal number"),
        ("preallocate", "yes", "true or false"),
        ("leader.replication.throttled.replicas", "0:1,*", "partition:broker"),
        ("remote.storage.enable", "true", "must be false"),
        ("retention.ms", None, "must not be null"),
        ("retention.mss", "1", "near: retention.ms"),
        ("log.retention.ms", "1", "Unknown topic config"),
    ],
)
def test_what_is_not_allowed_is_named(name: str, text: str | None, allowed: str) -> None:
    with pytest.raises(Refusal) as refused:
        created_configs([(name, text)], RULES)
    assert refused.value.code is ErrorCode.invalid_config
    assert name in str(refused.value)
    assert allowed in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(Refusal) as refused:
        created_configs([("retention.ms", "x"), ("segment.ms", "0"), ("foo", "1")], RULES)
    for name in ("retention.ms", "segment.ms", "foo"):
        assert name in str(refused.value)


def test_lags_that_contradict_each_other_are_refused() -> None:
    lags = [("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "3")]
    with pytest.raises(Refusal, match="must not be more than"):
        created_configs(lags, RULES)


def test_of_a_config_given_twice_at_creation_the_last_counts() -> None:
    settings = [("retention.ms", "5"), ("retention.ms", "6")]
    assert created_configs(settings, RULES) == {"retention.ms": "6"}


def test_a_stored_topic_survives_other_broker_defaults() -> None:
    # Given a topic stored by a broker with other defaults, with a config that only newer ones know
    stored = {"min.compaction.lag.ms": "5000", "from.the.future": "1"}
    broker = read_broker_config({"log.cleaner.max.compaction.lag.ms": "1000"})

    # When it is read
    config = read_topic_config(stored, broker.topic_values)

    # Then it is served with what it says
    assert config.min_compaction_lag_ms == 5000


def test_alter_configs_takes_each_name_once_and_no_null() -> None:
    assert replaced_configs([("segment.ms", "100")], RULES) == {"segment.ms": "100"}
    for settings in ([("segment.ms", "1"), ("segment.ms", "2")], [("segment.ms", None)]):
        with pytest.raises(Refusal) as refused:
            replaced_configs(settings, RULES)
        assert refused.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("stored", "operation", "items", "result"),
    [
        ({}, ConfigOperation.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, ConfigOperation.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": ""}, ConfigOperation.APPEND, "compact, delete", "compact,delete"),
        ({"cleanup.policy": "compact"}, ConfigOperation.APPEND, "", "compact"),
        ({"cleanup.policy": "delete,compact"}, ConfigOperation.SUBTRACT, "delete", "compact"),
        ({}, ConfigOperation.SUBTRACT, "delete", ""),
        ({"cleanup.policy": "compact"}, ConfigOperation.SUBTRACT, "unheard-of", "compact"),
        ({"cleanup.policy": "compact"}, ConfigOperation.SET, " delete ", "delete"),
        ({"cleanup.policy": "compact"}, ConfigOperation.DELETE, None, None),
    ],
)
def test_lists_grow_and_shrink_from_the_value_in_force(
    stored: dict[str, str], operation: ConfigOperation, items: str | None, result: str | None
) -> None:
    changes = [change("cleanup.policy", operation, items)]
    assert incremental_changes(stored, changes, RULES) == {"cleanup.policy": result}


def test_a_config_that_nobody_knows_can_be_unset() -> None:
    changes = [change("message.downconversion.enable", ConfigOperation.DELETE)]
    assert incremental_changes({}, changes, RULES) == {"message.downconversion.enable": None}


def test_other_configs_of_the_topic_are_left_alone() -> None:
    stored = {"retention.ms": "5", "segment.ms": "7"}
    changes = [change("retention.ms", ConfigOperation.SET, "6")]
    assert incremental_changes(stored, changes, RULES) == {"retention.ms": "6"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([change("retention.ms", ConfigOperation.SET)], ErrorCode.invalid_request),
        ([change("cleanup.policy", ConfigOperation.SUBTRACT)], ErrorCode.invalid_request),
        ([change("retention.ms", 9, "1")], ErrorCode.invalid_request),
        (
            [
                change("retention.ms", ConfigOperation.SET, "1"),
                change("retention.ms", ConfigOperation.DELETE),
            ],
            ErrorCode.invalid_request,
        ),
        ([change("retention.ms", ConfigOperation.APPEND, "1")], ErrorCode.invalid_config),
        ([change("foo", ConfigOperation.APPEND, "1")], ErrorCode.invalid_config),
        ([change("foo", ConfigOperation.SET, "1")], ErrorCode.invalid_config),
        ([change("cleanup.policy", ConfigOperation.APPEND, "foo")], ErrorCode.invalid_config),
        ([change("max.compaction.lag.ms", ConfigOperation.SET, "1")], ErrorCode.invalid_config),
    ],
)
def test_incremental_changes_that_are_refused(changes: list[ConfigChange], code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        incremental_changes({"min.compaction.lag.ms": "60"}, changes, RULES)
    assert refused.value.code is code


@given(text=st.text(max_size=30), name=st.sampled_from(sorted(TOPIC_CONFIGS)))
def test_text_is_a_value_that_reads_back_or_is_refused(text: str, name: str) -> None:
    key = TOPIC_CONFIGS[name]
    try:
        value = parse_value(key, text)
    except InvalidConfig:
        return
    assert parse_value(key, format_value(value)) == value


@given(number=st.integers(min_value=-(2**64), max_value=2**64))
def test_an_integer_is_taken_if_and_only_if_it_fits(number: int) -> None:
    key = TOPIC_CONFIGS["retention.bytes"]
    if -(2**63) <= number < 2**63:
        assert parse_value(key, str(number)) == number
    else:
        with pytest.raises(InvalidConfig):
            parse_value(key, str(number))
