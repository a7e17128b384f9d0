"""The same requests to this broker and to Apache Kafka 4.3.1: error codes and shapes agree.

All differences that are meant to be are in wire_differences.md, each with its reason.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.wire_differences import Difference, Listed, listed_differences
from tests.oracle.wire_oracle import Outcome, is_error, replay_to_both
from tests.support.broker import BrokerProcess, running_broker

Exempt = dict[tuple[int, int], str]
"""By API and version, why there is nothing of a kind."""

NEVER_WRONG: Final[Exempt] = {
    (16, 0): "nothing can be said in it",
    (18, 0): "nothing can be said in it",
    (35, 1): "what does not exist is left out",
    (35, 5): "what does not exist is left out",
    (60, 0): "nothing can be said in it that could be wrong",
    (74, 0): "nothing can be said in it",
}
NEVER_RIGHT: Final[Exempt] = {
    (17, 0): "the listener is without SASL",
    (17, 1): "the listener is without SASL",
    (29, 1): "there is no authorizer",
    (29, 3): "there is no authorizer",
    (36, 0): "the listener is without SASL",
    (36, 2): "the listener is without SASL",
    (38, 1): "tokens need an authenticated connection",
    (38, 3): "tokens need an authenticated connection",
    (39, 1): "tokens need an authenticated connection",
    (39, 2): "tokens need an authenticated connection",
    (40, 1): "tokens need an authenticated connection",
    (40, 2): "tokens need an authenticated connection",
    (41, 1): "tokens need an authenticated connection",
    (41, 3): "tokens need an authenticated connection",
    (64, 0): "no broker is dead",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own: the corpus asks for all that there is."""
    settings = ("--set", "group.initial.rebalance.delay.ms=0")
    with running_broker(tmp_path_factory.mktemp("wire-oracle"), *settings) as running:
        yield running


@pytest.fixture(scope="module")
def outcome(here: BrokerProcess, apache_kafka: ApacheKafka) -> Outcome:
    return asyncio.run(replay_to_both(here.bootstrap, apache_kafka.bootstrap))


@pytest.fixture(scope="module")
def found(outcome: Outcome) -> list[Difference]:
    return outcome.differences


@pytest.fixture(scope="module")
def listed() -> list[Listed]:
    return listed_differences()


def test_every_case_was_replayed(outcome: Outcome) -> None:
    assert not outcome.failed, "\n".join(outcome.failed)
    assert outcome.here.keys() == outcome.kafka.keys()


def test_every_difference_is_listed(found: list[Difference], listed: list[Listed]) -> None:
    unlisted = [one for one in found if not any(row.covers(one) for row in listed)]
    assert not unlisted, "not in wire_differences.md:\n" + "\n".join(map(str, unlisted))


def test_every_listed_difference_occurs(found: list[Difference], listed: list[Listed]) -> None:
    gone = [row for row in listed if not any(row.covers(one) for one in found)]
    assert not gone, "in wire_differences.md, but no more:\n" + "\n".join(map(str, gone))


def test_no_row_lets_any_value_pass(listed: list[Listed]) -> None:
    assert not [row for row in listed if "*" in (row.here, row.kafka)]


def test_every_api_is_asked_right_and_wrong(outcome: Outcome) -> None:
    """At the lowest and at the highest version that both brokers have."""
    asked = {(key, version) for key, ends in outcome.versions.items() for version in ends}
    errors = {
        (key, version): {is_error(answer) for answer in outcome.answers(key, version)}
        for key, version in asked
    }
    never_right = {one for one, found in errors.items() if False not in found}
    never_wrong = {one for one, found in errors.items() if True not in found}
    assert never_right == NEVER_RIGHT.keys()
    assert never_wrong == NEVER_WRONG.keys()
