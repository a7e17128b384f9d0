"""What others were broken by, and the tests that keep it from happening here.

| known attack | what it teaches | tests |
|---|---|---|
| CVE-2022-34917 (Kafka): lengths make the broker allocate | a length is checked before memory is taken; a decoded request is a small multiple of its bytes | tests/protocol/test_guard.py::test_the_densest_request_costs_eight_times_its_size, tests/fuzz/test_frames.py::test_a_seeded_run_finds_nothing |
| CVE-2024-56128 (Kafka): SCRAM's nonce is not compared | another nonce, or another channel binding, is refused even with a right proof | tests/protocol/test_sasl_scram.py::test_the_nonce_is_checked_even_if_the_proof_fits_another_one, tests/protocol/test_sasl_scram.py::test_the_last_message_must_be_bound_to_the_first |
| CVE-2021-38153 (Kafka): secrets compared byte by byte | hmac.compare_digest only | tests/broker/security/test_guards.py::test_secrets_are_compared_in_constant_time_only |
| CVE-2023-25194, CVE-2025-27817, CVE-2025-27818, CVE-2025-27819 (Kafka): configs that name URLs, files and classes | what comes over the wire is never one; keys for tokens come from the server's own configuration | tests/broker/security/test_known_attacks.py::test_what_clients_may_set_is_never_an_address_or_a_file, tests/broker/security/test_known_attacks.py::test_no_client_changes_where_the_broker_reads, tests/broker/security/test_sasl_start.py::test_keys_come_from_a_file_or_by_https |
| CVE-2023-50976 (Redpanda): no ACLs in the transaction APIs | every API key has a row, and is denied without an ACL | tests/broker/security/test_access_table.py::test_every_api_has_a_row, tests/broker/security/test_access_table.py::test_a_request_needs_its_acls |
| CVE-2026-82266 (Redpanda): an admin port open to all | the HTTP port needs a token when others reach it | tests/broker/security/test_http.py::test_a_broker_does_not_start_with_an_open_port, tests/broker/security/test_http.py::test_without_the_token_nothing_is_told |
| CVE-2023-24619 (Redpanda): credentials in output | no secret in logs, errors, command lines | tests/broker/security/test_secrets.py::test_nothing_that_the_broker_tells_has_a_secret, tests/broker/security/test_secrets_in_settings.py::test_no_repr_shows_a_secret |
| CVE-2026-35554 (Kafka's producer): bytes of one topic go to another | the checksum is always verified | tests/broker/test_bad_input.py::test_a_bad_batch_is_refused_and_not_appended |
| CVE-2026-44302 (snappy), CVE-2025-62813 (lz4), Redpanda #10235: bombs and endless loops | every codec is bounded in bytes, frames and steps | tests/protocol/test_compression.py::test_a_bomb_is_refused_within_its_limit, tests/protocol/test_compression.py::test_frames_of_nothing_are_limited, tests/protocol/test_compression.py::test_garbage_is_corrupt_or_harmless |
| CVE-2011-1473 (renegotiation), and new keys without end (TLS 1.3) | records of TLS that bring no data are counted, and few | tests/broker/security/test_tls_stream.py::test_who_only_changes_keys_is_refused_at_once |
| slow and half-open connections | they cost little, and nobody else | tests/abuse/test_abuse.py::test_good_clients_hardly_notice |
"""  # noqa: E501

import ast
import re
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.broker_config_table import BROKER_CONFIGS
from storage.configs.config_types import ConfigType, OneOf, replica_list
from storage.configs.topic_config_table import TOPIC_CONFIGS
from tests.support.broker import BrokerProcess
from tests.support.syntax_trees import syntax_tree
from tests.support.wire import WireClient, milliseconds, request_entities

