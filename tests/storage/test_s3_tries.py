"""How long tries at an S3 store may take, on a clock that jumps."""

import asyncio
from functools import partial

import pytest

from storage.config import KiB, MiB
from storage.errors import ObjectStoreUnavailable
from storage.objects.s3_tries import Moved, S3Tries
from storage.objects.store_traffic import StoreTraffic
from tests.support import virtual_time

PIECE_BYTES = 512 * KiB
OBJECT_BYTES = 8 * MiB
DEADLINE_S = 15.0


def now() -> float:
    return asyncio.get_running_loop().time()


def new_tries() -> S3Tries:
    return S3Tries(DEADLINE_S, StoreTraffic(now))


class Link:
    """What all transfers share: it carries a piece of each in turn."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._turn = asyncio.Lock()

    async def carry(self, size: int, moved: Moved) -> None:
        for _ in range(0, size, PIECE_BYTES):
            async with self._turn:
                await asyncio.sleep(PIECE_BYTES / self._bytes_per_s)
            moved()


@pytest.mark.parametrize(
    ("verb", "sizes", "mib_per_s"),
    [("PUT", [OBJECT_BYTES] * 5, 2.0), ("PUT", [64 * MiB], 0.5), ("GET", [OBJECT_BYTES] * 8, 1.0)],
)
def test_a_slow_link_carries_all_in_the_end(verb: str, sizes: list[int], mib_per_s: float) -> None:
    async def main() -> float:
        # Given a link on which what goes side by side takes longer than a first try has
        tries, link, places = new_tries(), Link(mib_per_s * MiB), asyncio.Semaphore(4)

        # When a writer's uploads share it, or readers do, each made again until it is done
        async def transfer(size: int) -> None:
            async with places:
                while True:
                    try:
                        return await tries.run(verb, "s3://it", size, partial(link.carry, size))
                    except ObjectStoreUnavailable:
                        continue

        async with asyncio.timeout(600):
            await asyncio.gather(*map(transfer, sizes))
        return now()

    # Then each is carried, and little more than half of what moves was for nothing
    assert virtual_time.run(main()) < 2.5 * sum(sizes) / (mib_per_s * MiB)


def test_one_slow_connection_is_given_up_for_another() -> None:
    async def main() -> float:
        # Given a connection that is slow, and others that are not
        links = iter([Link(200 * KiB), Link(50 * MiB)])

        # When an object is sent, then that takes its first try's time, and little more
        await new_tries().run("PUT", "s3://it", MiB, lambda moved: next(links).carry(MiB, moved))
        return now()

    assert 2.5 < virtual_time.run(main()) < 2.6


@pytest.mark.parametrize("piece_bytes", [0, PIECE_BYTES], ids=["none", "a piece"])
def test_a_server_that_hangs_is_given_up(piece_bytes: int) -> None:
    async def main() -> float:
        # Given a server that takes nothing, or a piece, and does not answer
        async def hang(moved: Moved) -> None:
            if piece_bytes:
                moved()
            await asyncio.Event().wait()

        # When an object is sent, then it is unavailable at the deadline, or when a try that moved
        # a piece has had its time
        with pytest.raises(ObjectStoreUnavailable, match=r"nothing in 17 s"):
            await new_tries().run("PUT", "s3://it", 4 * MiB, hang)
        return now()

    took_s = virtual_time.run(main())
    assert took_s == pytest.approx(17) if not piece_bytes else 17 <= took_s < 30
