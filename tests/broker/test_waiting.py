"""Waiting for several futures."""

import asyncio

from broker.waiting import wait_all


async def test_it_waits_for_all() -> None:
    # Given two futures, one of which has failed
    loop = asyncio.get_running_loop()
    failed, late = loop.create_future(), loop.create_future()
    failed.set_exception(ValueError("for the caller"))
    waiting = asyncio.create_task(wait_all([failed, late], None))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()

    # When the other one is there, then it is over; the error is the caller's
    late.set_result(1)
    await waiting
    assert isinstance(failed.exception(), ValueError)


async def test_it_does_not_wait_longer_than_it_may() -> None:
    # Given a future that nobody resolves in time
    late = asyncio.get_running_loop().create_future()

    # When the time is over, then it is not done, and may be later
    await wait_all([late], 0.01)
    assert not late.done()
    late.set_result(None)
    await asyncio.sleep(0)
