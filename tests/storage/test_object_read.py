"""Reads past the page cache: they leave nothing in it, and do without it where they have to."""

import os
from pathlib import Path
from random import Random

import pytest

from storage.config import MiB
from storage.errors import ObjectMissing
from storage.objects.direct_io import O_DIRECT
from storage.objects.object_read import TRUSTED_BYTES, ReadOnce
from storage.reading.read_buffers import ReadBuffers

STORED = Random(1).randbytes(3 * MiB + 1)
RANGES = [(0, MiB), (4_095, MiB), (4_097, MiB + 3), (2 * MiB, MiB + 1), (0, len(STORED))]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A durable file that no page cache has."""
    path = tmp_path / "object"
    path.write_bytes(STORED)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def is_cached(path: Path, start: int) -> bool:
    """Whether a byte of the file can be had without asking its disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(1)], start, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(file)


@pytest.mark.parametrize(("start", "length"), RANGES)
def test_what_is_read_once_is_whole_and_leaves_nothing_in_the_page_cache(
    stored: Path, start: int, length: int
) -> None:
    # Given a file that its page cache has nothing of, unless the file system is one in memory
    keeps_all = is_cached(stored, MiB)  # elsewhere: to ask makes the kernel read there

    # When a range is read once
    read = ReadOnce(str(stored), start, length, ReadBuffers())
    found = read.run()
    read.tidy()

    # Then it is what was written, whoever has it may change it, and no other read is faster for it
    assert bytes(found) == STORED[start : start + length]
    found[0] = 7
    assert keeps_all or not is_cached(stored, start + length // 2)


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
