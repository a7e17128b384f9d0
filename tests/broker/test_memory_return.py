"""Memory that is free goes back to the operating system."""

import psutil

from broker.memory_return import find_trim

PIECE_BYTES = 64 * 1024
PIECES = 2000


def test_free_memory_between_what_stays_is_given_back() -> None:
    # Given a process that has let go of every other one of many pieces of memory
    process = psutil.Process()
    pieces = [bytearray(b"\1" * PIECE_BYTES) for _ in range(PIECES)]
    del pieces[::2]
    held_bytes = process.memory_info().rss

    # When it gives back what is free
    trim = find_trim()
    assert trim is not None, "glibc has it"
    trim(0)

    # Then most of it is gone, and what stays is whole
    given_back = held_bytes - process.memory_info().rss
    assert given_back > PIECES // 2 * PIECE_BYTES * 0.7
    assert all(piece[0] == piece[-1] == 1 for piece in pieces)
