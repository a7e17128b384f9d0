"""ACLs as people say them."""

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from streamctl.acl_rules import acl_filters, as_json, principal_of, sentence


@pytest.mark.parametrize(
    ("binding", "said"),
    [
        (
            AclBinding(
                *(ResourceType.TOPIC, "raw.", ResourcePatternType.PREFIXED, "User:etl", "*"),
                *(AclOperation.WRITE, AclPermissionType.ALLOW),
            ),
            "User:etl may write topic raw.*",
        ),
        (
            AclBinding(
                *(ResourceType.GROUP, "g", ResourcePatternType.LITERAL, "User:m", "10.0.0.7"),
                *(AclOperation.ALL, AclPermissionType.DENY),
            ),
            "User:m may do nothing with group g from 10.0.0.7",
        ),
        (
            AclBinding(
                *(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:b"),
                *("*", AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW),
            ),
            "User:b may cluster-action cluster kafka-cluster",
        ),
    ],
)
def test_an_acl_reads_as_a_sentence(binding: AclBinding, said: str) -> None:
    assert sentence(binding) == said
    assert set(as_json(binding)) == {
        *("resource", "name", "pattern", "principal", "host", "operation", "permission"),
    }


def test_a_user_may_be_a_principal_already() -> None:
    assert principal_of("alice") == principal_of("User:alice") == "User:alice"


def test_a_users_name_may_have_colons() -> None:
    account = "system:serviceaccount:prod:etl"
    assert principal_of(account) == principal_of(f"User:{account}") == f"User:{account}"


@pytest.mark.parametrize(
    ("user", "principals"),
    [
        (None, [None]),
        ("alice", ["User:alice"]),
        ("User:team:alice", ["User:team:alice"]),
        ("team:alice", ["User:team:alice", "team:alice"]),
    ],
)
def test_acls_are_sought_by_what_a_name_was_once_taken_for_too(
    user: str | None, principals: list[str | None]
) -> None:
    kind, pattern = ResourceType.ANY, ResourcePatternType.ANY
    filters = acl_filters(kind, None, pattern, user=user, operations=["read", "write"])
    assert [(one.principal, one.operation) for one in filters] == [
        (principal, operation)
        for principal in principals
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
