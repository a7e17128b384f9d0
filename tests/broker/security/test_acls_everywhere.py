"""An ACL counts on every broker within a second of its answer, whoever was asked, and stays."""

import time
from collections.abc import Iterator
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.wire import Wire
from tests.broker.security.acl_wire import (
    ALL,
    AUTHORIZER,
    DENY,
    NONE,
    TOPIC,
    configs_of,
    create,
    delete,
)
from tests.support.host import Stopwatch
from tests.support.three_brokers import Trio, three_brokers

pytestmark = pytest.mark.alone

FRESH_S: Final = 1.0
GLANCE_S: Final = 0.01
GIVE_UP_S: Final = 10.0
OPEN: Final = ErrorCode.unknown_topic_or_partition
CLOSED: Final = ErrorCode.topic_authorization_failed


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    settings = ("--set", AUTHORIZER, "--set", "allow.everyone.if.no.acl.found=true")
    with three_brokers(tmp_path_factory.mktemp("acls-trio"), *settings) as brokers:
        yield brokers


def wires(trio: Trio) -> list[Wire]:
    return [Wire("127.0.0.1", broker.port) for broker in trio.brokers]


def seconds_until(code: ErrorCode, wire: Wire, name: str) -> float:
    """Return how long it takes until a broker answers that about a topic.

    The time in which somebody waited for a processor does not count.
    """
    stopwatch = Stopwatch()
    while configs_of(wire, TOPIC, name) is not code:
        assert stopwatch.elapsed_s() < GIVE_UP_S
        time.sleep(GLANCE_S)
    return stopwatch.elapsed_s() - stopwatch.waited_s()


def test_an_acl_counts_everywhere_within_a_second(trio: Trio) -> None:
    # Given three brokers, each of which has decided about a topic before
    asked, *others = wires(trio)
    took_s = []
    for round_number in range(5):
        name = f"fresh-{round_number}"
        denied = {"resource_name": name, "principal": "User:*", "permission_type": DENY}
        assert {configs_of(wire, TOPIC, name) for wire in (asked, *others)} == {OPEN}

        # When one of them creates an ACL, then it counts there at once, and soon at the others
        assert create(asked, denied | {"operation": ALL}) == [NONE]
        assert configs_of(asked, TOPIC, name) is CLOSED
        took_s += [seconds_until(CLOSED, wire, name) for wire in others]

        # And so does its end
        delete(asked, {"resource_name_filter": name})
        assert configs_of(asked, TOPIC, name) is OPEN
        took_s += [seconds_until(OPEN, wire, name) for wire in others]
    print(f"counts everywhere after {max(took_s):.2f} s at most")  # noqa: T201
    assert max(took_s) < FRESH_S


def test_an_acl_outlives_the_broker_that_was_asked(trio: Trio) -> None:
    # Given a broker that ends at once after it has answered
    asked, *others = wires(trio)
    denied = {"resource_name": "outlives", "principal": "User:*", "permission_type": DENY}
    assert create(asked, denied | {"operation": ALL}) == [NONE]
    trio.brokers[0].kill()

    # Then the ACL counts at the others
    for wire in others:
        seconds_until(CLOSED, wire, "outlives")

    # And at itself, when it is back, with its first answer
    trio.restart(0)
    assert configs_of(wires(trio)[0], TOPIC, "outlives") is CLOSED
