"""The broker's copy of the topics: what brings it up to date, and what it forgets."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final

import pytest

from broker.gradual import MANY
from broker.topics import KnownTopic, Topics
from storage.errors import ConfigsChanged, MetadataUnavailable, UnknownPartition
from storage.metadata.topics import Topic, TopicChanges
from tests.broker.topic_stores import Partitions, Store, create, created, topics_of
from tests.support.fakes.metadata import MemoryMetadata

MANY_TOPICS: Final = 1_000
LATER: Final = ("altered", "deleted", "again")


async def alter(
    topics: Topics, store: MemoryMetadata, name: str, changes: Mapping[str, str | None]
) -> KnownTopic:
    """Alter a topic if it is what `topics` knows; raises ConfigsChanged."""
    known = topics.get(name)
    assert known is not None
    altering = store.alter_topic_configs(
        known.topic.topic_id, changes, replace=False, expected=known.topic.configs
    )
    return await topics.change(altering, of=known.topic)


async def delete(topics: Topics, store: MemoryMetadata, name: str) -> None:
    known = topics.get(name)
    assert known is not None
    await store.delete_topic(known.topic.topic_id)
    topics.deleted(known.topic.topic_id)


def known_topics(topics: Topics) -> dict[str, Topic]:
    """Return what is known by name, and check that the same is known by id and as names."""
    known = {each.topic.name: each.topic for each in topics.all()}
    assert {name for names in topics.names._by_key.values() for name in names} == set(known)
    assert set(topics._by_id) == {topic.topic_id for topic in known.values()}
    return known


async def test_what_went_elsewhere_is_forgotten_after_a_conflict_too() -> None:
    # Given two brokers that know two topics
    store, partitions = Store(), Partitions()
    here, there = topics_of(store, partitions), topics_of(store)
    await create(store, "stays", "goes")
    await asyncio.gather(here.refresh(), there.refresh())
    gone = known_topics(here)["goes"].topic_id

    # When one alters the first and deletes the second, before the other alters the first
    await alter(there, store, "stays", {"retention.ms": "1000"})
    await delete(there, store, "goes")
    with pytest.raises(ConfigsChanged):
        await alter(here, store, "stays", {"retention.bytes": "1000"})

    # Then the next look brings both, and reads no more than what is new
    await here.refresh()
    assert known_topics(here) == known_topics(there)
    assert partitions.forgotten == {gone}
    assert store.asked[-1] > 0

    # And the change can be made
    altered = await alter(here, store, "stays", {"retention.bytes": "1000"})
    assert altered.topic.configs == {"retention.ms": "1000", "retention.bytes": "1000"}


async def test_topics_that_a_failover_lost_are_forgotten() -> None:
    # Given a copy of what Postgres has lost, but for one topic
    store, standby = Store(), Store()
    topics = topics_of(store)
    await create(store, "kept", "lost", "lost too")
    await create(standby, "kept")
    await topics.refresh()

    # When Postgres goes back to an older version, then the next look finds what is
    topics._news._metadata = standby
    await topics.refresh()
    assert list(known_topics(topics)) == ["kept"]


@pytest.mark.parametrize(
    ("name", "refusal"), [("kept", ConfigsChanged), ("lost", UnknownPartition)]
)
async def test_a_copy_that_postgres_contradicts_without_news_is_read_anew(
    name: str, refusal: type[Exception]
) -> None:
    # Given a copy of what Postgres has lost in a failover, and as many changes made since
    store, standby = Store(), Store()
    topics = topics_of(store)
    await create(store, "kept", "lost")
    await topics.refresh()
    await alter(topics, store, "kept", {"retention.ms": "1"})
    await create(standby, "kept")
    standby._random.seed(8)  # what it gains is not what was lost
    await create(standby, "gained", "gained too")
    await topics.refresh()
    topics._news._metadata = standby
    await topics.refresh()
    assert set(known_topics(topics)) == {"kept", "lost"}

    # When it refuses a change that rests on what is not there
    with pytest.raises(refusal):
        await alter(topics, standby, name, {"retention.ms": "2"})

    # Then the next look finds what is, and the one after that only looks for news
    await topics.refresh()
    assert set(known_topics(topics)) == {"kept", "gained", "gained too"}
    assert known_topics(topics)["kept"].configs == {}
    await topics.refresh()
    assert standby.asked[-1] > 0


@pytest.mark.parametrize("before", [(), ("earlier",)])
async def test_a_topic_that_took_the_version_of_a_lost_one_is_found(
    before: tuple[str, ...],
) -> None:
    # Given a copy of what Postgres has lost in a failover, and as many changes made since
    store, standby = Store(), Store()
    topics = topics_of(store)
    await create(store, *before, "lost")
    await topics.refresh()
    await create(standby, *before)
    standby._random.seed(8)  # what it gains is not what was lost
    await create(standby, "gained")
    topics._news._metadata, standby.server = standby, 1

    # When a client asks for what was made since, then it is found, and what was lost is gone
    assert await topics.find("gained") is not None
    assert set(known_topics(topics)) == {*before, "gained"}

    # And the next look only looks for news
    await topics.refresh()
    assert standby.asked[-1] > 0


class TakingOver(Store):
    """A server that took over. It gives one answer to who asks for all, and none behind that.

    Attributes:
        meanwhile: what happens before that answer arrives.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = 1
        self.meanwhile: Awaitable[object] | None = None
        self.is_away = False

    async def topic_changes(self, since_version: int) -> TopicChanges:
        if self.is_away:
            raise MetadataUnavailable("away")
        answer = await super().topic_changes(since_version)
        if since_version == 0 and self.meanwhile is not None:
            await self.meanwhile
            self.meanwhile, self.is_away = None, True
        return answer


