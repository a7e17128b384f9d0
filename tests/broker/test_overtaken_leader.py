"""Leadership that goes away and comes back while a producer's first batch is on its way.

An object store without an answer holds up the first batch at its leader, until another broker has
led the partition, appended to it, and gone again. So the first batch is refused. The second, which
the client has sent on the same connection, comes from a leader that is not overtaken: were it
taken, librdkafka and the Java client would report the first one as delivered, which is nowhere.
Were it called out of order, librdkafka would begin a new epoch, in which it repeats what it has no
answer for of other partitions, too: what of that is in the log would be there twice.

Who asks the old leader is told the new one (KIP-951), and goes there without asking and waiting.

A reader that comes late, when leadership has come back, is not told that its offset is out of
range: librdkafka takes that for where it is by now (see also test_fetching.py).
"""

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any, Final

import pytest
import pytest_asyncio
from confluent_kafka import Message, Producer
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.clients.confluent import Confluent
from tests.clients.java_tools import MAIN_CLASSES, java_tools
from tests.clients.records import SentRecord
from tests.support.broker import BrokerProcess, start_broker
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database
from tests.support.s3_server import S3Server
from tests.support.three_brokers import BUCKET
from tests.support.throttling_proxy import ThrottlingProxy
from tests.support.wire import WireClient, encode_frame, leader_of, produce_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

TESTS: Final = 6
SOON_S: Final = 60.0
GLANCE_S: Final = 0.05


class Scene:
    """A broker whose object store can be held up, and another that comes and goes.

    Attributes:
        topic: one partition, which the other broker leads whenever it is there; each test has its
            own.
    """

    def __init__(self, proxy: ThrottlingProxy, start: Callable[[str], BrokerProcess]) -> None:
        """`start` starts one of two brokers, "b1" with the proxy before its store, and "b2"."""
        self.proxy = proxy
        self.start = start
        self.topic = ""
        self._topics: list[str] = []

    async def begin(self) -> None:
        """Start both, make topics until the other one leads one for each test, and stop it."""
        self.broker = await asyncio.to_thread(self.start, "b1")
        self.other = await asyncio.to_thread(self.start, "b2")
        numbers = count()
        async with await WireClient.connect(self.other.bootstrap) as wire:
            while len(self._topics) < TESTS:
                self.topic = f"topic-{next(numbers)}"
                await wire.create_topic(self.topic)
                if leader_of(await wire.describe(self.topic)) == self.other.bootstrap:
                    self._topics.append(self.topic)
        await self.other_goes()

    def next_topic(self) -> None:
        """Take a topic of which nobody knows yet."""
        self.topic = self._topics.pop()

    async def clear(self) -> None:
        """Leave all as it was: nothing is held up, the other broker is away."""
        self.proxy.puts_pass.set()
        self.proxy.held.clear()
        if self.other.process.poll() is None:
            await self.other_goes()

    async def other_comes(self) -> None:
        """Start the other broker, wait until it leads the topic, and append a record there."""
        await self.other_leads()
        client = Confluent(bootstrap=self.other.bootstrap)
        record = SentRecord(key=None, value=b"between")
        await asyncio.to_thread(client.produce, self.topic, [record])

    async def other_leads(self) -> None:
        """Start the other broker, and wait until both say that it leads the topic."""
        self.other = await asyncio.to_thread(self.start, "b2")
        for broker in (self.other, self.broker):
            async with asyncio.timeout(SOON_S), await WireClient.connect(broker.bootstrap) as wire:
                while leader_of(await wire.describe(self.topic)) != self.other.bootstrap:
                    await asyncio.sleep(GLANCE_S)

    async def other_goes(self) -> None:
        """Stop it, and wait until the first one leads again."""
        assert await asyncio.to_thread(self.other.stop) == 0
        await leads(self.broker, self.topic)

    async def held_up(self, objects: int) -> None:
        """Wait until uploads of so many objects have begun that do not end."""
        async with asyncio.timeout(SOON_S):
            while len(self.proxy.held) < objects:
                await asyncio.sleep(GLANCE_S)

    async def values(self) -> list[bytes | None]:
        """Return what is in the log."""
        client = Confluent(bootstrap=self.broker.bootstrap)
        return [record.value for record in await asyncio.to_thread(client.consume, self.topic)]


