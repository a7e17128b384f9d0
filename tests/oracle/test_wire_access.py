"""The corpus where ACLs decide, to this broker and to Apache Kafka: who hears what.

All differences that are meant to be are in wire_access_differences.md, each with its reason.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from broker.api_table import APIS, Access
from tests.oracle.apache_kafka import ApacheKafka, running_kafka
from tests.oracle.wire_access import LIST, is_listed, replay_with_access
from tests.oracle.wire_differences import Difference, listed_differences
from tests.oracle.wire_masks import error_codes
from tests.oracle.wire_oracle import Outcome
from tests.support.access import AUTHORIZER
from tests.support.broker import BrokerProcess, running_broker

Replayed = tuple[Outcome, list[Difference]]

ALWAYS_ALLOWED: Final = frozenset({16, 60, 66})
"""APIs of which nothing is ever refused, only left out."""
TOKENS: Final = frozenset({38, 39, 40, 41})
"""They need an authenticated connection before anything else."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = AUTHORIZER | {"group.initial.rebalance.delay.ms": "0"}
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with running_broker(tmp_path_factory.mktemp("wire-access"), *arguments) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A Kafka of its own: the others have no authorizer."""
    with running_kafka(tmp_path_factory.mktemp("apache-kafka-acl"), AUTHORIZER) as running:
        yield running


@pytest.fixture(scope="module")
def replayed(here: BrokerProcess, kafka: ApacheKafka) -> Replayed:
    return asyncio.run(replay_with_access(here.bootstrap, kafka.bootstrap))


def test_every_case_was_replayed(replayed: Replayed) -> None:
    outcome, _ = replayed
    assert not outcome.failed, "\n".join(outcome.failed)
    assert outcome.here.keys() == outcome.kafka.keys()


def test_every_difference_is_listed(replayed: Replayed) -> None:
    everywhere, access = listed_differences(), listed_differences(LIST)
    unlisted = [one for one in replayed[1] if not is_listed(one, everywhere, access)]
    assert not unlisted, f"not in {LIST.name}:\n" + "\n".join(map(str, unlisted))


def test_every_listed_difference_occurs(replayed: Replayed) -> None:
    gone = [row for row in listed_differences(LIST) if not any(map(row.covers, replayed[1]))]
    assert not gone, f"in {LIST.name}, but no more:\n" + "\n".join(map(str, gone))


def test_every_api_that_asks_for_access_refuses_somebody(replayed: Replayed) -> None:
    """Apache Kafka, as the judge, refuses the same APIs as we say that ACLs are about."""
    outcome, _ = replayed
    refusing = {
        answer.api_key
        for answers in outcome.kafka.values()
        for answer in answers
        if any(code.endswith("_authorization_failed") for code in error_codes(answer.plain))
    }
    asked = {key for key in outcome.versions if APIS[key].access is not Access.OPEN}
    assert asked - ALWAYS_ALLOWED - TOKENS == refusing & asked
