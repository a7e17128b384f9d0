"""Topics that a client names and the broker does not know: what it is told, and what it costs."""

import asyncio
from typing import Final

from broker.topic_lookups import LOOKUP, LOOKUP_INTERVAL_S
from tests.broker.topic_stores import Store, create, created, topics_of
from tests.support import virtual_time

ASKING_S: Final = 5.0


async def test_who_asks_while_a_lookup_is_under_way_waits_for_it() -> None:
    # Given a topic that another broker has made, and a client that asks this one for it
    store = Store()
    here = topics_of(store)
    await create(store, "new")
    store.holds = True
    first = asyncio.create_task(here.find("new"))
    await store.made.wait()

    # When others ask before Postgres has answered
    (known,) = (await store.topic_changes(0)).changed
    others = [
        asyncio.create_task(here.find("new")),
        asyncio.create_task(here.find(topic_id=known.topic_id)),
    ]
    await asyncio.sleep(0)
    store.let_go.set()

    # Then all of them find it
    found = await asyncio.gather(first, *others)
    assert [each and each.topic for each in found] == [known] * 3


async def test_a_lookup_that_began_before_a_topic_was_made_tells_nothing_of_it() -> None:
    # Given a lookup that is under way
    store = Store()
    here = topics_of(store)
    store.holds = True
    first = asyncio.create_task(here.find("new"))
    await store.made.wait()

    # When the topic is made, and a client asks for it
    await create(store, "new")
    second = asyncio.create_task(here.find("new"))
    await asyncio.sleep(0)
    store.let_go.set()

    # Then there is one for who asked after it was made
    assert await first is None
    assert await second is not None


def test_clients_that_ask_for_unknown_topics_all_the_time_share_a_few_lookups() -> None:
    store = Store()
    here = topics_of(store)

    async def ask(names: int) -> None:
        """One request after the other, as a connection does."""
        while asyncio.get_running_loop().time() < ASKING_S:
            LOOKUP.set(None)
            assert [await here.find(f"unknown-{at}") for at in range(names)] == [None] * names

    async def ask_all() -> None:
        await asyncio.gather(*(ask(names) for names in (1, 1, 1, 100)))

    # When clients ask all the time, one of them for many at once, then they are made to wait
    virtual_time.run(ask_all())
    assert ASKING_S / LOOKUP_INTERVAL_S <= len(store.asked) <= 2 * ASKING_S / LOOKUP_INTERVAL_S + 2


def test_who_creates_topics_that_are_not_found_is_not_made_to_wait() -> None:
    store = Store()
    here = topics_of(store)

    async def create_all() -> float:
        for at in range(100):
            LOOKUP.set(None)
            assert await here.find(f"topic-{at}") is None
            await here.change(created(store, f"topic-{at}"))
        return asyncio.get_running_loop().time()

    # When a client makes one topic after the other, each after a lookup, then no time passes
    assert virtual_time.run(create_all()) < LOOKUP_INTERVAL_S
