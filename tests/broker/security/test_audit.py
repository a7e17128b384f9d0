"""The audit log: what is told, how often, and that it cannot be flooded or forged."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from broker.api_table import APIS
from broker.network.client_session import ClientSession
from broker.security.audit import (
    CHANGED_AGAIN_S,
    MAX_CHANGES,
    MAX_DENIALS,
    REPEATED_S,
    Audit,
    shown,
)
from broker.security.audit_changes import CHANGES
from protocol.acl import Operation, ResourceType

NEVER_CHANGE_ANYTHING = {34, 43, 45, 57}
READ_ONLY_ON_THE_CLUSTER = {29, 35, 46, 48, 50, 55, 74}
READ, WRITE, TOPIC = Operation.READ, Operation.WRITE, ResourceType.TOPIC


class Time:
    """A clock that is set, and what waits for it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.waiting.append((self.now_s + delay_s, call))
        return asyncio.get_running_loop().call_later(3600, call)  # to be cancelled, not to be run

    def advance(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.waiting and min(self.waiting)[0] <= until_s:
            due = min(self.waiting)
            self.waiting.remove(due)
            self.now_s = due[0]
            due[1]()
        self.now_s = until_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def audit(time: Time, registry: CollectorRegistry) -> Audit:
    return Audit(registry, lambda: time.now_s, time.call_later)


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


def session(user: str = "mallory", host: str = "192.0.2.1") -> ClientSession:
    made = ClientSession()
    made.principal, made.host = user, host
    return made


def deny(audit: Audit, name: str = "orders", *, operation: Operation = READ) -> None:
    audit.denied(session(), operation, TOPIC, name, api="fetch", client_id="app")


async def test_a_denial_is_told_at_once_and_its_repetitions_together(
    audit: Audit, time: Time, lines: list[Any]
) -> None:
    # Given a client that tries again and again
    for _ in range(1000):
        deny(audit)
    assert [line["count"] for line in lines] == [1]
    assert lines[0]["logger"] == "audit"
    assert lines[0]["principal"] == "User:mallory"

    # When ten seconds are over, then one line tells of the rest; and after that of what follows
    time.advance(REPEATED_S)
    assert [line["count"] for line in lines] == [1, 999]
    deny(audit)
    time.advance(REPEATED_S - 1)
    assert len(lines) == 2
    time.advance(REPEATED_S)
    assert [line["count"] for line in lines] == [1, 999, 1]

    # And when it has been quiet for long enough, nothing is left, and the next is told at once
    time.advance(3 * REPEATED_S)
    assert not time.waiting
    deny(audit)
    assert len(lines) == 4


async def test_there_is_at_most_one_line_in_ten_seconds(
    audit: Audit, time: Time, lines: list[Any]
) -> None:
    told_s = []
    for _ in range(400):
        before = len(lines)
        deny(audit)
        time.advance(0.37)
        told_s += [time.now_s] * (len(lines) - before)
    gaps = [later - earlier for earlier, later in itertools.pairwise(told_s)]
    assert min(gaps) > REPEATED_S - 0.5
    assert len(lines) > 10


async def test_different_denials_are_told_apart(audit: Audit, lines: list[Any]) -> None:
    deny(audit)
    deny(audit, operation=WRITE)
    deny(audit, "payments")
    assert [(line["operation"], line["name"]) for line in lines] == [
        ("READ", "orders"),
        ("WRITE", "orders"),
        ("READ", "payments"),
    ]


async def test_many_different_ones_fill_neither_log_nor_memory(
    audit: Audit, time: Time, lines: list[Any], registry: CollectorRegistry
) -> None:
    # Given a client that asks for another name each time
    count = 3 * MAX_DENIALS
    for number in range(count):
        deny(audit, f"topic-{number}")

    # Then as many as are kept apart are told, and the others are counted
    assert len(lines) == MAX_DENIALS
    time.advance(REPEATED_S)
    assert lines[-1]["event"] == "other operations denied"
    assert lines[-1]["count"] == count - MAX_DENIALS
    labels = {"operation": "READ", "resource": "TOPIC"}
    assert registry.get_sample_value("streamhouse_denied_operations_total", labels) == count

    # And then there is room for new ones
    time.advance(2 * REPEATED_S)
    deny(audit, "new")
    assert lines[-1]["name"] == "new"


def delete(audit: Audit, name: str = "app-repartition", *, partitions: int = 1) -> None:
    audit.changed(
        session("streams"),
        "records deleted",
        api="delete_records",
        client_id="app",
        outcome="done",
        repeats=True,
        name=name,
        partitions=partitions,
    )


async def test_records_that_are_deleted_for_ever_are_told_once_an_hour(
    audit: Audit, time: Time, lines: list[Any]
) -> None:
    # Given Kafka Streams, which deletes what it has read of a repartition topic every 30 seconds
    delete(audit)
    (first,) = lines
    assert (first["event"], first["name"]) == ("records deleted", "app-repartition")
    assert (first["principal"], first["partitions"], first["count"]) == ("User:streams", 1, 1)

    # When an hour is over, then one more line tells how often, and about the last time
    for _ in range(119):
        time.advance(30)
        assert len(lines) == 1
        delete(audit, partitions=2)
    time.advance(30)
    assert [line["count"] for line in lines] == [1, 119]
    assert lines[1]["partitions"] == 2

    # And what it does not do again is forgotten
    time.advance(2 * CHANGED_AGAIN_S)
    assert not time.waiting
    delete(audit)
    assert len(lines) == 3


async def test_no_first_deletion_of_records_is_left_out(
    audit: Audit, time: Time, lines: list[Any]
) -> None:
    # Given more topics than are kept apart, then each has a line; and what is kept is told at last
    for number in range(MAX_CHANGES + 100):
        delete(audit, f"topic-{number}")
    assert len({line["name"] for line in lines}) == MAX_CHANGES + 100
    delete(audit, "topic-0")
    audit.close()
    assert (lines[-1]["name"], lines[-1]["count"]) == ("topic-0", 1)
    assert len(lines) == MAX_CHANGES + 101


async def test_what_is_left_is_told_at_the_end(audit: Audit, lines: list[Any]) -> None:
    for _ in range(5):
        deny(audit)
    audit.close()
    assert [line["count"] for line in lines] == [1, 4]
    audit.close()
    assert len(lines) == 2


async def test_a_change_tells_who_from_where_what(audit: Audit, lines: list[Any]) -> None:
    audit.changed(
        session("alice"),
        "topic created",
        api="create_topics",
        client_id="x" * 500,
        outcome="done",
        name="a\nb",
    )
    (line,) = lines
    assert line["event"] == "topic created"
    assert (line["principal"], line["host"]) == ("User:alice", "192.0.2.1")
    assert line["name"] == "a\\nb"
    assert len(line["client_id"]) == 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", "orders"),
        ("größe", "größe"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("right\u202eleft", "right\\u202eleft"),
        ("x" * 257, "x" * 255 + "…"),
    ],
)
def test_what_a_client_chose_is_cut_and_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_what_changes_something_has_a_line() -> None:
    on_the_cluster = {key for key, api in APIS.items() if isinstance(api.access, Operation)}
    assert on_the_cluster - CHANGES.keys() == NEVER_CHANGE_ANYTHING | READ_ONLY_ON_THE_CLUSTER
    assert APIS.keys() >= CHANGES.keys()
