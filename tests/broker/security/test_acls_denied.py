"""What ACLs do not let a client do is refused, with the code and in the form of each API."""

import pytest
from kio.schema.errors import ErrorCode

from broker.api_table import APIS
from tests.broker.admin.wire import Api, Wire
from tests.broker.security.acl_wire import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    DENIED,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    NONE,
    TOPIC,
    alter_configs,
    configs_of,
    create,
    delete,
)
from tests.broker.security.cluster_requests import REQUESTS, codes_in

ALL_CLUSTER_OPERATIONS = 0b1_1111_1010_0000

REFUSED = [
    (key, version) for key in REQUESTS for version in range(APIS[key].low, APIS[key].high + 1)
]


@pytest.mark.parametrize(("key", "version"), REFUSED)
def test_who_may_not_is_told_so(stranger: Wire, key: int, version: int) -> None:
    codes = codes_in(stranger.ask(REQUESTS[key](Api(key, version))))
    assert set(codes) == ({DENIED} if (key, version) not in {(35, 1), (35, 2)} else set())


def test_each_thing_that_is_asked_for_is_refused(stranger: Wire) -> None:
    for key, count in ((30, 2), (31, 2), (34, 2), (49, 1), (51, 1)):
        assert len(codes_in(stranger.ask(REQUESTS[key](Api(key, APIS[key].high))))) == count


def test_an_acl_counts_as_soon_as_it_is_answered(admin: Wire, stranger: Wire, name: str) -> None:
    # Given a topic that nobody has ACLs of; allow.everyone.if.no.acl.found lets everybody
    unknown = ErrorCode.unknown_topic_or_partition
    assert configs_of(stranger, TOPIC, name) is unknown

    # When there is one for another, then it is closed; whether there is such a topic is not told
    assert create(admin, resource_name=name) == [NONE]
    assert configs_of(stranger, TOPIC, name) is ErrorCode.topic_authorization_failed

    # And each change counts at once: what allows, then what denies, then that all is gone
    own = {"resource_name": name, "principal": "User:ANONYMOUS", "host": "127.0.0.2"}
    assert create(admin, own | {"operation": DESCRIBE_CONFIGS}) == [NONE]
    assert configs_of(stranger, TOPIC, name) is unknown
    denied = {"principal": "User:*", "operation": ALL, "permission_type": DENY}
    assert create(admin, {"resource_name": name} | denied) == [NONE]
    assert configs_of(stranger, TOPIC, name) is ErrorCode.topic_authorization_failed
    delete(admin, {"resource_name_filter": name})
    assert configs_of(stranger, TOPIC, name) is unknown


def test_configs_are_asked_for_by_their_resource(admin: Wire, stranger: Wire, name: str) -> None:
    # Given a group that the stranger has nothing to do with
    assert create(admin, resource_type=GROUP, resource_name=name) == [NONE]

    # Then what it may not see, and not alter, is refused with the code of its type
    kinds = ((4, "0", DENIED), (4, "", DENIED), (8, "0", DENIED), (16, name, DENIED))
    for kind, resource, code in (*kinds, (32, name, ErrorCode.group_authorization_failed)):
        assert configs_of(stranger, kind, resource) is code
        assert alter_configs(stranger, 44, kind, resource) is code
        assert alter_configs(stranger, 33, kind, resource) is code
        assert configs_of(admin, kind, resource) is not DENIED


@pytest.mark.parametrize("version", range(APIS[60].low, APIS[60].high + 1))
def test_the_cluster_tells_each_what_it_may_do(admin: Wire, stranger: Wire, version: int) -> None:
    request = Api(60, version).request(
        include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
    )
    assert admin.ask(request).cluster_authorized_operations == ALL_CLUSTER_OPERATIONS
    assert stranger.ask(request).cluster_authorized_operations == 0
    assert stranger.ask(request).brokers


def test_operations_that_another_gives_are_told(admin: Wire, stranger: Wire) -> None:
    # Given that the stranger may alter the cluster's configs, and what that needs
    own = {
        "resource_type": CLUSTER,
        "resource_name": "kafka-cluster",
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.2",
    }
    assert (
        create(admin, own | {"operation": ALTER_CONFIGS}, own | {"operation": ALTER}) == [NONE] * 2
    )
    request = Api(60, 1).request(include_cluster_authorized_operations=True, endpoint_type=1)
    told = stranger.ask(request).cluster_authorized_operations
    assert told == 1 << ALTER | 1 << DESCRIBE | 1 << DESCRIBE_CONFIGS | 1 << ALTER_CONFIGS
    gone = {
        "resource_type_filter": CLUSTER,
        "resource_name_filter": None,
        "host_filter": "127.0.0.2",
    }
    delete(admin, gone)
    assert stranger.ask(request).cluster_authorized_operations == 0
