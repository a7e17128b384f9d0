"""What is remembered of the schema registry's answers, on a clock of its own."""

import asyncio
from collections import Counter

import pytest
from prometheus_client import CollectorRegistry

from broker.schemas.registry_client import RegistryClient, RegistryUnavailable
from broker.schemas.schema_metrics import RegistryMetrics
from broker.schemas.schema_registry import BELIEVED_S, Answers
from broker.secrets_config import RegistryLogin
from tests.support.virtual_time import run


class Source:
    """Answers after a second; counts how often it was asked."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.fails = False
        self.asked: Counter[int] = Counter()

    async def ask(self, key: int) -> str | None:
        self.asked[key] += 1
        await asyncio.sleep(1)
        if self.fails:
            raise RegistryUnavailable("gone")
        return f"schema {key}" if key in self.known else None


def test_who_asks_the_same_at_the_same_time_shares_an_answer() -> None:
    async def story() -> None:
        source = Source()
        source.known = {1, 2}
        answers = Answers(source.ask, max_remembered=10, unknown_s=5)

        # When many ask at once, and again later
        found = await asyncio.gather(*(answers.get(key) for key in (1, 2, 1, 1, 2)))
        assert await answers.get(1) == "schema 1"

        # Then each question went out once
        assert found == ["schema 1", "schema 2", "schema 1", "schema 1", "schema 2"]
        assert source.asked == {1: 1, 2: 1}

    run(story())


def test_the_unknown_is_asked_for_again_after_seconds_and_the_known_after_an_hour() -> None:
    async def story() -> None:
        source = Source()
        answers = Answers(source.ask, max_remembered=10, unknown_s=5)

        # Given something that was not there
        assert await answers.get(1) is None
        source.known = {1}
        await asyncio.sleep(4.5)
        assert await answers.get(1) is None
        # When its time is over, then it is found, and believed for long
        await asyncio.sleep(1)
        assert await answers.get(1) == "schema 1"
        source.known = set()
        await asyncio.sleep(BELIEVED_S - 10)
        assert await answers.get(1) == "schema 1"
        assert source.asked[1] == 2
        # Until that is over, too
        await asyncio.sleep(20)
        assert await answers.get(1) is None

    run(story())


def test_what_was_known_is_believed_while_nobody_answers() -> None:
    async def story() -> None:
        source = Source()
        source.known = {1}
        answers = Answers(source.ask, max_remembered=10, unknown_s=5)
        await answers.get(1)

        source.fails = True
        await asyncio.sleep(2 * BELIEVED_S)

        assert await answers.get(1) == "schema 1"
        assert source.asked[1] == 2
        with pytest.raises(RegistryUnavailable):
            await answers.get(2)

    run(story())


def test_only_the_answers_used_last_are_kept_and_guesses_push_out_none_of_them() -> None:
    async def story() -> None:
        source = Source()
        source.known = {1, 2, 3}
        answers = Answers(source.ask, max_remembered=2, unknown_s=5)

        for key in (1, 2, 1, 3, *range(10, 20), 1):  # 3 takes the place of 2
            await answers.get(key)
        assert source.asked[1] == 1
        await answers.get(2)
        assert source.asked[2] == 2

    run(story())


async def test_what_is_answered_while_it_is_closed_does_not_open_a_registry_again() -> None:
    # Given a request under way
    class Held(RegistryClient):
        async def _ask(self, url: str) -> object | None:
            asked.set()
            await answered.wait()
            return {"schema": "{}"}

    asked, answered = asyncio.Event(), asyncio.Event()
    client = Held(
        ["http://registry"],
        login=RegistryLogin(),
        timeout_s=1,
        metrics=RegistryMetrics(CollectorRegistry()),
    )
    getting = asyncio.create_task(client.get("/schemas/ids/1"))
    await asked.wait()

    # When the client is closed before its answer comes
    await client.close()
    answered.set()
    assert await getting == {"schema": "{}"}

    # Then nobody is told from now on that something does not exist
    with pytest.raises(RegistryUnavailable, match="shutting down"):
        await client.get("/schemas/ids/1")