def numbered(sequence: int) -> bytes:
    """Return a batch of one record of an idempotent producer."""
    return build_batch(
        [Record(offset_delta=0, value=b"%d" % sequence)],
        producer_id=4711,
        producer_epoch=0,
        base_sequence=sequence,
    )


def answer_of(response: Any) -> Any:
    """Return what a Produce response says of its only partition."""
    return response.responses[0].partition_responses[0]


async def leads(broker: BrokerProcess, topic: str) -> None:
    """Wait until a broker says that it leads a topic."""
    async with asyncio.timeout(SOON_S), await WireClient.connect(broker.bootstrap) as wire:
        while leader_of(await wire.describe(topic)) != broker.bootstrap:
            await asyncio.sleep(GLANCE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    home = tmp_path_factory.mktemp("overtaken")
    dsn = await create_empty_database()
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("b1", "b2")}
    with S3Server.start(home / "s3") as s3:
        s3.create_bucket(BUCKET)
        started: list[BrokerProcess] = []
        async with ThrottlingProxy.before(s3.endpoint) as proxy:

            def start(name: str) -> BrokerProcess:
                store = s3.store_url(BUCKET, "log")
                if name == "b1":
                    store = store.replace(s3.endpoint, proxy.endpoint)
                started.append(
                    start_broker(
                        home / name,
                        *("--postgres", dsn, "--store", store),
                        listen=addresses[name],
                        environment={**os.environ, **s3.environment()},
                    )
                )
                return started[-1]

            try:
                made = Scene(proxy, start)
                await made.begin()
                yield made
            finally:
                proxy.puts_pass.set()
                for broker in started:
                    await asyncio.to_thread(broker.stop)


@pytest_asyncio.fixture(loop_scope="module")
async def its(scene: Scene) -> AsyncIterator[Scene]:
    scene.next_topic()
    yield scene
    await scene.clear()


async def test_what_comes_behind_a_refused_batch_is_told_the_same(its: Scene) -> None:
    # Given an idempotent producer that does not wait for answers, and whose second batch is held up
    async with await WireClient.connect(its.broker.bootstrap) as wire:
        await wire.produce(its.topic, numbered(0))
        requests = [
            produce_request(its.topic, numbered(sequence), timeout_ms=60_000) for sequence in (1, 2)
        ]
        its.proxy.puts_pass.clear()
        await wire.send(encode_frame(requests[0], 1))
        await its.held_up(1)

        # When its leader is another broker for a while, and then the third is sent
        await its.other_comes()
        await its.other_goes()
        await wire.send(encode_frame(requests[1], 2))
        await its.held_up(2)
        its.proxy.puts_pass.set()
        refused = [answer_of((await wire.receive(request))[1]) for request in requests]

        # Then both are refused as another broker's
        assert [one.error_code for one in refused] == [ErrorCode.not_leader_or_follower] * 2

        # And taken when they come again
        taken = [answer_of(await wire.ask(request)) for request in requests]
        assert [one.base_offset for one in taken] == [2, 3]

        # And one that leaves something out then is out of order
        gap = answer_of(await wire.ask(produce_request(its.topic, numbered(4))))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number


async def test_what_comes_behind_a_batch_for_another_leader_is_told_the_same(its: Scene) -> None:
    # Given an idempotent producer that does not wait for answers, and whose first batch is held up
    requests = [
        produce_request(its.topic, numbered(sequence), timeout_ms=60_000) for sequence in range(3)
    ]
    its.proxy.puts_pass.clear()
    async with await WireClient.connect(its.broker.bootstrap) as wire:
        await wire.send(encode_frame(requests[0], 1))
        await its.held_up(1)

        # When its second comes while another broker leads, and its third when that has gone
        await its.other_leads()
        await wire.send(encode_frame(requests[1], 2))
        await its.other_goes()
        await wire.send(encode_frame(requests[2], 3))
        await its.held_up(2)
        its.proxy.puts_pass.set()
        answers = [answer_of((await wire.receive(request))[1]) for request in requests]

        # Then the first is in the log, the others are refused as another broker's, and taken later
        refused = ErrorCode.not_leader_or_follower
        assert [one.error_code for one in answers] == [ErrorCode.none, refused, refused]
        taken = [answer_of(await wire.ask(request)) for request in requests[1:]]
        assert [one.base_offset for one in taken] == [1, 2]


