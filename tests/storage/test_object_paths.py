"""Reserved paths: each is given once, and none that the sweeper may have given up."""

import itertools
from collections.abc import AsyncIterator, Sequence
from random import Random
from uuid import UUID

import pytest

from storage.config import RESERVED_LIFETIME_S
from storage.errors import MetadataUnavailable
from storage.objects.object_paths import RESERVE_COUNT, ReservedPaths
from tests.support.fakes.metadata import MemoryMetadata


class RecordingMetadata(MemoryMetadata):
    """Attributes: reserved has every path in order; each lost answer takes `answer_s`."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.reserved: list[str] = []
        self.lost_answers = 0
        self.answer_s = 0.0
        self.now_s = 0.0

    async def reserve_objects(self, paths: Sequence[str]) -> None:
        await super().reserve_objects(paths)
        if self.lost_answers:
            self.lost_answers -= 1
            self.now_s += self.answer_s
            raise MetadataUnavailable("the answer was lost")
        self.reserved += paths


@pytest.fixture
def metadata() -> RecordingMetadata:
    return RecordingMetadata()


@pytest.fixture
async def paths(metadata: RecordingMetadata) -> AsyncIterator[ReservedPaths]:
    ids = itertools.count()
    reserved = ReservedPaths(metadata, lambda: UUID(int=next(ids)), lambda: metadata.now_s)
    yield reserved
    await reserved.close()


async def test_every_path_is_given_once_after_it_was_reserved(
    metadata: RecordingMetadata, paths: ReservedPaths
) -> None:
    taken = [await paths.take() for _ in range(3 * RESERVE_COUNT)]
    assert taken == metadata.reserved[: len(taken)]
    assert len(set(taken)) == len(taken)


async def test_a_path_is_used_up_to_its_lifetime_and_not_after(
    metadata: RecordingMetadata, paths: ReservedPaths
) -> None:
    # Given a broker that has just uploaded something
    await paths.take()
    first = list(metadata.reserved)

    # When it uploads again while its other paths have their lifetime
    metadata.now_s += RESERVED_LIFETIME_S
    assert await paths.take() == first[1]

    # And once more after that
    metadata.now_s += 1
    late = await paths.take()

    # Then the last one has a path that was reserved just before
    assert late not in first
    assert late == metadata.reserved[RESERVE_COUNT]


async def test_the_lifetime_begins_with_the_first_try_to_reserve(
    metadata: RecordingMetadata, paths: ReservedPaths
) -> None:
    # Given that the first answer is lost for longer than a lifetime
    metadata.lost_answers, metadata.answer_s = 1, RESERVED_LIFETIME_S + 1

    # When a path is taken
    taken = await paths.take()

    # Then it is none of those, which may be as old as that
    assert taken not in metadata.reserved[:RESERVE_COUNT]
    assert taken in metadata.reserved
