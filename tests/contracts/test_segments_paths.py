"""What storage/metadata/segments.py promises, asked of every metadata store: names of segments."""

import re
from collections.abc import AsyncIterator

import pytest

from protocol.ids import Partition
from storage.metadata.topics import Topic
from tests.contracts.metadata_stores import KINDS
from tests.contracts.segment_side import Segments, open_segments


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def create(segments: Segments, name: str) -> Topic:
    return await segments.store.create_topic(
        name, partition_count=2, replication_factor=1, configs={}
    )


async def reserve(segments: Segments, topic: Topic, start_offset: int, end_offset: int) -> str:
    path = await segments.store.reserve_segment(
        Partition(topic.topic_id, 1), start_offset, end_offset
    )
    assert path is not None
    return path


async def test_a_segment_is_named_for_what_it_holds(segments: Segments) -> None:
    # Given a topic that never had a segment
    topic = await create(segments, "user-events")
    assert await segments.store.topic_folder(topic.topic_id) is None

    # When paths are reserved, then they tell topic, partition, first and last offset
    folder = "topics/user-events/partitions/1/segments"
    assert await reserve(segments, topic, 0, 9) == f"{folder}/00000000-00000009.seg"
    path = await reserve(segments, topic, 10, 123_456_789_012)
    assert path == f"{folder}/00000010-123456789012.seg"
    assert (await segments.states())[path] == "pending"
    assert await segments.store.topic_folder(topic.topic_id) == "topics/user-events"


async def test_a_range_that_comes_again_has_another_name(segments: Segments) -> None:
    # Given a range whose path was reserved, and whose object is gone without a trace
    topic = await create(segments, "orders")
    paths = [await reserve(segments, topic, 0, 9)]
    await segments.store.doom_abandoned(0, 9)
    await segments.store.forget_objects(paths)
    assert await segments.states() == {}

    # When it is reserved again, and again, then the path is another each time
    paths += [await reserve(segments, topic, 0, 9) for _ in range(2)]
    folder = "topics/orders/partitions/1/segments"
    assert paths[0] == f"{folder}/00000000-00000009.seg"
    for path in paths[1:]:
        assert re.fullmatch(re.escape(folder) + r"/00000000-00000009\.[0-9a-f]{8}\.seg", path)
    assert len(set(paths)) == 3


async def test_a_topic_made_again_never_meets_old_paths(segments: Segments) -> None:
    # Given a topic with a segment that is deleted, with all that it had
    old = await create(segments, "orders")
    path = await reserve(segments, old, 0, 9)
    await segments.store.delete_topic(old.topic_id)
    await segments.purge()
    await segments.store.doom_abandoned(0, 9)
    await segments.store.forget_objects([path])

    # When it is made again, twice, then each has a folder of its own
    folders = ["topics/orders"]
    for _ in range(2):
        topic = await create(segments, "orders")
        folder = f"topics/orders.{topic.topic_id.hex[:8]}"
        assert await reserve(segments, topic, 0, 9) == (
            f"{folder}/partitions/1/segments/00000000-00000009.seg"
        )
        assert await segments.store.topic_folder(topic.topic_id) == folder
        folders.append(folder)
        await segments.store.delete_topic(topic.topic_id)
    assert len(set(folders)) == 3

    # And what is left of the old one can be found by its id
    assert await segments.store.topic_folder(old.topic_id) == "topics/orders"


async def test_a_long_name_leaves_room_for_what_tells_it_from_another(segments: Segments) -> None:
    # Given topics with names as long as they may be, which are alike to their last letters
    names = ["x" * 249, "x" * 248 + "y"]
    old = [await create(segments, name) for name in names]
    folders = [(await reserve(segments, topic, 0, 9)).split("/")[1] for topic in old]
    assert folders == names

    # When they are made again, then each folder has a name that a file system takes
    for topic in old:
        await segments.store.delete_topic(topic.topic_id)
        made = await create(segments, topic.name)
        folders.append((await reserve(segments, made, 0, 9)).split("/")[1])
        assert folders[-1] == f"{'x' * 246}.{made.topic_id.hex[:8]}"
    assert len(set(folders)) == 4