async def test_who_knows_an_older_leader_asks_again_before_it_jumps(its: Scene) -> None:
    # Given a broker that led, was followed by another one, and leads again
    async with await WireClient.connect(its.broker.bootstrap) as wire:

        async def epoch() -> int:
            described = await wire.describe(its.topic)
            return int(described.topics[0].partitions[0].leader_epoch)

        before = await epoch()
        await its.other_comes()
        await its.other_goes()

        # Then a fetch that was sent before is in range, or is repeated
        assert (await wire.fetch(its.topic, 0, leader_epoch=before)).records
        late = await wire.fetch(its.topic, 100, leader_epoch=before)
        assert late.error_code is ErrorCode.not_leader_or_follower

        # And who knows who leads now, or says nothing of it, is told
        for known in (await epoch(), -1):
            answer = await wire.fetch(its.topic, 100, leader_epoch=known)
            assert answer.error_code is ErrorCode.offset_out_of_range


async def test_librdkafka_reports_nothing_that_is_not_in_the_log(its: Scene) -> None:
    # Given an idempotent producer whose first batch is held up
    reported: list[tuple[bytes | None, int | None]] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        reported.append((message.value(), message.offset()))

    settings = {"bootstrap.servers": its.broker.bootstrap, "enable.idempotence": True}
    producer = Producer({**settings, "linger.ms": 0})
    its.proxy.puts_pass.clear()
    producer.produce(its.topic, b"first", partition=0, on_delivery=on_delivery)
    await its.held_up(1)

    # When its leader is another broker for a while, and then the second is sent
    await its.other_comes()
    await its.other_goes()
    producer.produce(its.topic, b"second", partition=0, on_delivery=on_delivery)
    await its.held_up(2)
    its.proxy.puts_pass.set()
    assert await asyncio.to_thread(producer.flush, SOON_S) == 0

    # Then both are in the log, in order, where the producer was told
    assert await its.values() == [b"between", b"first", b"second"]
    assert reported == [(b"first", 1), (b"second", 2)]


async def test_the_java_producer_loses_nothing(its: Scene) -> None:
    # Given the stock tool, which sends each line when it has waited a second for more
    tools = java_tools(its.broker.bootstrap)
    producer = await asyncio.create_subprocess_exec(
        *tools.command(MAIN_CLASSES["kafka-console-producer"]),
        *("--bootstrap-server", its.broker.bootstrap, "--topic", its.topic),
        *("--request-timeout-ms", "60000"),
        stdin=PIPE,
        stderr=PIPE,
    )
    assert producer.stdin is not None
    its.proxy.puts_pass.clear()
    producer.stdin.write(b"first\n")
    await its.held_up(1)

    # When the same happens
    await its.other_comes()
    await its.other_goes()
    producer.stdin.write(b"second\n")
    await its.held_up(2)
    its.proxy.puts_pass.set()
    producer.stdin.close()
    _, errors = await asyncio.wait_for(producer.communicate(), SOON_S)

    # Then both are in the log, in order
    assert await its.values() == [b"between", b"first", b"second"]
    assert producer.returncode == 0
    assert b"ERROR" not in errors, errors.decode()


async def test_the_java_producer_goes_to_a_new_leader_without_a_pause(its: Scene) -> None:
    # Given the stock tool, which has sent a record, and would pause for two minutes
    tools = java_tools(its.broker.bootstrap)
    pause = ("retry.backoff.ms=120000", "retry.backoff.max.ms=120000")
    producer = await asyncio.create_subprocess_exec(
        *tools.command(MAIN_CLASSES["kafka-console-producer"]),
        *("--bootstrap-server", its.broker.bootstrap, "--topic", its.topic, "--sync"),
        *("--command-property", pause[0], "--command-property", pause[1]),
        stdin=PIPE,
        stderr=PIPE,
    )
    assert producer.stdin is not None
    producer.stdin.write(b"first\n")
    async with asyncio.timeout(SOON_S):
        while await its.values() != [b"first"]:
            await asyncio.sleep(GLANCE_S)

    # When another broker leads, and it sends the next to the old leader
    await its.other_comes()
    producer.stdin.write(b"second\n")
    producer.stdin.close()
    _, errors = await asyncio.wait_for(producer.communicate(), SOON_S)

    # Then that one's answer tells where the new one is (KIP-951), where it goes at once
    assert producer.returncode == 0
    assert b"NOT_LEADER_OR_FOLLOWER" in errors, errors.decode()
    assert await its.values() == [b"first", b"between", b"second"]