async def test_a_reading_of_all_that_did_not_end_is_done_again() -> None:
    # Given a copy of what Postgres has lost in a failover, and as many changes made since
    store, standby = Store(), TakingOver()
    topics = topics_of(store)
    await create(store, "lost")
    await topics.refresh()
    standby._random.seed(8)  # what it gains is not what was lost
    await create(standby, "gained")
    topics._news._metadata = standby

    # When one more that is lost is heard of while all is read, and then there is no answer
    standby.meanwhile = topics.change(created(store, "lost too"))
    with pytest.raises(MetadataUnavailable):
        await topics.refresh()
    assert set(known_topics(topics)) == {"gained", "lost too"}

    # Then the next look finds what is, and the one after that only looks for news
    standby.is_away = False
    await topics.refresh()
    assert set(known_topics(topics)) == {"gained"}
    await topics.refresh()
    assert standby.asked[-1] > 0


async def test_a_name_that_passes_to_another_topic_is_known_all_the_time() -> None:
    # Given a topic that another broker deletes and makes again
    store = Store()
    here, there = topics_of(store), topics_of(store)
    await create(store, "again")
    await asyncio.gather(here.refresh(), there.refresh())
    seen: list[KnownTopic | None] = []
    here.watch(lambda: seen.append(here.get("again")))
    await delete(there, store, "again")
    await create(store, "again")

    # When this broker hears of it, then the name goes from one to the other
    await here.refresh()
    await there.refresh()
    assert known_topics(here) == known_topics(there)
    assert seen
    assert None not in seen


async def test_a_creation_whose_answer_comes_late_does_not_hide_a_younger_topic() -> None:
    # Given a topic that is made here, deleted and made again elsewhere, and known here as such
    store, answered = Store(), asyncio.Event()
    here, there = topics_of(store), topics_of(store)
    await create(store, "other")
    await here.refresh()

    async def create_slowly() -> Topic:
        topic = await created(store, "again")
        await answered.wait()
        return topic

    creating = asyncio.create_task(here.change(create_slowly()))
    await asyncio.sleep(0)
    await there.refresh()
    await delete(there, store, "again")
    await create(store, "again")
    await asyncio.gather(here.refresh(), there.refresh())

    # When the answer to the first creation comes
    answered.set()
    await creating

    # Then the next look brings the younger one back
    await here.refresh()
    assert known_topics(here) == known_topics(there)


async def test_a_long_answer_leaves_others_their_turn_and_what_they_change() -> None:
    # Given a broker that knows two topics, and hears of many
    store = Store()
    await create(store, *(f"topic-{at}" for at in range(MANY_TOPICS)))
    here, there = topics_of(store), topics_of(store)
    for name in ("altered", "deleted"):
        await here.change(created(store, name))
    await create(store, "again")
    await there.refresh()
    refreshing = asyncio.create_task(here.refresh())
    turns = 0
    while len(list(here.all())) < MANY_TOPICS / 2:
        await asyncio.sleep(0)
        turns += 1

    # When these, and one that it is about to hear of, are changed before it knows all
    await alter(here, store, "altered", {"retention.ms": "1"})
    await delete(here, store, "deleted")
    await delete(there, store, "again")
    await here.change(created(store, "again"))
    mine = {name: known for name, known in known_topics(here).items() if name in LATER}
    assert set(mine) == {"altered", "again"}

    # Then nothing undoes that, at any time
    while not refreshing.done():
        await asyncio.sleep(0)
        turns += 1
        assert {name: each for name, each in known_topics(here).items() if name in LATER} == mine
    assert turns > MANY_TOPICS / MANY

    # And in the end it knows what others know
    await there.refresh()
    assert known_topics(here) == known_topics(there)


class SlowStore(Store):
    """What it answers is a few turns of the event loop old when it arrives."""

    async def topic_changes(self, since_version: int) -> TopicChanges:
        answer = await super().topic_changes(since_version)
        for _ in range(5):
            await asyncio.sleep(0)
        return answer


@pytest.mark.parametrize("old", [(), ("old",)], ids=["new cluster", "old cluster"])
async def test_a_refresh_ends_while_topics_are_made_here_all_the_time(old: tuple[str, ...]) -> None:
    # Given a broker on which clients make one topic after the other
    store = SlowStore()
    here, there = topics_of(store), topics_of(store)
    await create(store, *old)
    await here.refresh()

    async def make_topics(client: int) -> None:
        for number in range(1000):
            await asyncio.sleep(0)
            await here.change(created(store, f"topic-{client}-{number}"))

    making = [asyncio.create_task(make_topics(client)) for client in range(4)]
    await asyncio.sleep(0)

    # When it brings its copy up to date
    for _ in range(5):
        asked = len(store.asked)
        await here.refresh()

        # Then that takes two or three questions, not as many as it takes to make them all
        assert len(store.asked) - asked <= 3
    assert not any(each.done() for each in making)

    # And in the end it knows what others know
    await asyncio.gather(*making)
    await asyncio.gather(here.refresh(), there.refresh())
    assert known_topics(here) == known_topics(there)
