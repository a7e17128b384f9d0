"""ACLs over the wire: what can be created, found and deleted."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.api_table import APIS
from broker.apis.k31_delete_acls import MAX_MATCHES
from broker.security.acls import MAX_ACLS_PER_RESOURCE
from tests.broker.admin.wire import Wire
from tests.broker.security.acl_wire import (
    ALLOW,
    ANY,
    CLUSTER,
    DESCRIBE,
    GROUP,
    LITERAL,
    MATCH,
    NONE,
    PREFIXED,
    READ,
    TOKEN,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
    create,
    delete,
    describe,
)
from tests.broker.security.cluster_requests import CREATION

INVALID = ErrorCode.invalid_request
VERSIONS = range(APIS[30].low, APIS[30].high + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_created_shown_and_deleted(admin: Wire, name: str, version: int) -> None:
    # Given two ACLs of a topic, one of them created twice, in one request and in two
    wanted = {"resource_name_filter": name}
    one, other = {"resource_name": name}, {"resource_name": name, "operation": WRITE}
    assert create(admin, one, one, other, version=version) == [NONE] * 3
    assert create(admin, one, version=version) == [NONE]

    # Then both are shown, once
    both = {
        (TOPIC, LITERAL, name, "User:alice", "*", READ, ALLOW),
        (TOPIC, LITERAL, name, "User:alice", "*", WRITE, ALLOW),
    }
    assert describe(admin, version=version, **wanted) == both

    # When they are deleted by two filters, then each tells of all that it matches
    reads = {fields for fields in both if fields[5] == READ}
    answers = delete(admin, {**wanted, "operation": READ}, wanted, version=version)
    assert answers == [reads, both]
    assert describe(admin, version=version, **wanted) == set()
    assert delete(admin, wanted, version=version) == [set()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ANY},
        {"resource_type": 99},
        {"resource_pattern_type": ANY},
        {"resource_pattern_type": MATCH},
        {"resource_pattern_type": 99},
        {"operation": ANY},
        {"operation": 99},
        {"permission_type": ANY},
        {"permission_type": 99},
        {"principal": "alice"},
        {"principal": ""},
        {"principal": f"User:{'x' * 1_020}"},
        {"resource_name": ""},
        {"resource_name": "x" * 513},
        {"host": "x" * 256},
        {"resource_type": CLUSTER},
        {"resource_type": CLUSTER, "resource_name": "*"},
    ],
    ids=str,
)
def test_an_acl_that_cannot_be_is_refused_by_itself(
    admin: Wire, name: str, wrong: dict[str, Any]
) -> None:
    good = {"resource_name": name}
    assert create(admin, good, good | wrong, good) == [NONE, INVALID, NONE]
    assert len(describe(admin, resource_name_filter=name)) == 1


@pytest.mark.parametrize("field", ["resource_type", "operation", "permission_type"])
def test_what_a_client_did_not_understand_is_not_created(admin: Wire, field: str) -> None:
    with pytest.raises(EOFError):
        create(admin, **{field: 0})


@pytest.mark.parametrize(
    "odd",
    [
        {"resource_type": GROUP, "resource_name": "a:b|c d"},
        {"resource_type": GROUP, "resource_name": "grüße-✓-\U0001f642"},
        {"resource_type": TRANSACTIONAL_ID, "resource_name": " x\n\t\x00\x01"},
        {"resource_type": TRANSACTIONAL_ID, "resource_name": "y" * 512, "operation": 15},
        {"resource_type": TRANSACTIONAL_ID, "resource_name": "\U0001f642" * 512},
        {"resource_type": USER, "resource_name": "User:bob", "operation": 13},
        {"resource_type": TOKEN, "resource_name": "t0ken", "operation": DESCRIBE},
        {"resource_type": TOPIC, "resource_name": "*", "resource_pattern_type": PREFIXED},
        {"principal": "User:CN=alice,OU=a b,O=x:y"},
        {"principal": "Group:x"},
        {"principal": "User: \x00 alice"},
        {"host": "::1"},
        {"host": "fe80::1%eth0"},
        {"host": ""},
        {"host": "a host\x00%20"},
    ],
    ids=str,
)
def test_any_text_survives(admin: Wire, name: str, odd: dict[str, Any]) -> None:
    acl = {**CREATION, "resource_name": name, **odd}
    assert create(admin, acl) == [NONE]
    kind, resource = acl["resource_type"], acl["resource_name"]
    wanted = {
        "resource_type_filter": kind,
        "resource_name_filter": resource,
        "pattern_type_filter": ANY,
        "principal_filter": acl["principal"],
        "host_filter": acl["host"],
    }
    rule = (acl["principal"], acl["host"], acl["operation"], acl["permission_type"])
    expected = {(kind, acl["resource_pattern_type"], resource, *rule)}
    assert describe(admin, **wanted) == expected
    assert delete(admin, wanted) == [expected]
    assert describe(admin, **wanted) == set()


def names_found(admin: Wire, **wanted: Any) -> set[tuple[int, str]]:
    return {
        fields[1:3] for fields in describe(admin, resource_type_filter=TRANSACTIONAL_ID, **wanted)
    }


def test_filters_find_by_pattern(admin: Wire) -> None:
    # Given patterns around a name
    patterns = {(LITERAL, "pay-1"), (PREFIXED, "pay"), (PREFIXED, "pay-1"), (LITERAL, "*")}
    for pattern_type, pattern in {*patterns, (LITERAL, "pay-2"), (PREFIXED, "other")}:
        created = create(
            admin,
            resource_type=TRANSACTIONAL_ID,
            resource_name=pattern,
            resource_pattern_type=pattern_type,
        )
        assert created == [NONE]

    # Then MATCH finds what counts for it, and the others what is named like it
    name = {"resource_name_filter": "pay-1"}
    assert names_found(admin, **name, pattern_type_filter=MATCH) == patterns
    assert names_found(admin, **name, pattern_type_filter=LITERAL) == {(LITERAL, "pay-1")}
    assert names_found(admin, **name, pattern_type_filter=PREFIXED) == {(PREFIXED, "pay-1")}
    assert names_found(admin, **name, pattern_type_filter=ANY) == {
        (LITERAL, "pay-1"),
        (PREFIXED, "pay-1"),
    }
    every_prefix = names_found(admin, resource_name_filter=None, pattern_type_filter=PREFIXED)
    assert every_prefix == {(PREFIXED, "pay"), (PREFIXED, "pay-1"), (PREFIXED, "other")}
    assert names_found(admin, **name, pattern_type_filter=99) == set()
    assert names_found(admin, **name, operation=99) == set()

    # And what is not understood deletes nothing
    of_ids = {"resource_type_filter": TRANSACTIONAL_ID, **name}
    for field in ("pattern_type_filter", "operation", "permission_type", "resource_type_filter"):
        assert delete(admin, {**of_ids, field: 99}) == [INVALID]
    (deleted,) = delete(admin, {**of_ids, "pattern_type_filter": MATCH})
    assert isinstance(deleted, set)
    assert {fields[1:3] for fields in deleted} == patterns


def test_acls_of_a_resource_are_bounded(admin: Wire, name: str) -> None:
    # Given as many ACLs of a topic as there may be
    crowd = [
        {"resource_name": name, "principal": f"User:u{number}"}
        for number in range(MAX_ACLS_PER_RESOURCE)
    ]
    assert set(create(admin, *crowd)) == {NONE}

    # Then all are shown, and one more is refused; what is there may be asked for again
    assert len(describe(admin, resource_name_filter=name)) == MAX_ACLS_PER_RESOURCE
    last = {"resource_name": name, "principal": "User:last"}
    others = {"resource_name": f"{name}-other"}
    assert create(admin, last, crowd[0], others) == [ErrorCode.policy_violation, NONE, NONE]
    (deleted,) = delete(admin, {"resource_name_filter": name})
    assert isinstance(deleted, set)
    assert len(deleted) == MAX_ACLS_PER_RESOURCE
    assert create(admin, last) == [NONE]


def test_what_one_request_deletes_is_bounded(admin: Wire, name: str) -> None:
    # Given a tenth of as many ACLs as one request may match
    of_topic = {"resource_name_filter": name}
    count = MAX_MATCHES // 10
    crowd = [{"resource_name": name, "principal": f"User:u{number}"} for number in range(count)]
    assert set(create(admin, *crowd)) == {NONE}

    # When eleven filters match all of them, then nothing is deleted
    assert delete(admin, *[of_topic] * 11) == [INVALID] * 11
    assert len(describe(admin, resource_name_filter=name)) == count

    # But ten may
    answers = delete(admin, *[of_topic] * 10)
    assert [len(each) for each in answers if isinstance(each, set)] == [count] * 10
    assert describe(admin, resource_name_filter=name) == set()
