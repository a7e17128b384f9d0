"""A broker with an authorizer, and who asks it.

There is nobody who could log in on a plain listener: who asks is told apart by the address that it
asks from. Its first ACL gives 127.0.0.1 everything on the cluster, and others nothing; resources
without ACLs are open to all (allow.everyone.if.no.acl.found).
"""

import uuid
from collections.abc import Iterator

import pytest

from tests.broker.admin.wire import Wire
from tests.broker.security.acl_wire import ALL, AUTHORIZER, CLUSTER, NONE, create
from tests.support.broker import BrokerProcess, running_broker

STRANGER = "127.0.0.2"


@pytest.fixture(scope="session")
def acl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("--set", AUTHORIZER, "--set", "allow.everyone.if.no.acl.found=true")
    with running_broker(tmp_path_factory.mktemp("acls"), *settings) as broker:
        first = {
            "resource_type": CLUSTER,
            "resource_name": "kafka-cluster",
            "principal": "User:ANONYMOUS",
            "host": "127.0.0.1",
            "operation": ALL,
        }
        assert create(Wire("127.0.0.1", broker.port), first) == [NONE]
        yield broker


@pytest.fixture
def admin(acl_broker: BrokerProcess) -> Wire:
    """Who may do everything."""
    return Wire("127.0.0.1", acl_broker.port)


@pytest.fixture
def stranger(acl_broker: BrokerProcess) -> Wire:
    """Who may do nothing on the cluster."""
    return Wire("127.0.0.1", acl_broker.port, source=STRANGER)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"acl-{uuid.uuid4().hex[:12]}"
