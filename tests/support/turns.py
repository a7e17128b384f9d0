"""Whether the event loop goes on for others while one thing takes long."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def others_going_on(turns: Iterator[int]) -> AsyncIterator[None]:
    """Take one of `turns` whenever somebody else has one, for the length of the block."""

    async def go_on() -> None:
        for _ in turns:
            await asyncio.sleep(0)

    going_on = asyncio.create_task(go_on())
    yield
    going_on.cancel()