ROOT: Final = Path(__file__).parents[3]
TESTS: Final = re.findall(r"(tests/\S+\.py)::(\w+)", __doc__ or "")
ADDRESSES: Final = {
    "confluent.schema.registry.url": "http://169.254.169.254/",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd",
    "sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254/",
    "ssl.keystore.location": "/etc/shadow",
    "ssl.truststore.location": "/etc/shadow",
    "listener.name.plaintext.ssl.keystore.location": "/etc/shadow",
    "sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required;",
    "authorizer.class.name": "os.system",
    "metric.reporters": "os.system",
    "log.dirs": "/etc",
    "super.users": "User:ANONYMOUS",
}
BROKER, TOPIC = 4, 2
NUMBERS: Final = (ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE)


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_each_test_of_the_table_is_there(file: str, name: str) -> None:
    tree = syntax_tree((ROOT / file).read_text())
    functions = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions


def test_what_clients_may_set_is_never_an_address_or_a_file() -> None:
    # Given all configs that a client may set: numbers, or one of some words, or replicas
    dynamic = [key for key in BROKER_CONFIGS.values() if key.dynamic]
    texts = [key for key in (*dynamic, *TOPIC_CONFIGS.values()) if key.type not in NUMBERS]

    # Then none of them can hold anything else
    free = [key.name for key in texts if not isinstance(key.check, OneOf)]
    assert set(free) == {key.name for key in TOPIC_CONFIGS.values() if key.check is replica_list}


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("resource", [(BROKER, "0"), (BROKER, ""), (TOPIC, "topic")], ids=str)
async def test_no_client_changes_where_the_broker_reads(
    wire: WireClient, topic: str, name: str, resource: tuple[int, str]
) -> None:
    # Given a topic, and a config that names something outside of the broker
    await wire.create_topic(topic)
    kind, resource_name = resource[0], topic if resource[0] == TOPIC else resource[1]
    before = await configs(wire, kind, resource_name or "0")

    # When a client sets it, in either of the ways that there are
    answers = [
        await wire.ask(incremental(kind, resource_name, name, ADDRESSES[name])),
        await wire.ask(replacing(kind, resource_name, name, ADDRESSES[name])),
    ]

    # Then it is refused, and nothing has changed
    codes = {answer.responses[0].error_code for answer in answers}
    assert codes <= {ErrorCode.invalid_request, ErrorCode.invalid_config}
    assert await configs(wire, kind, resource_name or "0") == before


@pytest.mark.parametrize("name", ["confluent.schema.registry.url", "compression.type"])
async def test_a_new_topic_takes_no_address(
    broker: BrokerProcess, wire: WireClient, topic: str, name: str
) -> None:
    module = request_entities(19, 7)
    config = module.CreatableTopicConfig(name=name, value="file:///etc/passwd")
    request = module.CreateTopicsRequest(
        topics=(
            module.CreatableTopic(
                name=topic,
                num_partitions=1,
                replication_factor=1,
                assignments=(),
                configs=(config,),
            ),
        ),
        timeout=milliseconds(1000),
        validate_only=False,
    )
    assert (await wire.ask(request)).topics[0].error_code == ErrorCode.invalid_config


async def configs(wire: WireClient, kind: int, name: str) -> dict[str, str | None]:
    """Return what DescribeConfigs says."""
    module = request_entities(32, 4)
    resource = module.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = module.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=False, include_documentation=False
    )
    (result,) = (await wire.ask(request)).results
    return {one.name: one.value for one in result.configs}


def incremental(kind: int, resource: str, name: str, value: str) -> Any:
    module = request_entities(44, 1)
    config = module.AlterableConfig(name=name, config_operation=0, value=value)
    return module.IncrementalAlterConfigsRequest(
        resources=(
            module.AlterConfigsResource(
                resource_type=kind, resource_name=resource, configs=(config,)
            ),
        ),
        validate_only=False,
    )


def replacing(kind: int, resource: str, name: str, value: str) -> Any:
    module = request_entities(33, 2)
    config = module.AlterableConfig(name=name, value=value)
    return module.AlterConfigsRequest(
        resources=(
            module.AlterConfigsResource(
                resource_type=kind, resource_name=resource, configs=(config,)
            ),
        ),
        validate_only=False,
    )
