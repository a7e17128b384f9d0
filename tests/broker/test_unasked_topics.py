"""Topics that are created because somebody asks about them: what those cost that cannot be."""

import time
from types import SimpleNamespace
from typing import Final, cast

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.broker_configs import read_broker_config
from broker.refusals import Refusal
from broker.requests import Request
from broker.topics import Topics
from broker.unasked_topics import create_unasked
from tests.broker.topic_stores import Store, create, created, topics_of

TOPICS: Final = 10_000
NAMES: Final = 400


def asking(topics: Topics, store: Store) -> Request:
    """Return the request of a client that may create topics."""
    services = SimpleNamespace(topics=topics, metadata=store, config=read_broker_config({}))
    request = SimpleNamespace(services=services, version=13, mutate=lambda *_, **__: None)
    return cast("Request", request)


async def refused(request: Request, name: str) -> ErrorCode:
    with pytest.raises(Refusal) as caught:
        await create_unasked(request, name)
    return caught.value.code


async def test_names_that_collide_cost_the_same_however_many_topics_there_are() -> None:
    # Given very many topics
    store = Store()
    topics = topics_of(store)
    await create(store, *(f"team.service{at}.events" for at in range(TOPICS)))
    await topics.refresh()

    # When a client asks about names that metrics could not tell from theirs
    request, begin_s = asking(topics, store), time.process_time()
    codes = {await refused(request, f"team_service{at}_events") for at in range(NAMES)}

    # Then each is refused, without a look at every topic
    assert codes == {ErrorCode.invalid_topic_exception}
    assert time.process_time() - begin_s < 1.0  # with a look for each: five seconds


async def test_a_name_is_free_again_once_the_one_it_collides_with_is_gone() -> None:
    # Given a topic
    store = Store()
    topics = topics_of(store)
    known = await topics.change(created(store, "a.b"))
    request = asking(topics, store)
    assert await refused(request, "a_b") is ErrorCode.invalid_topic_exception
    assert await refused(request, "a.b") is ErrorCode.topic_already_exists

    # When it is deleted
    await store.delete_topic(known.topic.topic_id)
    topics.deleted(known.topic.topic_id)

    # Then the other can be made, and keeps the first one's name from being taken
    assert (await create_unasked(request, "a_b")).topic.name == "a_b"
    assert await refused(request, "a.b") is ErrorCode.invalid_topic_exception
