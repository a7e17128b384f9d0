"""A whole broker under frames and garbage; `python -m tests.fuzz broker` is the long form."""

import asyncio
from pathlib import Path

import psutil

from tests.conftest import Tell
from tests.fuzz.broker_run import attack, judge, prepare
from tests.support.broker import running_broker


async def test_a_broker_answers_whatever_comes(tmp_path: Path, tell: Tell) -> None:
    # Given a broker with topics
    with running_broker(tmp_path) as broker:
        await prepare(broker.bootstrap)
        rss = psutil.Process(broker.pid).memory_info().rss

        # When many connections send it damaged requests, well-formed ones, and garbage
        async with asyncio.timeout(600):
            seen = await attack(broker.bootstrap, seconds=8, seed=1, connections=20, frames=2000)

        # Then it has met no bug, lets go of their memory, and serves others
        assert await judge(broker, rss) == []
        assert seen.answered > 10_000
        tell(f"{seen}")
