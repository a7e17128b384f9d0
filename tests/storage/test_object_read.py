"""Reads past the page cache: they leave nothing in it, and do without it where they have to."""

import ctypes
import mmap
import os
import time
from pathlib import Path
from random import Random

import pytest

from storage.config import MiB
from storage.errors import ObjectMissing
from storage.objects.direct_io import O_DIRECT, address_of
from storage.objects.object_read import TRUSTED_BYTES, ReadOnce
from storage.reading.read_buffers import ReadBuffers

STORED = Random(1).randbytes(3 * MiB + 1)
ALL_PAGES = -(-len(STORED) // mmap.PAGESIZE)
FORGOTTEN_S = 10.0
RANGES = [(0, MiB), (4_095, MiB), (4_097, MiB + 3), (2 * MiB, MiB + 1), (0, len(STORED))]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A durable file that no page cache has, unless its file system is one in memory."""
    path = tmp_path / "object"
    path.write_bytes(STORED)
    deadline = time.monotonic() + FORGOTTEN_S
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while 0 < cached_pages(path) < ALL_PAGES and time.monotonic() < deadline:  # some was in use
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def cached_pages(path: Path) -> int:
    """Return how many pages of the file the page cache has, without changing that."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = bytearray(-(-len(mapped) // mmap.PAGESIZE))
        with memoryview(mapped) as data:
            start = ctypes.c_void_p(address_of(data))
        state = (ctypes.c_ubyte * len(pages)).from_buffer(pages)
        assert ctypes.CDLL(None).mincore(start, ctypes.c_size_t(len(mapped)), state) == 0
    return sum(page & 1 for page in pages)


@pytest.mark.parametrize(("start", "length"), RANGES)
def test_what_is_read_once_is_whole_and_leaves_nothing_in_the_page_cache(
    stored: Path, start: int, length: int
) -> None:
    # Given a file that no page cache has, or one in memory
    before = cached_pages(stored)
    assert before in (0, ALL_PAGES)

    # When a range is read once
    read = ReadOnce(str(stored), start, length, ReadBuffers())
    found = read.run()
    read.tidy()

    # Then it is what was written, whoever has it may change it, and the page cache has none of it
    assert bytes(found) == STORED[start : start + length]
    found[0] = 7
    assert cached_pages(stored) == before


def test_where_there_is_no_way_past_the_page_cache_it_is_used(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a file system that refuses, and then a disk that does
    really_open, really_read = os.open, os.preadv
    refused = []

    def refuse_to_open(path: str, flags: int) -> int:
        if flags & O_DIRECT:
            refused.append("open")
            raise OSError(22, "Invalid argument")
        return really_open(path, flags)

    def refuse_to_read(file: int, buffers: list[bytearray], start: int) -> int:
        if "read" not in refused:
            refused.append("read")
            raise OSError(22, "Invalid argument")
        return really_read(file, buffers, start)

    for name, refuse in (("open", refuse_to_open), ("preadv", refuse_to_read)):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, refuse)

            # When a range is read
            found = ReadOnce(str(stored), 5, MiB, ReadBuffers()).run()

        # Then it is read all the same
        assert bytes(found) == STORED[5 : 5 + MiB]
    assert refused == ["open", "read"]


@pytest.mark.parametrize(("start", "length"), [(3 * MiB, MiB), (0, TRUSTED_BYTES), (8 * MiB, MiB)])
def test_what_is_too_short_is_missing(stored: Path, start: int, length: int) -> None:
    with pytest.raises(ObjectMissing, match="ends at"):
        ReadOnce(str(stored), start, length, ReadBuffers()).run()
