"""Several brokers as one cluster: who owns what, and what clients notice when brokers come and go.

Three brokers on one Postgres and one S3 server; they share nothing else.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.clients.confluent import Confluent
from tests.support.broker import BrokerFailed, start_broker
from tests.support.host import Stopwatch
from tests.support.load import Load
from tests.support.ports import free_port
from tests.support.three_brokers import Trio, leader_first, three_brokers
from tests.support.wire import WireClient, encode_frame, fetch_request, produce_request

PARTITIONS: Final = 12
MANY: Final = 60  # so many that each broker leads some
LONG_MS: Final = 300_000  # so that a fetch waits on, however long a broker takes to start
AGREED_S: Final = 30.0
DEAD_S: Final = 3.0
LEFT_S: Final = 0.5
LINGER_S: Final = 10.0
SLACK_S: Final = 1.5  # the machine is shared with other tests' processes


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three brokers; a test that ends one starts it again."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as trio:
        know_each_other(trio)
        yield trio


async def describe(bootstrap: str, topic: str) -> Any:
    """Return a broker's answer to Metadata."""
    async with await WireClient.connect(bootstrap) as wire:
        return await wire.describe(topic)


async def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the leader of each partition, by node id, as one broker sees it."""
    (described,) = (await describe(bootstrap, topic)).topics
    return {one.partition_index: one.leader_id for one in described.partitions}


def wait_until(what: str, holds: Callable[[], bool], timeout_s: float) -> float:
    """Wait until something holds; return how long that took, in seconds.

    It may take so much longer as somebody had to wait for a processor meanwhile.
    """
    stopwatch = Stopwatch()
    while not holds():
        assert stopwatch.is_within(timeout_s), f"{what}: not in {timeout_s} s"
        time.sleep(0.01)
    return stopwatch.elapsed_s()


def agree(bootstraps: Sequence[str], topic: str, node_ids: set[int]) -> bool:
    """Whether these brokers name the same leaders, each of `node_ids` for some partition."""
    seen = [asyncio.run(leaders(bootstrap, topic)) for bootstrap in bootstraps]
    return all(one == seen[0] for one in seen) and set(seen[0].values()) == node_ids


def know_each_other(trio: Trio) -> None:
    """Wait until each broker tells of all three, whichever test comes first."""

    def heard() -> bool:
        described = [asyncio.run(describe(one, "no-such-topic")) for one in trio.bootstraps]
        return all(len(one.brokers) == len(trio.brokers) for one in described)

    wait_until("all have heard of each other", heard, AGREED_S)


def node_ids(trio: Trio) -> list[int]:
    """Return the node id of each broker."""
    described = asyncio.run(describe(trio.bootstraps[0], "no-such-topic"))
    ids = {f"{one.host}:{one.port}": one.node_id for one in described.brokers}
    return [ids[bootstrap] for bootstrap in trio.bootstraps]


def node_ids_told(trio: Trio) -> list[int]:
    """Return the brokers that clients are told of: also those that have just gone."""
    described = asyncio.run(describe(trio.bootstraps[0], "no-such-topic"))
    return [one.node_id for one in described.brokers]


def one_batch() -> bytes:
    return build_batch(
        [Record(offset_delta=0, value=b"x")], base_timestamp_ms=time.time_ns() // 10**6
    )


async def test_all_brokers_name_the_same_leaders(trio: Trio, topic: str) -> None:
    # Given a topic with many partitions, and brokers that have heard of each other
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=60)
    heard = partial(agree, trio.bootstraps, topic, {0, 1, 2})
    await asyncio.to_thread(wait_until, "agreement", heard, AGREED_S)

    # When each broker is asked
    answers = [await describe(bootstrap, topic) for bootstrap in trio.bootstraps]

    # Then all tell the same, and each of them leads a third
    first = answers[0]
    assert [broker.node_id for broker in first.brokers] == [0, 1, 2]
    assert first.controller_id == 0
    assert all(answer.brokers == first.brokers for answer in answers)
    assert all(answer.topics == first.topics for answer in answers)
    led = [one.leader_id for one in first.topics[0].partitions]
    assert [led.count(node_id) for node_id in range(3)] == [20, 20, 20]
    for one in first.topics[0].partitions:
        assert one.replica_nodes == one.isr_nodes == (one.leader_id,)


async def test_a_replication_factor_is_reported_as_far_as_there_are_brokers(
    trio: Trio, topic: str
) -> None:
    async with await WireClient.connect(trio.bootstraps[0]) as wire:
        for factor in (2, 5):
            name = f"{topic}-{factor}"
            await wire.create_topic(name, partitions=4, replication_factor=factor)
            for one in (await describe(trio.bootstraps[0], name)).topics[0].partitions:
                assert len(one.replica_nodes) == min(factor, 3)
                assert one.replica_nodes[0] == one.leader_id


async def test_only_the_leader_appends_and_serves(trio: Trio, topic: str) -> None:
    # Given a topic
    await leader_first(trio, topic)
    leader = (await leaders(trio.bootstraps[0], topic))[0]
    described = await describe(trio.bootstraps[0], topic)
    ports = {broker.node_id: f"{broker.host}:{broker.port}" for broker in described.brokers}

    # When it is produced to and fetched from at each broker
    # Then the leader does it, and the others send clients there
    for node_id, bootstrap in ports.items():
        async with await WireClient.connect(bootstrap) as wire:
            wanted = ErrorCode.none if node_id == leader else ErrorCode.not_leader_or_follower
            assert (await wire.produce(topic, one_batch())).error_code == wanted
            assert (await wire.fetch(topic, 0)).error_code == wanted
            assert (await wire.list_offset(topic, -1)).error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("request_kind", "version", "is_told"),
    [
        ("produce", 9, False),
        ("produce", 10, True),
        ("produce", 13, True),
        ("fetch", 15, False),
        ("fetch", 16, True),
        ("fetch", 18, True),
    ],
)
async def test_who_asks_another_broker_is_told_where_the_leader_is(
    trio: Trio, topic: str, request_kind: str, version: int, is_told: bool
) -> None:
    # Given a topic, and the brokers that do not lead it
    leader, *others = await leader_first(trio, topic)
    described = await describe(leader.bootstrap, topic)
    (partition,) = described.topics[0].partitions
    name = topic if version < 13 else described.topics[0].topic_id
    request = fetch_request([(name, 0, 0)], version=version)
    if request_kind == "produce":
        request = produce_request(name, one_batch(), version=version)

    for broker in others:
        # When they are asked
        async with await WireClient.connect(broker.bootstrap) as wire:
            answer = await wire.ask(request)

        # Then they name the leader as Metadata does, in versions that can (KIP-951)
        (told,) = getattr(
            answer.responses[0], "partitions" if request_kind == "fetch" else "partition_responses"
        )
        assert told.error_code == ErrorCode.not_leader_or_follower
        if not is_told:  # what is not of the version, no client could read
            assert getattr(answer, "node_endpoints", ()) == ()
            continue
        hint = told.current_leader
        assert (hint.leader_id, hint.leader_epoch) == (partition.leader_id, partition.leader_epoch)
        (node,) = answer.node_endpoints
        assert node.node_id == partition.leader_id
        assert f"{node.host}:{node.port}" == leader.bootstrap


async def test_a_leader_epoch_from_before_is_served_and_one_to_come_is_not(
    trio: Trio, topic: str
) -> None:
    await leader_first(trio, topic)
    described = await describe(trio.bootstraps[0], topic)
    (partition,) = described.topics[0].partitions
    leader = next(one for one in described.brokers if one.node_id == partition.leader_id)
    assert partition.leader_epoch >= 2
    async with await WireClient.connect(f"{leader.host}:{leader.port}") as wire:
        older = await wire.fetch(topic, 0, leader_epoch=0)
        assert older.error_code == ErrorCode.none
        newer = await wire.fetch(topic, 0, leader_epoch=partition.leader_epoch + 1)
        assert newer.error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.alone
def test_a_killed_brokers_partitions_move_in_time(trio: Trio, topic: str) -> None:
    # Given a topic that all three lead parts of
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=MANY)
    wait_until("agreement", lambda: agree(trio.bootstraps, topic, {0, 1, 2}), AGREED_S)
    before = asyncio.run(leaders(trio.bootstraps[0], topic))
    node_id, others = node_ids(trio)[2], node_ids(trio)[:2]

    # When one is killed
    trio.brokers[2].kill()

    # Then the others name themselves in its place, and keep what they had
    took_s = wait_until(
        "takeover", lambda: agree(trio.bootstraps[:2], topic, set(others)), DEAD_S + SLACK_S
    )
    print(f"kill -9 to new leaders on all brokers: {took_s:.2f} s")  # noqa: T201
    assert node_id in node_ids_told(trio)  # for a moment: librdkafka is not to forget it at once
    after = asyncio.run(leaders(trio.bootstraps[0], topic))
    assert {at: led for at, led in before.items() if led != node_id} == {
        at: led for at, led in after.items() if before[at] != node_id
    }
    trio.restart(2)


@pytest.mark.alone
def test_a_stopping_brokers_partitions_move_at_once(trio: Trio, topic: str) -> None:
    # Given a topic that all three lead parts of
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=MANY)
    wait_until("agreement", lambda: agree(trio.bootstraps, topic, {0, 1, 2}), AGREED_S)
    others = node_ids(trio)[:2]

    # When one is asked to stop
    stopping = trio.brokers[2]
    stopping.process.send_signal(signal.SIGTERM)

    # Then its partitions have new leaders before it is gone
    took_s = wait_until(
        "handover", lambda: agree(trio.bootstraps[:2], topic, set(others)), LEFT_S + SLACK_S
    )
    print(f"SIGTERM to new leaders on all brokers: {took_s:.2f} s")  # noqa: T201
    assert stopping.stop() == 0
    trio.restart(2)


def test_a_rolling_restart_under_load_fails_no_send(trio: Trio, topic: str) -> None:
    # Given a producer and a consumer at work
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=PARTITIONS)
    with Load(trio.bootstrap, topic, PARTITIONS).running() as load:
        load.wait_for_acknowledgements(200)

        # When one broker after the other is stopped and started again
        for at in range(3):
            assert trio.brokers[at].stop() == 0
            load.wait_for_acknowledgements(200)
            trio.restart(at)
            load.wait_for_acknowledgements(200)

    # Then no send failed, and each record is in the log once; the brokers are who they were
    load.check()
    described = asyncio.run(describe(trio.bootstraps[0], topic))
    assert [broker.node_id for broker in described.brokers] == [0, 1, 2]


async def test_a_fetch_that_waits_is_told_when_its_partition_moves(trio: Trio, topic: str) -> None:
    # Given a fetch that waits for long, of so many partitions that another broker gets some of them
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=200)
    heard = partial(agree, trio.bootstraps, topic, {0, 1, 2})
    await asyncio.to_thread(wait_until, "agreement", heard, AGREED_S)
    before = await leaders(trio.bootstraps[0], topic)
    described = await describe(trio.bootstraps[0], topic)
    ports = {f"{one.host}:{one.port}": one.node_id for one in described.brokers}
    here = ports[trio.bootstraps[0]]
    async with await WireClient.connect(trio.bootstraps[0]) as wire:
        mine = [at for at, led in before.items() if led == here]
        request = fetch_request([(topic, at, 0) for at in mine], max_wait_ms=LONG_MS)
        await wire.send(encode_frame(request, 1))

        # When a broker comes that takes some of its partitions over
        fourth = await asyncio.to_thread(trio.start, "fourth")
        try:
            after = await leaders(fourth.bootstrap, topic)
            assert any(after[at] != here for at in mine)

            # Then it is answered at once, and told which
            _, answer = await wire.receive(request)
        finally:
            await asyncio.to_thread(fourth.stop)
            fourth.kill()
    told = {one.partitions[0].partition_index: one.partitions[0] for one in answer.responses}
    for at in mine:
        moved = after[at] != here
        assert (told[at].error_code == ErrorCode.not_leader_or_follower) == moved


def test_who_comes_with_the_address_of_a_live_broker_does_not_end_it(trio: Trio) -> None:
    # Given a broker
    first = trio.brokers[0]

    # When another process comes with the same advertised address
    # Then that one ends after a while with a message that names the remedy
    with pytest.raises(BrokerFailed, match=f"alive advertises {first.bootstrap}.*--advertise"):
        start_broker(
            trio.home / "newcomer",
            *(*trio.arguments, "--advertise", first.bootstrap),
            environment=trio.environment,
            program=("tests.support.impatient_broker",),
        )

    # And nobody has noticed
    assert sorted(node_ids(trio)) == [0, 1, 2]
    assert all(broker.process.poll() is None for broker in trio.brokers)


def test_a_killed_broker_comes_back_without_waiting(trio: Trio) -> None:
    # Given a broker that is told to advertise an address, as behind a load balancer
    address = f"127.0.0.1:{free_port()}"
    killed = trio.start("killed", "--advertise", address)

    # When it is killed and started again at once
    killed.kill()
    again = trio.start("killed", "--advertise", address)

    # Then nobody had to be called dead first
    assert "waiting for another broker" not in again.log.read_text()
    assert again.stop() == 0


def test_a_displaced_broker_ends_and_says_why(trio: Trio) -> None:
    # Given a broker that is silent for so long that it is called dead
    first = trio.brokers[0]
    first.process.send_signal(signal.SIGSTOP)

    # When another process has come with the same advertised address, and the first one wakes up
    usurper = trio.start("usurper", "--advertise", first.bootstrap)
    first.process.send_signal(signal.SIGCONT)

    # Then the first one ends with a message that names the remedy
    assert first.process.wait(10) == 1
    assert "--advertise" in first.log.read_text()
    first.kill()
    assert usurper.stop() == 0
    trio.restart(0)


async def test_a_consumer_is_sent_to_its_rack(tmp_path: Path, topic: str) -> None:
    with three_brokers(tmp_path, racks=True) as trio:
        # Given a topic whose leader is in one rack, and brokers that have heard of each other
        await leader_first(trio, topic)
        described = await describe(trio.bootstraps[0], topic)
        (partition,) = described.topics[0].partitions
        brokers = {broker.node_id: broker for broker in described.brokers}
        leader = brokers[partition.leader_id]
        assert sorted(brokers[one].rack for one in partition.replica_nodes) == ["a", "b", "c"]

        # When a consumer in each rack fetches from the leader
        # Then it is told to read from the broker in its rack, if that is another one (KIP-392)
        async with await WireClient.connect(f"{leader.host}:{leader.port}") as wire:
            for broker in brokers.values():
                request = fetch_request([(topic, 0, 0)], rack=broker.rack)
                (answer,) = (await wire.ask(request)).responses[0].partitions
                wanted = -1 if broker is leader else broker.node_id
                assert (answer.error_code, answer.preferred_read_replica) == (0, wanted)

        # And the one in its rack serves it
        other = next(broker for broker in brokers.values() if broker is not leader)
        async with await WireClient.connect(f"{other.host}:{other.port}") as wire:
            request = fetch_request([(topic, 0, 0)], rack=other.rack)
            (answer,) = (await wire.ask(request)).responses[0].partitions
            assert (answer.error_code, answer.preferred_read_replica) == (0, -1)


def test_all_brokers_can_be_replaced_under_load(trio: Trio, topic: str) -> None:
    # Given a producer and a consumer at work, which were told of three brokers
    Confluent(bootstrap=trio.bootstrap).create_topic(topic, partition_count=PARTITIONS)
    before = node_ids(trio)
    with Load(trio.bootstrap, topic, PARTITIONS).running() as load:
        load.wait_for_acknowledgements(200)

        # When each of these goes for ever, with its disk, and another one comes on another port
        for at in range(3):
            successor = trio.start(f"successor-{at}")
            assert trio.brokers[at].stop() == 0
            trio.brokers[at] = successor
            load.wait_for_acknowledgements(200)

    # Then no send failed, and each record is in the log once
    load.check()
    described = asyncio.run(describe(trio.bootstraps[0], topic))
    assert not {one.leader_id for one in described.topics[0].partitions} & set(before)
    wait_until("oblivion", lambda: not set(node_ids_told(trio)) & set(before), LINGER_S + SLACK_S)
