"""Requests that wait for other members: what they may hold meanwhile."""

from kio.schema.errors import ErrorCode

from broker.groups.group_requests import MAX_JOIN_BYTES, MAX_JOIN_PROTOCOLS, MAX_SYNC_BYTES
from tests.broker.groups.conftest import MakeMember
from tests.support.broker import BrokerProcess
from tests.support.group_members import stable, until_rebalance
from tests.support.group_wire import join_request, sync_request
from tests.support.request_memory import held_bytes, until_held
from tests.support.wire import WireClient, encode_frame


async def test_who_waits_for_others_holds_no_frame(
    group_broker: BrokerProcess, client: WireClient, member: MakeMember, group: str
) -> None:
    # Given a stable group, and a new member whose large join waits for the first
    first = await member()
    await stable(first)
    metadata = {"range": b"x" * (MAX_JOIN_BYTES - 1000)}
    answer = await client.ask(join_request(group, protocols=metadata))
    join = join_request(group, answer.member_id, protocols=metadata)
    await client.send(encode_frame(join, 1))
    await until_rebalance(first)

    # Then the memory of its frame is given back
    await until_held(group_broker, 0)

    # And when the first joins, the new one syncs with assignments that nobody asked it for
    led = await first.join()
    _, joined = await client.receive(join)
    assert (led.generation_id, joined.generation_id) == (2, 2)
    sync = sync_request(group, joined.member_id, 2, {"a": b"x" * 1_000_000})
    await client.send(encode_frame(sync, 2))
    await until_held(group_broker, 0)

    # Then it is answered by the leader's, and nothing was given back twice
    await first.sync({joined.member_id: b"yours"})
    _, synced = await client.receive(sync)
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"yours")
    assert held_bytes(group_broker) == 0


async def test_what_a_member_may_say_has_an_end(
    group_broker: BrokerProcess, client: WireClient, group: str
) -> None:
    # What a member says of itself
    wrong: tuple[dict[str, bytes], ...] = (
        {"range": b"x" * MAX_JOIN_BYTES},
        {str(number): b"" for number in range(MAX_JOIN_PROTOCOLS + 1)},
    )
    for protocols in wrong:
        answer = await client.ask(join_request(group, protocols=protocols))
        assert answer.error_code is ErrorCode.invalid_request

    # What a leader says of all
    synced = await client.ask(sync_request(group, "m", 1, {"m": b"x" * MAX_SYNC_BYTES}))
    assert synced.error_code is ErrorCode.invalid_request
    await until_held(group_broker, 0)


async def test_the_memory_of_who_is_gone_is_given_back_once(
    group_broker: BrokerProcess, member: MakeMember, group: str
) -> None:
    # Given a stable group, and a new member whose join waits
    first = await member()
    await stable(first)
    async with await WireClient.connect(group_broker.bootstrap) as gone:
        answer = await gone.ask(join_request(group))
        join = join_request(group, answer.member_id, protocols={"range": b"x" * 500_000})
        await gone.send(encode_frame(join, 1))
        await until_rebalance(first)
        await until_held(group_broker, 0)

    # When its connection breaks, and then it is answered
    assert (await first.join()).generation_id == 2

    # Then what is counted is still right
    await until_held(group_broker, 0)
