"""A load that callers share, one of whom may be gone before it ends."""

import asyncio
from typing import Any

import pytest

from broker.shared_load import SharedLoad
from storage.errors import MetadataUnavailable


async def test_a_load_that_fails_when_all_are_gone_is_no_error_of_the_program() -> None:
    # Given a load that somebody waits for
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    away = asyncio.Event()

    async def load() -> None:
        await away.wait()
        raise MetadataUnavailable("away")

    shared = SharedLoad(load)
    asking = asyncio.create_task(shared.run())
    await asyncio.sleep(0)

    # When that one goes, and then it fails
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    away.set()
    await asyncio.sleep(0.01)

    # Then the loop has nothing to report, and who asks next hears the reason
    assert told == []
    with pytest.raises(MetadataUnavailable, match="away"):
        await shared.run()
