"""A delayed EndTxn ends the wrong transaction of older clients, and none of those of KIP-890.

STREAMHOUSE_TEST_TRIALS is the number of trials. With STREAMHOUSE_TEST_BOOTSTRAP they run against
another broker; STREAMHOUSE_TEST_PROXIED tells "LISTENER PORT": HOST:PORT of a listener of it, and
the port on this machine that it advertises for that listener.
"""

import asyncio
import itertools
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.conftest import Tell
from tests.support.broker import running_broker
from tests.support.ports import free_port
from tests.transactions.delayed_end import KINDS, Lane, Moment, Report, Trial, shuffled
from tests.transactions.delayed_end_clients import Producer, WireProducer
from tests.transactions.delayed_end_proxy import EndTxnProxy
from tests.transactions.delayed_end_reads import CommittedReader, Judgement, judge, stable_ends
from tests.transactions.delayed_end_stock import JavaProducers, LibrdkafkaProducer

TRIALS: Final = int(os.environ.get("STREAMHOUSE_TEST_TRIALS", "50"))
LIBRDKAFKA_TRIALS: Final = 20  # it is in no hurry after a timeout
LANES: Final = 8
HARMFUL: Final = [trial for trial in KINDS if trial.moment is Moment.BETWEEN and not trial.restarts]
"""Where a broker that goes by the epoch alone cannot know better."""

MakeProducer = Callable[[str, str], Producer]
"""From a transactional id and a topic."""


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Where a broker listens, and the port that it tells its clients instead."""
    if os.environ.get("STREAMHOUSE_TEST_BOOTSTRAP"):
        broker, _, advertised = os.environ["STREAMHOUSE_TEST_PROXIED"].partition(" ")
        yield broker, int(advertised)
        return
    broker, port = f"127.0.0.1:{free_port()}", free_port()
    home = tmp_path_factory.mktemp("delayed")
    with running_broker(home, "--advertise", f"127.0.0.1:{port}", listen=broker):
        yield broker, port


@pytest.fixture
async def proxy(listener: tuple[str, int]) -> AsyncIterator[EndTxnProxy]:
    """A proxy, and the broker behind it, whose clients all go through it."""
    broker, port = listener
    async with EndTxnProxy.listening(port) as proxy:
        proxy.broker = broker
        yield proxy


async def test_clients_that_bump_their_epoch_lose_and_tear_nothing(
    proxy: EndTxnProxy, tell: Tell
) -> None:
    # Given clients of KIP-890, and EndTxn requests that arrive late in every way there is
    def make(transactional_id: str, topic: str) -> Producer:
        return WireProducer(proxy.bootstrap, transactional_id, topic, bumps_epoch=True)

    # When they run transactions
    judgement, report = await run_trials(proxy, KINDS, TRIALS, make)

    # Then every transaction is read as its client was told, and none was refused
    tell(f"KIP-890: {judgement}; {report}")
    assert judgement.trials >= TRIALS
    assert not judgement.anomalies, judgement.examples
    assert not report.refusals


async def test_the_java_client_loses_and_tears_nothing(
    proxy: EndTxnProxy, tell: Tell, tmp_path: Path
) -> None:
    # Given the Java client, which asks again when its request times out
    async with JavaProducers.running(proxy.bootstrap, tmp_path) as producers:
        # When EndTxn requests arrive late in every way there is
        judgement, report = await run_trials(proxy, KINDS, max(TRIALS // 3, 30), producers.make)

    # Then every transaction is read as its client was told, and none was refused
    tell(f"Java client: {judgement}; {report}")
    assert not judgement.anomalies, judgement.examples
    assert not report.refusals


async def test_the_harm_to_clients_that_keep_their_epoch_is_told(
    proxy: EndTxnProxy, tell: Tell
) -> None:
    # Given clients from before KIP-890: one that speaks the protocol, and librdkafka
    def older(transactional_id: str, topic: str) -> Producer:
        return WireProducer(proxy.bootstrap, transactional_id, topic, bumps_epoch=False)

    def librdkafka(transactional_id: str, topic: str) -> Producer:
        return LibrdkafkaProducer(proxy.bootstrap, transactional_id, topic)

    # When an EndTxn of theirs arrives in the middle of the next transaction
    # Then it ends that, whatever the broker does, and nothing but this happens
    for name, make, trials in (
        ("before KIP-890", older, TRIALS),
        ("librdkafka", librdkafka, LIBRDKAFKA_TRIALS),
    ):
        judgement, report = await run_trials(proxy, HARMFUL, trials, make)
        tell(f"{name}: {judgement}; {report}")
        assert judgement.trials >= trials


async def run_trials(
    proxy: EndTxnProxy, kinds: Sequence[Trial], count: int, make: MakeProducer
) -> tuple[Judgement, Report]:
    """Run trials with several producers at once, while a stock consumer reads all of it."""
    topic, partition_count = f"delayed-{uuid.uuid4().hex[:8]}", 2 * LANES
    confluent = Confluent(bootstrap=proxy.bootstrap)
    await asyncio.to_thread(confluent.create_topic, topic, partition_count=partition_count)
    report = Report()
    with CommittedReader.running(proxy.bootstrap, topic, partition_count) as reader:
        async with asyncio.TaskGroup() as lanes:
            for number in range(LANES):
                lane = Lane(
                    proxy,
                    f"{topic}-{number}",
                    (2 * number, 2 * number + 1),
                    lambda name=f"{topic}-{number}": make(name, topic),  # type: ignore[misc]
                )
                trials = itertools.islice(shuffled(kinds, seed=number), -(-count // LANES))
                lanes.create_task(lane.run(list(trials), report))
        await reader.reached(await stable_ends(proxy.bootstrap, topic, partition_count))
    return judge(report, reader.reads), report
